"""The columns of a dataset over time and of two versions, its older commits, its code, and charts of failed rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.unit.serve.conftest import NOON, SCHEMA, assert_golden, definitions

from headrace.events.recorded import Recorded
from headrace.events.types import DatasetDefined
from headrace.model.datasets import Kind
from headrace.model.schema import Column, Schema
from headrace.serve.charts import share_bars
from headrace.serve.pages.schema_facts import changes_between, schema_history

PATH = "/p/shop/d/orders"
CODE = '''"""Orders."""
from headrace import pipelines as dp


@dp.table(comment="<script>alert(1)</script>")
def orders():
    return spark.readStream.table("landing")


@dp.table
def other():
    return 1
'''


def column(name, kind="integer", *, nullable=True, comment=None):
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {"comment": comment} if comment else {}}


def defined(number, *columns):
    event = DatasetDefined("orders", Kind.STREAMING_TABLE, "/t", schema={"type": "struct", "fields": [*columns]})
    return Recorded(f"row-{number}", f"update-{number}", NOON + timedelta(hours=number), event)


def test_columns_that_came_went_and_changed_are_named():
    before = Schema((Column("id", '"integer"'), Column("gone", '"string"'), Column("amount", '"integer"', comment="a")))
    after = Schema((Column("ID", '"long"'), Column("amount", '"integer"', nullable=False), Column("new", '"date"')))

    found = [(one["column"], one["change"], one["before"], one["after"]) for one in changes_between(before, after)]

    assert found == [
        ("new", "added", None, "date"),
        ("gone", "removed", "string", None),
        ("ID", "renamed", "id", "ID"),
        ("ID", "type", "int", "bigint"),
        ("amount", "NULL", "allowed", "not allowed"),
        ("amount", "comment", "a", None),
    ]


def test_columns_over_time_are_the_differences_between_updates():
    newest_first = [
        defined(3, column("id", "long"), column("amount")),
        defined(2, column("id"), column("amount")),
        replace(defined(1), event=replace(defined(1).event, schema={"other": "version"})),
        defined(0, column("id")),
    ]

    found = schema_history(newest_first)

    assert [(one["update_id"], [change["change"] for change in one["changes"]]) for one in found] == [
        ("update-3", ["type"]),
        ("update-2", ["added"]),
        ("update-0", []),
    ]
    assert (found[-1]["columns"], schema_history([])) == (1, [])


def test_two_versions_are_compared_and_older_commits_are_a_page_further(busy_shop, served):
    for number in range(30):
        write_deltalake(busy_shop.table("orders"), pa.table({"id": [number]}), mode="append")
    wider = pa.table({"id": [1], "amount": [2.5]})
    write_deltalake(busy_shop.table("orders"), wider, mode="append", schema_mode="merge")
    browser = served(busy_shop).sign_in()

    newest = browser.call(f"{PATH}.json").json
    older = browser.call(f"{PATH}.json?before={newest['earlier']}").json
    compared = browser.call(f"{PATH}.json?from=0&to=33").json["compared"]
    beyond, odd = (browser.call(f"{PATH}.json?from={first}&to=99").json["compared"] for first in ("1", "-x"))

    assert (len(newest["history"]), newest["earlier"]) == (30, 4)
    assert ([one["version"] for one in older["history"]], older["earlier"]) == ([3, 2, 1, 0], None)
    assert [(one["column"], one["change"]) for one in compared["changes"]] == [("amount", "added")]
    assert (beyond["problem"], odd) == ("The log of the table does not have version 99.", None)
    assert "Rows of versions 0 and 33" in browser.call(f"{PATH}?from=0&to=33").text


def test_the_code_of_a_dataset_is_shown_as_text(busy_shop, served):
    (busy_shop.root / "transformations" / "a.py").write_text(CODE)
    browser = served(busy_shop).sign_in()

    (place,) = browser.call(f"{PATH}.json").json["code"]

    assert (place["file"], place["line"]) == ("transformations/a.py", 5)
    assert place["text"].startswith("@dp.table(")
    assert place["text"].endswith('table("landing")')
    assert "<script>alert" not in browser.call(PATH).text


def test_the_page_of_a_dataset_is_as_expected(seen_shop, browser):
    assert_golden("dataset", browser.call(PATH).text, seen_shop)
    assert definitions()[0].schema == SCHEMA


@pytest.mark.parametrize("shares", [[0.0], [0.001, 0.0], [1.0, 0.5], [0.03] * 60])
def test_bars_of_shares_stay_inside_of_their_box_and_little_does_not_look_like_much(shares):
    chart = share_bars(shares)

    assert chart["top"] >= max(0.01, *shares)
    assert all(bar["y"] >= 0 and bar["y"] + bar["height"] <= chart["height"] + 0.1 for bar in chart["bars"])
    assert all(bar["x"] + chart["bar"] <= chart["width"] for bar in chart["bars"])
    assert share_bars([]) is None
