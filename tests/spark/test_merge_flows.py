"""Flows that replace rows by key, and change events that are merged once."""

from __future__ import annotations

import pytest

from headrace.model.outcome import UpdateState

pytestmark = pytest.mark.spark

TEXT = """
    @dp.table(schema="id INT, city STRING, version INT")
    def readings():
        return spark.readStream.schema("id INT").json("unused")

    @dp.table(schema="id INT, city STRING, version INT")
    def before():
        return spark.readStream.schema("id INT").json("unused")

    dp.create_streaming_table("newest")

    @dp.replace_flow(target="newest", replace_using=["id"], sequence_by="version")
    def newest_readings():
        return spark.readStream.table("readings")

    dp.create_streaming_table("seeded")
    dp.create_auto_cdc_flow("seeded", "before", ["id"], "version", once=True, name="seed", stored_as_scd_type=2)
    dp.create_auto_cdc_flow("seeded", "readings", ["id"], "version", stored_as_scd_type=2)
    """
# The same in SQL; the last flow is declared after its table.
SQL = """
    CREATE STREAMING TABLE newest_too FLOW REPLACE USING (id) SEQUENCE BY version BY NAME SELECT * FROM STREAM readings;
    CREATE STREAMING TABLE seeded_too;
    CREATE FLOW seed_too AS AUTO CDC ONCE INTO seeded_too FROM before KEYS (id) SEQUENCE BY version;
    CREATE STREAMING TABLE newest_as_well;
    CREATE FLOW newer AS INSERT INTO newest_as_well BY NAME REPLACE USING (id) SEQUENCE BY version
      SELECT * FROM STREAM readings;
    """
READINGS = [(1, "Oslo", 3), (2, "Rome", 2)], [(1, "Bern", 2)]


def reading(number, city, version):
    return {"id": number, "city": city, "version": version}


def rows(result, name):
    return sorted((tuple(row.values()) for row in result.rows(name)), key=str)


@pytest.fixture(scope="module")
def result(shared_project):
    pipeline = shared_project(TEXT)
    pipeline.given("before", [reading(1, "Rome", 1), reading(3, "Bern", 1)])
    pipeline.given("readings", *[[reading(*one) for one in batch] for batch in READINGS])
    pipeline.run()
    # What a flow has merged once stays as it was.
    pipeline.given("before", [reading(3, "Oslo", 2)])
    return pipeline.run("seeded")


def test_a_replace_flow_keeps_the_row_with_the_greatest_sequence_for_each_key(result):
    assert rows(result, "newest") == [(1, "Oslo", 3), (2, "Rome", 2)]


def test_a_once_flow_adds_its_change_events_to_the_history(result):
    assert result.state is UpdateState.COMPLETED
    assert rows(result, "seeded") == [
        (1, "Bern", 2, 2, 3),
        (1, "Oslo", 3, 3, None),
        (1, "Rome", 1, 1, 2),
        (2, "Rome", 2, 2, None),
        (3, "Bern", 1, 1, None),
    ]


@pytest.mark.long(
    guard=(
        "tests/spark/test_merge_flows.py::test_a_replace_flow_keeps_the_row_with_the_greatest_sequence_for_each_key",
        "tests/unit/sql/test_sql_golden.py::test_a_sql_file_produces_the_expected_definitions_and_problems",
    )
)
def test_merge_flows_declared_in_sql_return_the_same_rows(project):
    pipeline = project(TEXT, files={"transformations/more.sql": SQL})
    pipeline.given("before", [reading(1, "Rome", 1), reading(3, "Bern", 1)])
    pipeline.given("readings", *[[reading(*one) for one in batch] for batch in READINGS])
    pipeline.run()
    pipeline.given("before", [reading(3, "Oslo", 2)])

    result = pipeline.run()

    for table in ("newest_too", "newest_as_well"):
        assert rows(result, table) == [(1, "Oslo", 3), (2, "Rome", 2)]
    assert rows(result, "seeded_too") == [(1, "Rome", 1), (3, "Bern", 1)]
