"""The lineage of a dataset's columns on its page: what they come from, and what reads them; and samples of its rows."""

from __future__ import annotations

import json
import re

from tests.unit.serve.conftest import definitions, plain

from headrace.events.types import DatasetDefined, FlowDefined, RowsSampled
from headrace.model.column_lineage import ColumnLineage, ColumnUse, OutputColumn, Use
from headrace.model.dataset_id import DatasetId
from headrace.model.datasets import Kind
from headrace.serve.pages.lineage_facts import MOST_COLUMNS, MOST_USES, lineage_facts
from headrace.serve.pages.sampled_rows import MOST_CHARACTERS, MOST_ROWS
from headrace.serve.roles import Role

AMOUNT = ColumnUse("orders", "amount", Use.AGGREGATION)
STATUS = ColumnUse("orders", "Status", Use.FILTER)
RATE = ColumnUse(DatasetId("s3://rates", "daily"), "rate", Use.IDENTITY)
REVENUE = ColumnLineage((OutputColumn("total", (AMOUNT,)), OutputColumn("rate", (RATE,))), (STATUS,))


def flow(columns, name="revenue", dataset="revenue", inputs=("orders",)):
    return FlowDefined(name, dataset, inputs, columns=columns)


def column_of(facts, name):
    return next(one for one in facts["columns"] if one["column"] == name)


def lineage_in(html):
    return html.partition('aria-labelledby="h-lineage">')[2].partition("</section>")[0]


def read(html):
    """Its text, with single spaces."""
    return re.sub(r"\s+", " ", plain(lineage_in(html))).strip()


def shop_with(shop, columns, **more):
    shop.update(
        "u1", *definitions()[:1], DatasetDefined("revenue", Kind.MATERIALIZED_VIEW, "/t"), flow(columns, **more)
    )
    return shop


def test_a_column_has_its_sources_and_how_they_are_used_those_outside_with_their_namespace():
    facts = lineage_facts("revenue", [], [flow(REVENUE)])

    amount = {"namespace": None, "dataset": "orders", "column": "amount", "use": "AGGREGATION", "is_direct": True}
    assert column_of(facts, "total")["from"] == {"uses": [amount], "more": 0}
    assert column_of(facts, "rate")["from"]["uses"][0]["namespace"] == "s3://rates"
    assert [one["use"] for one in facts["rows"]["uses"]] == ["FILTER"]


def test_a_column_has_the_columns_and_rows_of_other_datasets_that_read_it():
    cut = ColumnLineage(is_complete=False)
    readers = [flow(REVENUE), flow(None, "copy", "copy"), flow(cut, "wide", "wide")]

    facts = lineage_facts("orders", ["id", "Amount", "status"], readers)

    total = {"dataset": "revenue", "column": "total", "use": "AGGREGATION", "is_direct": True}
    rows = {"dataset": "revenue", "column": None, "use": "FILTER", "is_direct": False}
    # Spark does not mind the case of names.
    found = {one["column"]: one["read_by"]["uses"] for one in facts["columns"]}
    assert found == {"id": [], "Amount": [total], "status": [rows]}
    assert facts["unknown_readers"] == ["copy", "wide"]


def test_columns_of_several_flows_are_joined_with_what_computes_values_first():
    first = ColumnLineage((OutputColumn("total", (ColumnUse("orders", "id", Use.CONDITIONAL),)),))
    second = ColumnLineage((OutputColumn("TOTAL", (AMOUNT,)),), is_complete=False)

    facts = lineage_facts("revenue", ["total"], [flow(first), flow(second, "more"), flow(None, "third")])

    assert [one["column"] for one in facts["columns"]] == ["total"]
    assert [one["column"] for one in column_of(facts, "total")["from"]["uses"]] == ["amount", "id"]
    assert (facts["is_complete"], facts["unknown_flows"]) == (False, ["third"])


def test_wide_tables_are_cut_and_what_is_left_out_is_counted():
    uses = tuple(ColumnUse("orders", f"c{number}", Use.TRANSFORMATION) for number in range(MOST_USES + 7))
    wide = ColumnLineage(tuple(OutputColumn(f"c{number}", uses) for number in range(MOST_COLUMNS + 3)))

    facts = lineage_facts("revenue", [], [flow(wide)])

    assert (len(facts["columns"]), facts["more_columns"]) == (MOST_COLUMNS, 3)
    assert {(len(one["from"]["uses"]), one["from"]["more"]) for one in facts["columns"]} == {(MOST_USES, 7)}


def test_the_page_shows_the_lineage_and_links_to_the_pages_of_other_datasets(shop, served):
    browser = served(shop_with(shop, REVENUE)).sign_in()

    revenue, orders = (browser.call(f"/p/shop/d/{name}").text for name in ("revenue", "orders"))

    assert "total orders.amount aggregation no column" in read(revenue)
    assert "rate s3://rates daily.rate no column" in read(revenue)
    assert "Rows depend onorders.Status filter" in read(revenue)
    assert '<a href="/p/shop/d/orders"><bdi>orders</bdi></a>' in lineage_in(revenue)
    assert "amount not recorded revenue.total aggregation" in read(orders)
    assert "Status not recorded revenue, its rows filter" in read(orders)


def test_the_page_and_the_api_have_the_same_facts(shop, served):
    browser = served(shop_with(shop, REVENUE)).sign_in()

    page = browser.call("/p/shop/d/revenue.json").json["lineage"]
    api = browser.call("/api/v1/pipelines/shop/datasets/revenue").json["lineage"]

    assert page == api == lineage_facts("revenue", [], [flow(REVENUE)])


def test_without_recorded_lineage_the_page_says_what_records_it(shop, served):
    browser = served(shop_with(shop, None)).sign_in()

    text = read(browser.call("/p/shop/d/revenue").text)

    assert "No lineage was recorded." in text
    assert "run headrace run" in text


def test_the_page_says_what_is_missing_in_lineage_that_is_not_complete(shop, served):
    cut = ColumnLineage((OutputColumn("total", ()),), is_complete=False)
    browser = served(shop_with(shop, cut)).sign_in()

    text = read(browser.call("/p/shop/d/revenue").text)

    assert "total not recorded no column" in text
    assert "Some sources are not listed" in text


def test_names_of_columns_cannot_be_code_of_the_page(shop, served):
    attack = '"><img src=x onerror=alert(1)>'
    outside = ColumnUse(DatasetId(attack, attack), attack, Use.SORT)
    lineage = ColumnLineage((OutputColumn(attack, (ColumnUse("orders", attack, Use.IDENTITY),)),), (outside,))
    browser = served(shop_with(shop, lineage)).sign_in()

    found = [lineage_in(browser.call(f"/p/shop/d/{name}").text) for name in ("revenue", "orders")]

    assert all("<img" not in html and "&lt;img src=x" in html for html in found)


SAMPLE = RowsSampled("orders", "orders", 0, 3, "valid", ('{"mail":"<script>ann@example.com"}', '{"id":1}'))


def test_operators_see_the_newest_rows_that_violated_expectations_and_viewers_see_what_they_need(shop, served):
    shop.update("u1", *definitions(), SAMPLE)
    browser = served(shop)
    viewer = browser.tokens.add("bob", Role.VIEWER, shop.clock.seconds())

    def page(token, ending=""):
        return browser.call(f"/p/shop/d/orders{ending}", authorization=f"Bearer {token}")

    assert "&lt;script&gt;ann@example.com" in page(browser.token).text
    assert [one["row"] for one in page(browser.token, ".json").json["samples"]["rows"]] == list(SAMPLE.rows)
    assert "ann@example" not in page(viewer).text + page(viewer, ".json").text
    assert "they need the role operator" in page(viewer).text


def test_the_document_of_the_api_has_no_rows(shop, served):
    shop.update("u1", *definitions(), SAMPLE)
    browser = served(shop)

    found = browser.call("/api/v1/pipelines/shop/datasets/orders", authorization=f"Bearer {browser.token}")

    assert found.status == 200
    assert "ann@example" not in found.text


def test_samples_are_bounded_and_the_page_says_that_there_are_more(shop, served):
    rows = tuple(json.dumps({"text": "x" * 5_000, "number": number}) for number in range(60))
    shop.update("u1", *definitions(), RowsSampled("orders", "orders", 0, 3, "valid", rows))
    browser = served(shop).sign_in()

    samples = browser.call("/p/shop/d/orders.json").json["samples"]

    assert (len(samples["rows"]), samples["more"]) == (MOST_ROWS, True)
    assert {len(one["row"]) for one in samples["rows"]} == {MOST_CHARACTERS}


def test_without_samples_the_page_says_which_setting_keeps_them(shop, served):
    shop.update("u1", *definitions())
    browser = served(shop).sign_in()

    assert "headrace.broken_rows.samples" in browser.call("/p/shop/d/orders").text
