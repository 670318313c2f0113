"""Small files are put together beside the flows: no row changes, no stream sees news, and no stop waits for it."""

from __future__ import annotations

from collections import Counter
from threading import Event

import pytest
from deltalake import DeltaTable

from headrace.events.types import BatchDone
from headrace.model.outcome import UpdateState
from headrace.spark.tables import compaction
from headrace.spark.tables.compaction import count_small_files

pytestmark = pytest.mark.spark

# Files are dear to make. A few are enough where it does not matter how long they take to put together.
FEW = 8
MANY = 80
TEXT = """
    from pathlib import Path

    @dp.table
    @dp.expect_or_quarantine("even", "id % 2 = 0")
    def landed():
        return spark.readStream.schema("id INT").json(str(Path(__file__).parents[1] / "landing"))

    @dp.table
    def later():
        return spark.readStream.table("landed")
    """
MANAGED_ELSEWHERE = """
    @dp.table(table_properties={"pipelines.autoOptimize.managed": "false"})
    def alone():
        return spark.readStream.schema("id INT").json(str(Path(__file__).parents[1] / "landing"))
    """


MERGED = """
    from pathlib import Path

    @dp.temporary_view
    def events():
        return spark.readStream.schema("id INT").json(str(Path(__file__).parents[1] / "landing"))

    dp.create_streaming_table("merged")
    dp.create_auto_cdc_flow("merged", "events", keys=["id"], sequence_by="id")
    dp.create_streaming_table("copied")
    dp.create_auto_cdc_from_snapshot_flow("copied", "merged", keys=["id"], stored_as_scd_type=1)
    """


def scattered(session, count, *paths):
    """Lay the rows of tables into a file each; whoever follows the tables sees nothing new."""
    for path in paths:
        rows = session.read.format("delta").load(path).repartition(count)
        rows.write.format("delta").mode("overwrite").option("dataChange", "false").save(path)


@pytest.fixture
def scattered_project(project, headrace_session, monkeypatch):
    """A pipeline whose table and quarantine have many small files, and one file of rows that it has not read."""

    def make(count, text=TEXT, names=("landed", "landed_quarantine")):
        monkeypatch.setattr(compaction, "COMPACT_ABOVE_FILES", count - 4)
        pipeline = project(text)
        pipeline.land("landing/1.json", [{"id": number} for number in range(2 * count)])
        pipeline.run()
        tables = pipeline.folder / "storage" / "tables" / "default"
        paths = [str(tables / name) for name in names]
        scattered(headrace_session, count, *paths)
        assert min(map(count_small_files, paths)) > compaction.COMPACT_ABOVE_FILES
        pipeline.land("landing/2.json", [{"id": 2 * count}, {"id": 2 * count + 1}])
        return pipeline, paths

    return make


def operations(path):
    return Counter(commit["operation"] for commit in DeltaTable(path).history())


def test_an_update_compacts_a_table_and_its_quarantine_unless_compaction_is_disabled(scattered_project):
    names = "landed", "landed_quarantine", "alone"
    pipeline, paths = scattered_project(FEW, TEXT + MANAGED_ELSEWHERE, names)

    result = pipeline.run()

    assert [count_small_files(path) < FEW for path in paths] == [True, True, False]
    assert [operations(path)["OPTIMIZE"] for path in paths] == [1, 1, 0]
    even, odd = range(0, 2 * FEW + 2, 2), range(1, 2 * FEW + 2, 2)
    assert sorted(row["id"] for row in result.rows("later")) == list(even)
    assert sorted(row["id"] for row in result.rows("landed")) == list(even)
    assert sorted(row["row"]["id"] for row in result.rows("landed_quarantine")) == list(odd)
    assert pipeline.plan().empty, pipeline.plan().describe()


@pytest.mark.long(
    guard="tests/spark/test_compaction.py::test_an_update_compacts_a_table_and_its_quarantine_unless_compaction_is_disabled"
)
def test_an_update_compacts_the_targets_of_cdc_flows(scattered_project):
    pipeline, paths = scattered_project(FEW, text=MERGED, names=("merged", "copied"))

    result = pipeline.run()

    assert [count_small_files(path) < FEW for path in paths] == [True, True]
    assert [operations(path)["OPTIMIZE"] for path in paths] == [1, 1]
    every = [{"id": number} for number in range(2 * FEW + 2)]
    assert [list(result.rows(name)) for name in ("merged", "copied")] == [every, every]


@pytest.mark.long(
    guard="tests/spark/test_compaction.py::test_an_update_compacts_a_table_and_its_quarantine_unless_compaction_is_disabled"
)
def test_a_stop_does_not_wait_for_compaction(scattered_project, monkeypatch):
    pipeline, paths = scattered_project(MANY)
    stop = Event()

    outcome = pipeline.project.run(stop=stop, on_event=lambda event: isinstance(event, BatchDone) and stop.set())

    assert outcome.state is UpdateState.CANCELED
    assert sum(operations(path)["OPTIMIZE"] for path in paths) < len(paths)
    # It need not happen now.
    monkeypatch.setattr(compaction, "COMPACT_ABOVE_FILES", 2 * MANY)
    assert len(pipeline.run().rows("later")) == MANY + 1
