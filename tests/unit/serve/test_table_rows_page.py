"""Rows of a table, and how two of its versions differ, on the page of a dataset and in the API: for operators."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from html import unescape
from urllib.parse import quote, urlencode

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.unit.delta_log.marked_rows import mark_deleted
from tests.unit.serve.conftest import definitions, plain
from tests.unit.serve.test_api import P, matches
from tests.unit.serve.test_security import Reader
from tests.unit.serve.test_waiting_rows import as_role

from headrace.model.datasets import PRIVATE_PROPERTY
from headrace.serve.roles import Role

PATH, JSON = "/p/shop/d/orders", "/p/shop/d/orders.json"
ROWS, DIFF = f"{P}/datasets/orders/rows", f"{P}/datasets/orders/diff"
SECRET = "anna@example.com"


@pytest.fixture
def shop_with(busy_shop):
    """The shop with a table that a test writes."""

    def write(*versions):
        path = busy_shop.table("orders")
        for number, columns in enumerate(versions):
            mode = "overwrite" if number == 0 else "append"
            write_deltalake(path, pa.table(columns), mode=mode, schema_mode="overwrite" if number == 0 else "merge")
        return busy_shop

    return write


@pytest.fixture
def operator(shop_with, served):
    """Somebody who may see rows, over a shop with such a table."""
    return lambda *versions, **more: as_role(served(shop_with(*versions), **more), Role.OPERATOR)


def values(found):
    return [[cell["value"] for cell in row] for row in found["rows"]]


@pytest.mark.parametrize("role", list(Role))
def test_rows_are_for_operators_and_others_get_nothing_of_them(shop_with, served, role):
    shop = shop_with({"id": [1], "mail": [SECRET]}, {"id": [2], "mail": [f"b{SECRET}"]})
    visitor = as_role(served(shop), role)
    queries = ("show=rows", "from=3&to=4", "show=rows&where=id&value=1")

    pages = [visitor.call(f"{path}?{query}") for path in (PATH, JSON) for query in queries]
    answers = [visitor.call(path) for path in (ROWS, DIFF)]

    may_see = role.includes(Role.OPERATOR)
    assert [SECRET in one.text for one in (*pages, *answers)] == [may_see] * 8
    assert [one.status for one in (*pages, *answers)] == [200] * 6 + [200 if may_see else 403] * 2
    refusal = "Rows may be personal data. Needs the role operator; yours is viewer."
    assert (refusal in plain(pages[0].text)) == (not may_see)


def test_rows_that_an_operator_saw_are_not_in_what_a_viewer_gets(operator):
    visitor = operator({"mail": [SECRET]})
    seen = visitor.call(f"{PATH}?show=rows").text
    as_role(visitor, Role.VIEWER)

    assert (SECRET in seen, SECRET in visitor.call(f"{PATH}?show=rows").text) == (True, False)


def test_nothing_is_read_until_somebody_asks_for_it(operator):
    visitor = operator({"mail": [SECRET]})
    page = visitor.call(JSON).json

    assert (page["table_rows"]["found"], page["rows_diff"]["found"]) == (None, None)
    assert SECRET not in visitor.call(f"{P}/datasets/orders").text


def test_the_form_works_without_scripts_and_keeps_what_was_asked(operator):
    visitor = operator({"id": [1, 2, 3], "amount": ["a", "b", None]})
    asked = [("show", "rows"), ("columns", "id"), ("where", "amount"), ("is", "<>"), ("value", "a"), ("limit", "5")]

    html = visitor.call(f"{PATH}?{urlencode(asked)}").text
    found = visitor.call(f"{JSON}?{urlencode(asked)}").json["table_rows"]["found"]

    assert (found["columns"], values(found), found["has_more"]) == (["id"], [[2]], False)
    assert found["query"] == "SELECT `id` FROM `orders` WHERE `amount` <> 'a' LIMIT 5"
    form = html.partition('action="/p/shop/d/orders#rows"')[2].partition("</form>")[0]
    assert [part in form for part in ('value="amount"', "<option selected>&lt;&gt;</option>", 'value="5"')] == [
        True
    ] * 3
    assert 'value="id" checked' in form
    assert 'value="amount" checked' not in form


_ODD = (
    (pa.array([None], pa.int64()), None, "NULL"),
    (pa.array([""]), "", "empty text"),
    (pa.array([True]), True, "true"),
    (pa.array([float("nan")]), "NaN", "NaN"),
    (pa.array([Decimal("1.50")], pa.decimal128(38, 2)), "1.50", "1.50"),
    (pa.array([date(2026, 11, 20)]), "2026-11-20", "2026-11-20"),
    (pa.array([datetime(2026, 11, 20, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")), "2026-11-20T01:00:00Z", "01:00:00Z"),
    (pa.array([b"\x00\xff"], pa.binary()), "AP8=", "AP8="),
)
_NAMES = ("a.b", "a`b", "a b", "it's", "<script>alert(1)</script>", "%41", "é\u202e", "count(*)")


def test_odd_names_and_values_are_shown_as_they_are_and_never_run(operator):
    table = dict(zip(_NAMES, (one for one, *_ in _ODD), strict=True))
    visitor = operator(table)

    page, found = visitor.call(f"{PATH}?show=rows"), visitor.call(ROWS).json

    assert (found["columns"], values(found)) == ([*_NAMES], [[value for _, value, _ in _ODD]])
    matches("TableRows", found)
    assert [text for text in (*_NAMES, *(shown for *_, shown in _ODD)) if text not in unescape(page.text)] == []
    assert "<script>alert" not in page.text
    for name in _NAMES:
        one = visitor.call(f"{ROWS}?columns={quote(name)}&where={quote(name)}&is=IS%20NOT%20NULL").json
        assert (one["columns"], one["reason"]) == ([name], None)


def test_columns_that_only_spark_reads_are_named_with_the_command(operator):
    visitor = operator({"id": [1], "nested": [{"a": 1}], 'q"': [1]})

    text = plain(visitor.call(f"{PATH}?show=rows").text)
    asked = visitor.call(f"{ROWS}?columns=nested").json

    assert "nested struct<a:bigint> Only Spark is known to read its type." in text
    assert "headrace sql 'SELECT * FROM `orders` LIMIT 20'" in text
    assert (asked["rows"], asked["command"]) == (None, ["headrace", "sql", "SELECT `nested` FROM `orders` LIMIT 20"])
    assert "These rows need Spark." in plain(visitor.call(f"{PATH}?show=rows&columns=nested").text)
    matches("TableRows", asked)


def test_private_tables_are_left_to_the_command_line(operator, busy_shop):
    visitor = operator({"mail": [SECRET]}, {"mail": ["b"]})
    DeltaTable(busy_shop.table("orders")).alter.set_table_properties(
        {PRIVATE_PROPERTY: "true"}, raise_if_not_exists=False
    )

    page = visitor.call(f"{PATH}?show=rows&from=3&to=4")

    assert SECRET not in page.text
    assert "headrace sql --private 'SELECT * FROM `orders` LIMIT 20'" in plain(page.text)
    assert "No rows were compared: that needs Spark. The table is private." in plain(page.text)


def test_long_values_and_many_columns_are_bounded(operator):
    visitor = operator({f"c{number:03}": ["x" * 2_000] * 101 for number in range(120)})

    answer, page = visitor.call(f"{ROWS}?limit=100"), visitor.call(f"{PATH}?show=rows&limit=2")

    found = answer.json
    assert (len(found["rows"]), len(found["columns"]), found["column_count"]) == (100, 100, 120)
    assert (found["has_more"], found["is_cut"]) == (True, True)
    assert {len(value) for row in values(found) for value in row} == {300}
    assert "The first 100 of 120 columns." in plain(page.text)


def test_secrets_are_removed_also_where_a_text_is_cut(busy_shop, shop_with, served):
    hidden = "hunter2hunter2hunter2"
    (busy_shop.root / "pipeline.yml").write_text("name: shop\nconfiguration: {key: '{{secrets/shop/key}}'}\n")
    shop = shop_with({"id": [1], "text": ["x" * 290 + hidden]}, {"id": [2], "text": [hidden]})
    environ = {"HEADRACE_SECRET_SHOP_KEY": hidden, "HEADRACE_HOST": "here"}
    visitor = as_role(served(shop, environ=environ), Role.OPERATOR)
    paths = (
        f"{PATH}?show=rows",
        f"{JSON}?show=rows",
        ROWS,
        DIFF,
        f"{PATH}?from=3&to=4",
        f"{ROWS}?where=text&value={hidden}",
    )

    texts = [visitor.call(path).text for path in paths]

    assert not any("hunter2" in text for text in texts)
    assert "x" * 290 in texts[0]


WRONG = {
    "limit=0": "API.FIELD",
    "limit=101": "API.FIELD",
    "limit=٣": "API.FIELD",
    "where=id&is=LIKE": "API.FIELD",
    f"where=id&value={'1' * 1001}": "API.FIELD",
    "where=id&value=x": "ROWS.VALUE",
    "columns=no": "ROWS.NO_COLUMN",
    "where=no&value=1": "ROWS.NO_COLUMN",
}


def test_what_is_wrong_with_a_question_is_an_error_of_the_api_and_a_text_of_the_page(operator):
    visitor = operator({"id": [1]})

    answers = {query: visitor.call(f"{ROWS}?{query}") for query in WRONG}
    pages = {query: visitor.call(f"{PATH}?show=rows&{query}") for query in ("limit=0", "columns=no")}

    assert {query: one.json["error"]["code"] for query, one in answers.items()} == WRONG
    assert {one.status for one in answers.values()} == {422}
    assert [(one.status, WRONG[query] in one.text) for query, one in pages.items()] == [(200, True)] * 2


def test_datasets_without_a_table_are_refused(busy_shop, served):
    view = replace(definitions()[0], dataset="recent", kind=type(definitions()[0].kind).TEMPORARY_VIEW)
    busy_shop.update("c", *definitions(), view, replace(view, dataset="later", kind=definitions()[0].kind))
    visitor = as_role(served(busy_shop), Role.OPERATOR)

    answers = [visitor.call(f"{P}/datasets/{name}/rows").json for name in ("recent", "later", "shop_out", "no")]
    pages = [visitor.call(f"/p/shop/d/{name}?show=rows").text for name in ("recent", "shop_out")]

    assert [one["error"]["code"] for one in answers] == [*["ROWS.NO_TABLE"] * 3, "SERVE.NO_PAGE"]
    assert not any('id="rows"' in page for page in pages)


def test_the_history_links_to_the_comparison_of_each_version_with_the_one_before(operator, busy_shop):
    visitor = operator({"id": [1, 2, 2], "name": ["a", "b", "c"]})
    write_deltalake(
        busy_shop.table("orders"), pa.table({"id": [1, 2, 3], "name": ["a", "B", SECRET]}), mode="overwrite"
    )

    links = Reader(visitor.call(PATH).text).links
    page = visitor.call(f"{PATH}?from=3&to=4&key=id")
    found = visitor.call(f"{DIFF}?from=3&to=4&key=id").json
    newest = visitor.call(DIFF).json

    assert f"{PATH}?from=3&to=4#compare" in links
    assert found["diff"]["rows"] == {
        "unchanged": 1,
        "changed": 0,
        "only_first": 2,
        "only_second": 2,
        "repeated_keys": 1,
    }
    assert (newest["diff"]["first"]["version"], newest["diff"]["second"]["version"]) == (3, 4)
    assert newest["diff"]["rows"]["only_second"] == 2
    text = " ".join(plain(page.text.replace("</dt>", " ")).split())
    assert "Only in 3 2 Only in 4 2 Changed 0 The same 1" in text
    assert "All rows count: 3 in version 3, and 3 in version 4." in text
    assert SECRET in text
    matches("RowsDiff", found)


def test_changed_rows_show_what_they_were_and_are(operator, busy_shop):
    visitor = operator({"id": [1, 2], "name": ["a", None]})
    write_deltalake(busy_shop.table("orders"), pa.table({"id": [1, 2], "name": ["<b>", ""]}), mode="overwrite")

    found = visitor.call(f"{DIFF}?from=3&to=4&key=id").json["diff"]
    html = visitor.call(f"{PATH}?from=3&to=4&key=id").text

    changed = [(one["key"][0]["value"]["value"], one["values"][0]) for one in found["examples"]]
    assert [(key, one["first"]["value"], one["second"]["value"]) for key, one in changed] == [
        (1, "a", "<b>"),
        (2, None, ""),
    ]
    assert (found["columns"], "<b>" in html, "&lt;b&gt;" in html) == ([{"column": "name", "rows": 2}], False, True)


def test_a_comparison_that_cannot_be_made_whole_is_not_made_at_all(operator, busy_shop):
    visitor = operator({"id": [1], "nested": [{"a": SECRET}]}, {"id": [2], "nested": [{"a": "b"}]})

    page, found = visitor.call(f"{PATH}?from=3&to=4"), visitor.call(f"{DIFF}?from=3&to=4").json

    assert (found["diff"], 'the column "nested"' in found["reason"]) == (None, True)
    text = plain(page.text)
    assert "No rows were compared: that needs Spark." in text
    assert "headrace diff --version 3 --version 4 -- orders" in text
    assert "Only in 3" not in text
    matches("RowsDiff", found)


def test_deleted_rows_are_in_the_difference(operator, busy_shop):
    visitor = operator({"id": [1, 2, 3]})
    mark_deleted(busy_shop.table("orders"), [1], 4, in_file=True)

    rows, found = visitor.call(ROWS).json, visitor.call(f"{DIFF}?from=3&to=4").json

    assert (values(rows), found["diff"]["rows"]["only_first"]) == ([[1], [3]], 1)
    assert found["diff"]["examples"][0]["values"][0]["first"] == {"value": 2, "is_cut": False}


def test_wrong_questions_about_versions_are_refused(operator):
    visitor = operator({"id": [1]}, {"id": [2]})
    wrong = {
        "from=0&to=99": "DIFF.NO_VERSION",
        "from=x": "API.FIELD",
        "to=1": "API.FIELD",
        "from=3&to=4&key=no": "DIFF.NO_KEY_COLUMN",
        "from=3&to=4&limit=0": "API.FIELD",
    }

    answers = {query: visitor.call(f"{DIFF}?{query}") for query in wrong}

    assert {query: one.json["error"]["code"] for query, one in answers.items()} == wrong
    assert {one.status for one in answers.values()} == {422}


def test_a_server_that_only_reads_shows_rows_too(shop_with, served):
    visitor = as_role(served(shop_with({"mail": [SECRET]}), is_read_only=True), Role.OPERATOR)

    assert SECRET in visitor.call(f"{PATH}?show=rows").text
