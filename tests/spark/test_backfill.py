"""Backfills: a stream's query as a batch over an exact range, once, and the stream behind it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.crashed_updates import die_in_turn, in_turn_or_alone

from headrace.errors import PipelineError, Problems
from headrace.plan.backfills import BackfillRequest
from headrace.testing import Crashed, Failpoint
from headrace.testing.crash import CrashFailpoint

pytestmark = pytest.mark.spark

ALONE = pytest.mark.long(guard="its other cases")

TABLES = """
    @dp.table(schema="id INT")
    def source():
        return spark.readStream.schema("id INT").json("unused")

    @dp.temporary_view
    def positive():
        return spark.readStream.table("source").where("id > 0")

    @dp.table
    @dp.expect_or_quarantine("even", "id % 2 = 0")
    def copy():
        return dp.read_stream("positive")
    """
SQL = "CREATE STREAMING TABLE twin AS SELECT id, id * 2 AS twice FROM STREAM(source) JOIN (SELECT 1) ON true;"


def rows(*numbers):
    return [{"id": number} for number in numbers]


def ids(pipeline, name="copy"):
    return sorted(row["id"] for row in pipeline.rows(name))


@pytest.fixture(scope="module")
def planned_tables(prepared):
    def set_up(shared_project):
        pipeline = shared_project(TABLES, {"transformations/twin.sql": SQL})
        pipeline.given("source", rows(2, 3, -1), rows(4), rows(6, 5))
        pipeline.plan()
        return pipeline

    return prepared(set_up)


@pytest.fixture
def tables(planned_tables):
    """Versions 0 to 2 of the source add rows."""
    return planned_tables.restored()


def test_a_new_stream_starts_after_the_backfilled_range_without_gap_or_overlap(tables):
    loaded = tables.backfill("copy", end="version:2")
    assert (loaded.flow("copy").counts.rows_written, loaded.quarantined) == (2, 1)
    assert ids(tables) == [2, 4]

    tables.given("source", rows(8, 10))
    tables.run("copy")

    assert ids(tables) == [2, 4, 6, 8, 10]
    assert sorted(row["row"]["id"] for row in tables.rows("copy_quarantine")) == [3, 5]


@pytest.mark.parametrize("again", [True, pytest.param(False, marks=ALONE)])
def test_consecutive_backfills_move_the_start_of_the_stream(tables, again):
    tables.backfill("twin", end="version:1", again=again)
    tables.backfill("twin", start="version:1", end="version:2")
    # A version whose files were put together since is loaded all the same.
    tables.project.sql("OPTIMIZE source", write=True)
    tables.backfill("twin", start="version:2")
    assert ids(tables, "twin") == [-1, 2, 3, 4, 5, 6]
    tables.given("source", rows(8)).run("twin")

    assert ids(tables, "twin") == [-1, 2, 3, 4, 5, 6, 8]


def test_a_range_is_backfilled_once_unless_again_is_requested(tables):
    tables.backfill("twin", end="version:1")

    with pytest.raises((PipelineError, Problems), match="twice"):
        tables.backfill("twin", end="version:1")
    tables.backfill("twin", start="version:0", end="version:1", again=True)

    assert ids(tables, "twin") == [-1, -1, 2, 2, 3, 3]


def test_a_backfill_of_input_that_the_stream_has_read_is_refused(tables):
    tables.run("twin")

    with pytest.raises((PipelineError, Problems), match="twice"):
        tables.backfill("twin", start="version:1", end="version:2")


LOADS = Failpoint.QUARANTINED, Failpoint.COUNTED, Failpoint.CHECKPOINT_CREATED
UPDATES = Failpoint.BEFORE_WRITE, Failpoint.WRITTEN, Failpoint.STREAM_REPOSITIONED


@pytest.mark.parametrize(
    "points", in_turn_or_alone(ALONE, Failpoint.COUNTED, Failpoint.CHECKPOINT_CREATED, alone=LOADS)
)
def test_the_next_backfill_finishes_a_crashed_backfill(tables, points):
    first, *others = points
    with pytest.raises(Crashed):
        tables.crash_at(first).backfill("copy", end="version:2")
    die_in_turn(lambda: tables.backfill("copy", start="version:2"), tables, *others)

    tables.restart().backfill("copy", start="version:2")
    tables.run("copy")

    warned = [row["message"] for row in tables.project.events().events() if row["event_type"] == "warning"]
    assert sum("finishes an interrupted backfill" in message for message in warned) == len(points)

    assert ids(tables) == [2, 4, 6]
    assert len(tables.rows("copy_quarantine")) == 2
    assert tables.project.events().flow_totals()["copy"].rows_written == 3


@pytest.mark.long(guard="tests/spark/test_backfill.py::test_the_next_backfill_finishes_a_crashed_backfill")
@pytest.mark.parametrize("points", in_turn_or_alone(ALONE, *UPDATES))
def test_the_next_update_finishes_a_crashed_backfill(tables, points):
    first, *others = points
    with pytest.raises(Crashed):
        tables.crash_at(first).backfill("copy", end="version:2")
    die_in_turn(lambda: tables.run("copy"), tables, *others)

    tables.restart().run("copy")

    assert ids(tables) == [2, 4, 6]
    assert len(tables.rows("copy_quarantine")) == 2
    assert tables.plan("copy").empty


def test_a_crashed_backfill_can_be_abandoned_and_a_full_refresh_discards_backfills(tables):
    tables.crash_at(Failpoint.BEFORE_WRITE)
    with pytest.raises(Crashed):
        tables.backfill("twin", end="version:1")
    tables.restart().project.backfill(BackfillRequest("twin", abandon=True))
    tables.backfill("twin", end="version:2")

    tables.run(full_refresh=["twin"])

    assert ids(tables, "twin") == [-1, 2, 3, 4, 5, 6]
    with pytest.raises(PipelineError, match="no interrupted backfill"):
        tables.project.backfill(BackfillRequest("twin", abandon=True))


RETRIED = """
    @dp.table(schema="id INT")
    def source():
        return spark.readStream.schema("id INT").json("unused")

    @dp.table(spark_conf={"spark.sql.streaming.minBatchesToRetain": "2"})
    @dp.expect_or_quarantine("even", "id % 2 = 0")
    def copy():
        return spark.readStream.option("maxFilesPerTrigger", 1).table("source")
    """


class FailsOnce(CrashFailpoint):
    """A seam at which the fifth batch fails in a way that may pass; Spark knows of no more than two before it."""

    def __init__(self):
        super().__init__()
        self._batches = 0

    def __call__(self, point):
        self._batches += point is Failpoint.COUNTED
        if point is Failpoint.COUNTED and self._batches == 5:
            raise PipelineError("EVENTS.NOT_WRITTEN", path="events", reason="for once")


@pytest.mark.long(
    guard=(
        "tests/spark/test_backfill.py::test_a_range_is_backfilled_once_unless_again_is_requested",
        "tests/spark/test_backfill.py::test_the_next_backfill_finishes_a_crashed_backfill",
    )
)
def test_a_retry_of_the_stream_does_not_repeat_its_backfill(project):
    pipeline = project(RETRIED).given("source", *[rows(number) for number in range(7)])
    pipeline.crash_at(Failpoint.WRITTEN)
    with pytest.raises(Crashed):
        pipeline.backfill("copy", end="version:2")
    pipeline.restart()
    pipeline._failpoint = FailsOnce()

    result = pipeline.run("copy")

    assert result.flow("copy").attempts == 2
    assert ids(pipeline) == [0, 2, 4, 6]
    assert len(pipeline.rows("copy_quarantine")) == 3


def test_a_backfill_that_would_leave_a_gap_is_refused_but_a_reset_may_skip_input(tables):
    for again in (False, True):
        with pytest.raises(PipelineError, match="would never be read"):
            tables.backfill("twin", start="version:1", again=again)

    tables.run("twin", reset_checkpoint=["twin=version:2"])

    assert ids(tables, "twin") == [5, 6]


@pytest.mark.long(
    guard=(
        "tests/spark/test_backfill.py::test_a_new_stream_starts_after_the_backfilled_range_without_gap_or_overlap",
        "tests/spark/test_auto_loader.py::test_a_file_stream_is_recomputed_as_a_batch_over_all_files",
    )
)
def test_streamed_rows_equal_the_rows_of_the_query_in_batch_mode(tables):
    tables.run()

    assert tables.rows("copy") == tables.recomputed("copy")
    assert tables.rows("twin") == tables.recomputed("twin")


def test_existing_files_are_backfilled_and_the_stream_reads_the_later_ones(project):
    pipeline = project("""
        @dp.table
        def landed():
            return spark.readStream.schema("id INT").json(spark.conf.get("root") + "/in")
        """)
    pipeline.settings = replace(pipeline.settings, configuration={"root": str(pipeline.folder)})
    pipeline.land("in/1.json", rows(1))
    pipeline.land("in/2.json", rows(2))

    pipeline.backfill("landed")
    pipeline.land("in/3.json", rows(3))
    pipeline.run()

    assert ids(pipeline, "landed") == [1, 2, 3]
    assert pipeline.plan().empty


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ('spark.readStream.table("source").groupBy("id").count()', "BACKFILL.NOT_A_STREAM"),
        ('spark.readStream.table("source").dropDuplicates(["id"])', "BACKFILL.STATEFUL"),
        ('spark.readStream.format("rate").load().selectExpr("cast(value AS INT) AS id")', "BACKFILL.SOURCE"),
    ],
)
def test_a_flow_that_cannot_be_backfilled_is_refused(project, query, code):
    pipeline = project(f"""
        @dp.table(schema="id INT")
        def source():
            return spark.readStream.schema("id INT").json("unused")

        @dp.table
        def made():
            return {query}
        """).given("source", rows(1))

    with pytest.raises((PipelineError, Problems)) as refused:
        pipeline.backfill("made")

    assert code in str(getattr(refused.value, "code", "") or refused.value.errors[0].code)
