"""Fields with names that Parquet does not take, in files that come later: they reach every table, and stop none."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from tests.spark.test_auto_loader import landing

from headrace.testing.result import table_path

GUARD = (
    "tests/unit/graph/test_new_tables.py::test_existing_table_gets_column_mapping_when_needed_unless_declared_otherwise"
)
pytestmark = [pytest.mark.spark, pytest.mark.long(guard=GUARD)]

PIPELINE = """
    def read():
        reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", "json")
        return reader.option("cloudFiles.inferColumnTypes", "true").load("{data}")

    @dp.table
    def bronze():
        return read()

    @dp.table
    @dp.expect_or_quarantine("positive", "v > 0")
    def silver():
        return spark.readStream.table("bronze")

    dp.create_streaming_table("newest")
    dp.create_auto_cdc_flow(target="newest", source="bronze", keys=["k"], sequence_by="id")

    @dp.materialized_view
    def counted():
        return spark.read.table("silver").groupBy("k").agg(F.count("*").alias("n"))

    @dp.materialized_view
    def copied():
        return spark.read.table("silver")

    @dp.materialized_view
    def times():
        first, last = "timestamp'0001-01-01 00:00:00'", "timestamp'9999-12-31 23:59:59.999999'"
        return spark.sql(f"SELECT {{first}} AS at UNION ALL SELECT {{last}}")

    @dp.table(table_properties={{"delta.columnMapping.mode": "none"}})
    def plain():
        return read()
"""
SPECIAL = {"a b": {"c;d": 1}, "details=": 2, "a.b": 3}


@pytest.fixture(scope="module")
def updated(shared_project, tmp_path_factory):
    """A pipeline after three updates: the second one's files have such fields, the third one's have others yet."""
    data = tmp_path_factory.mktemp("landing")
    land = landing(data)
    land("a.json", {"id": 1, "k": 1, "v": 1}, {"id": 2, "k": 2, "v": -1})
    pipeline = shared_project(PIPELINE.format(data=data))
    results = [pipeline.run()]
    land("b.json", {"id": 3, "k": 1, "v": 3, **SPECIAL, "z\0": 4}, {"id": 4, "k": 2, "v": -2, **SPECIAL})
    results.append(pipeline.run())
    land("c.json", {"id": 5, "k": 3, "v": 5, "e\nf": "x", "z\0": 6})
    return pipeline, [*results, pipeline.run()]


def test_every_flow_completes_when_new_fields_have_names_that_parquet_rejects(updated):
    _, results = updated

    states = [{name: state.value for name, state in result.states.items()} for result in results]

    # Nothing that it reads has changed.
    assert [found.pop("times") for found in states] == ["COMPLETED", "UP_TO_DATE", "UP_TO_DATE"]
    assert [set(found.values()) for found in states] == [{"COMPLETED"}] * 3


def test_fields_with_special_names_become_columns_of_the_table_and_its_readers(updated):
    _, (*_, last) = updated

    for name, others in {"bronze": (1, 2, 4, 5), "silver": (1, 5), "copied": (1, 5)}.items():
        rows = {row["id"]: row for row in last.rows(name)}
        assert set(rows) == {3, *others}
        assert {key: rows[3][key] for key in SPECIAL} == SPECIAL
        assert (rows[5]["e\nf"], rows[5]["a b"]) == ("x", None)
    newest = {row["k"]: row for row in last.rows("newest")}
    assert newest[2]["a b"] == SPECIAL["a b"]
    refused = {row["row"]["id"]: row["row"]["a b"] for row in last.rows("silver_quarantine")}
    assert refused == {2: None, 4: SPECIAL["a b"]}


def test_a_field_with_nul_in_its_name_is_rescued(updated):
    _, (*_, last) = updated

    rescued = {row["id"]: json.loads(row["_rescued_data"] or "{}") for row in last.rows("bronze")}

    assert {key: found["z\0"] for key, found in rescued.items() if found} == {3: 4, 5: 6}


def test_fields_with_special_names_are_rescued_when_column_mapping_is_off(updated):
    _, (*_, last) = updated

    rows = {row["id"]: row for row in last.rows("plain")}
    rescued = json.loads(rows[3]["_rescued_data"])

    assert set(rows[3]) == {"id", "k", "v", "a.b", "_rescued_data"}
    assert {key: rescued[key] for key in ("a b", "details=", "z\0")} == {"a b": {"c;d": 1}, "details=": 2, "z\0": 4}


def test_the_plan_is_empty_after_fields_with_special_names_were_added(updated):
    pipeline, _ = updated

    assert pipeline.plan().empty


def test_other_readers_see_the_same_minimum_and_maximum_timestamps(updated):
    _, (*_, last) = updated
    path = table_path(last.layout, last.naming, "times")

    found = DeltaTable(path).to_pyarrow_table().column("at").to_pylist()
    by_query = pa.table(QueryBuilder().register("t", DeltaTable(path)).execute("SELECT at FROM t").read_all())

    times = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]
    assert sorted(found) == sorted(by_query.column("at").to_pylist()) == times


def test_pyarrow_reads_nulls_from_columns_with_special_names_as_documented(updated):
    # docs/reference/storage.md warns of it; once delta-rs reads them right, this fails, and the page can be shorter.
    _, (*_, last) = updated
    path = table_path(last.layout, last.naming, "bronze")

    rows = {row["id"]: row for row in DeltaTable(path).to_pyarrow_table().to_pylist()}

    assert rows[3]["a b"] is None
    assert DeltaTable(path).metadata().configuration["delta.columnMapping.mode"] == "name"
