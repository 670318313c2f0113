"""The fixtures that users test with, used as a user would."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from headrace.errors import PipelineError, Problems
from headrace.testing import Crashed
from headrace.testing.driver import write_project

pytestmark = pytest.mark.spark

PROJECT = """
from pathlib import Path
from headrace import pipelines as dp

LANDING = str(Path(__file__).parents[1] / "landing" / "orders")

@dp.table
def orders_raw():
    return spark.readStream.schema("id INT, amount STRING").json(LANDING)

@dp.temporary_view
def typed():
    return spark.readStream.table("orders_raw").selectExpr("id", "CAST(amount AS DECIMAL(9, 2)) AS amount")

@dp.table
@dp.expect_or_drop("has an id", "id IS NOT NULL")
@dp.expect_or_quarantine("positive", "amount > 0")
def orders():
    return spark.readStream.table("typed")

@dp.materialized_view
def days():
    return spark.read.json("/not/on/this/machine")

@dp.materialized_view
def last_day():
    return spark.sql("SELECT max(day) AS day FROM days")

dp.create_streaming_table("prices")
dp.create_auto_cdc_flow("prices", "orders_raw", keys=["id"], sequence_by="amount", stored_as_scd_type=2)

@dp.materialized_view
def old_prices():
    return spark.sql("SELECT id, amount FROM prices WHERE __END_AT IS NOT NULL")
"""


@pytest.fixture
def shop(pipeline, tmp_path):
    """The user's project, with a landing folder and a storage that are none of a test's business."""
    own = tmp_path / "users" / "shop"
    write_project(
        own, {"transformations/orders.py": PROJECT, "storage/lease.json": "", "landing/orders/0.json": "{}"}, {}
    )
    return pipeline(own)


def test_rows_are_given_to_one_dataset_and_read_from_another(shop):
    shop.given("orders_raw", [{"id": 1, "amount": "3.50"}, {"id": 2, "amount": "-3"}], [{"amount": "1"}])

    result = shop.run("orders")

    assert result.rows("orders") == [{"id": 1, "amount": Decimal("3.50")}]
    assert (result.written, result.dropped, result.quarantined) == (1, 1, 1)
    assert [row["row"]["id"] for row in result.rows("orders_quarantine")] == [2]
    assert result.failed("orders") == {"has an id": 1, "positive": 1}
    assert list(result.states) == ["orders_raw", "orders"]


def test_given_rows_replace_a_view_and_an_unreadable_source(shop):
    shop.given("typed", [{"id": 7, "amount": "2.25"}]).given("days", [{"day": "2024-02-29"}], schema="day DATE")

    assert shop.run("orders").rows("orders") == [{"id": 7, "amount": Decimal("2.25")}]
    assert shop.run("last_day").rows("last_day") == [{"day": date(2024, 2, 29)}]


def test_given_versions_have_their_columns(shop):
    versions = [{"id": 1, "amount": "1", "__START_AT": "1", "__END_AT": "2"}, {"id": 1, "amount": "2"}]

    assert shop.given("prices", versions).run("old_prices").rows("old_prices") == [{"id": 1, "amount": "1"}]


def test_an_update_crashes_at_a_failpoint_and_continues_after_a_restart(shop):
    shop.land("landing/orders/1.json", [{"id": 1, "amount": "1"}, "no JSON"])

    with pytest.raises(Crashed):
        shop.crash_at("counted").run("orders_raw", "orders")
    shop.restart().run("orders_raw", "orders")

    assert [row["id"] for row in shop.rows("orders")] == [1]
    assert shop.sql("SELECT count(*) AS n FROM orders_raw").to_json() == [{"n": 2}]
    with pytest.raises(AssertionError, match="never came"):
        shop.crash_at("counted").run("orders")


def test_given_rows_with_an_unknown_column_are_rejected(shop):
    with pytest.raises(Problems) as found:
        shop.given("orders_raw", [{"amounts": 1}]).run("orders")
    assert "the dataset has no column amounts; it has id, amount" in found.value.errors[0].detail


def test_the_pipeline_fixture_raises_an_error_outside_of_a_project(pipeline):
    with pytest.raises(PipelineError) as error:
        pipeline.run()
    assert error.value.code == "SETTINGS.NOT_FOUND"
