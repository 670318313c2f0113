"""An update that dies while it merges changes leaves what the next one makes whole."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace import Project
from headrace.model.outcome import UpdateState
from headrace.project.test_harness import Harness
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

TEXT = """
    @dp.table(schema="id INT, city STRING, version INT, operation STRING")
    def events():
        return spark.readStream.schema("id INT").json("unused")

    @dp.temporary_view
    def changes():
        return spark.readStream.option("maxFilesPerTrigger", 1).table("events")

    dp.create_streaming_table("cities", expect_all_or_drop={"a city": "city <> 'nowhere'"})
    dp.create_auto_cdc_flow(
        target="cities",
        source="changes",
        keys=["id"],
        sequence_by="version",
        apply_as_deletes="operation = 'delete'",
        column_list=["id", "city"],
        stored_as_scd_type=2,
    )
    """


def event(number, city, version, operation="upsert"):
    return {"id": number, "city": city, "version": version, "operation": operation}


BATCHES = [
    [event(1, "Oslo", 1), event(1, "Oslo", 3), event(2, "Rome", 2), event(None, "Bern", 1), event(3, "nowhere", 1)],
    [event(1, "Bern", 2), event(2, None, 3, "delete"), event(2, None, 5, "delete")],
    [event(2, "Oslo", 4), event(1, "Oslo", None), event(1, "Oslo", 3)],
]
VERSIONS = [
    (1, "Bern", 2, 3),
    (1, "Oslo", 1, 2),
    (1, "Oslo", 3, None),
    (2, "Oslo", 4, 5),
    (2, "Rome", 2, 3),
]


@pytest.fixture(scope="module")
def merged(shared_project):
    """A pipeline that crashed twice in its first batch, and the update after them, which takes one more."""
    pipeline = shared_project(TEXT).given("events", BATCHES[0] + BATCHES[1], BATCHES[2])
    for point in (Failpoint.EVENTS_RETAINED, Failpoint.WRITTEN):
        with pytest.raises(Crashed):
            pipeline.crash_at(point).run("cities")
        pipeline.restart()
    return pipeline, pipeline.run("cities")


def versions(pipeline):
    return sorted((tuple(row.values()) for row in pipeline.rows("cities")), key=str)


def remembered(pipeline):
    memory = pipeline.folder / "storage" / "system" / "cdc" / "default" / "cities"
    return DeltaTable(memory).to_pyarrow_table().num_rows


def test_a_crash_changes_neither_rows_nor_counts(merged):
    pipeline, result = merged

    assert result.state is UpdateState.COMPLETED
    assert versions(pipeline) == VERSIONS
    counts = pipeline.project.events().flow_totals()["cities"]
    assert (counts.rows_written, counts.rows_quarantined, counts.rows_dropped) == (8, 2, 1)
    broken = {(row["row"]["city"], *row["broken"]) for row in pipeline.rows("cities_quarantine")}
    assert broken == {("Bern", "cdc.null_key"), ("Oslo", "cdc.null_sequence")}


def test_a_full_refresh_clears_the_retained_events(merged):
    pipeline, _ = merged
    before = remembered(pipeline)
    text = (pipeline.folder / "transformations" / "project.py").read_text()
    pipeline.write("transformations/project.py", text.replace('.option("maxFilesPerTrigger", 1)', ""))

    pipeline.run(full_refresh=["cities"])

    # Now that all events come in one batch, the rows tell of the deletes.
    assert before > 0
    assert remembered(pipeline) == 0
    assert versions(pipeline) == VERSIONS


LANDED = """
    from pathlib import Path

    @dp.temporary_view
    def events():
        columns = "id INT, city STRING, version INT"
        rows = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1)
        return rows.json(str(Path(__file__).parents[1] / "landing"))

    dp.create_streaming_table("cities")
    dp.create_auto_cdc_flow("cities", "events", ["id"], "version", column_list=["id", "city"], stored_as_scd_type=2)
    """


def test_a_merge_includes_rows_that_another_writer_adds_during_the_batch(project):
    pipeline = project(LANDED)
    for version, city in enumerate(["Oslo", "Bern"], 1):
        file = pipeline.land(f"landing/{version}.json", [{"id": 1, "city": city, "version": version}])
        os.utime(file, (version, version))
    table = pipeline.folder / "storage" / "tables" / "default" / "cities"
    writes = []

    def write_first(point):
        writes.extend([point] * (point is Failpoint.BEFORE_WRITE))
        # The second batch is computed for the first time.
        if point is Failpoint.BEFORE_WRITE and len(writes) == 2:
            start, end = pa.array([3], pa.int32()), pa.array([None], pa.int32())
            row = pa.table({"id": pa.array([1], pa.int32()), "city": ["Rome"], "__START_AT": start, "__END_AT": end})
            write_deltalake(table, row, mode="append")

    outcome = Project(pipeline.settings, os.environ, Harness(write_first)).run()

    assert outcome.state is UpdateState.COMPLETED
    assert len(writes) == 3
    assert sorted(tuple(row.values()) for row in pipeline.rows("cities")) == [
        (1, "Bern", 2, 3),
        (1, "Oslo", 1, 2),
        (1, "Rome", 3, None),
    ]
