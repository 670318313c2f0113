"""What a query keeps in state, and what its watermark does: told as it runs, and stopping nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.recorded_updates import heard

from headrace.errors import PipelineError
from headrace.events.levels import Level
from headrace.events.types import BatchDone, Warned
from headrace.model.outcome import FlowState, UpdateState
from headrace.model.state_rows import Side, StateRequest

pytestmark = pytest.mark.spark

SOURCE = """
    def declare(name):
        @dp.table(name=name, schema="id INT, at TIMESTAMP")
        def source():
            return spark.readStream.schema("id INT, at TIMESTAMP").json("unused")

    def events(name="source"):
        return spark.readStream.option("maxFilesPerTrigger", 1).table(name).withWatermark("at", "1 minute")
    """
WINDOWS = (
    SOURCE
    + """
    @dp.table
    def minutes():
        return events().groupBy(F.window("at", "1 minute")).count().selectExpr("window.start AS minute", "count")
    """
)
# One flow for each source of its own, and a join of a source and one that is quiet.
EACH = (
    SOURCE
    + """
    for name in ("late", "in_time", "ahead", "ruled", "repeated", "busy", "quiet"):
        declare(name)

    def counting(name):
        @dp.table(name=f"minutes_{name}")
        def minutes():
            windows = events(name).groupBy(F.window("at", "1 minute"))
            return windows.count().selectExpr("window.start AS minute", "count")

    for name in ("late", "in_time", "ahead"):
        counting(name)

    @dp.table
    @dp.expect_or_quarantine("in time", dp.on_time("at", within="1 day", ahead="1 hour"))
    def kept():
        return events("ruled")

    @dp.table
    def once():
        return events("repeated").dropDuplicatesWithinWatermark(["id"])

    def pairs():
        other = events("quiet").selectExpr("id AS other", "at AS other_at")
        return events("busy").join(other, F.expr("id = other AND other_at BETWEEN at AND at + INTERVAL 1 HOUR"))

    @dp.table
    def pairs_of_slowest():
        return pairs()
    """
)
FASTEST = '@dp.table(spark_conf={"spark.sql.streaming.multipleWatermarkPolicy": "max"})'
# Spark drops rows of a batch by the watermark of the one before.
NOON, HOUR_LATER = {"id": 1, "at": "2026-01-01T12:00:00Z"}, {"id": 2, "at": "2026-01-01T13:00:00Z"}


def minutes(count):
    """Batches of one row, each a minute later than the one before."""
    return [[{"id": 1, "at": f"2026-01-01T12:{number:02}:00Z"}] for number in range(count)]


def told(events, code):
    return [event for event in events if isinstance(event, Warned) and event.code == code]


@dataclass
class Updates:
    """Two updates: the first reads every source, the second one more rows of the source with a time far ahead."""

    pipeline: Any
    result: Any
    status: Any
    events: list[Any]
    later: list[Any]


@pytest.fixture(scope="module")
def updates(shared_project):
    now = datetime.now(UTC)
    far, ahead = ((now + timedelta(hours=hours)).isoformat() for hours in (400 * 24, 30))
    # Each task has stores of its own for what is kept, which are dear.
    pipeline = shared_project(EACH, configuration={"spark.sql.shuffle.partitions": "1"})
    pipeline.given("late", [HOUR_LATER], [HOUR_LATER], [NOON])
    pipeline.given("in_time", [NOON], [HOUR_LATER], [HOUR_LATER])
    pipeline.given("ahead", [NOON], [{"id": 3, "at": far}])
    pipeline.given("ruled", [NOON], [{"id": 3, "at": ahead}], [HOUR_LATER])
    pipeline.given("repeated", [NOON, NOON, HOUR_LATER], [HOUR_LATER])
    pipeline.given("busy", *minutes(4)).given("quiet", [NOON])
    with pytest.MonkeyPatch.context() as patch:
        # Fewer batches than in practice.
        patch.setattr("headrace.spark.monitoring.state_reporter._STUCK_BATCHES", 2)
        result, events = heard(pipeline)
        assert result.state is UpdateState.COMPLETED, result.outcome.error
        status = pipeline.project.status()
        later = []
        pipeline.given("ahead", *minutes(4)).run("minutes_ahead", on_event=later.append)
    return Updates(pipeline, result, status, events, later)


def test_a_row_behind_the_watermark_causes_an_error_event_and_the_flow_completes(updates):
    (event,) = told(updates.events, "FLOW.ROWS_TOO_LATE")
    assert (event.level, event.flow) == (Level.ERROR, "minutes_late")
    assert "1 row, or sums of several, of batch" in event.message
    warnings = updates.pipeline.project.events().warnings(updates.result.outcome.update_id)
    assert told(warnings, "FLOW.ROWS_TOO_LATE") == [event]


def test_rows_on_time_cause_no_warning(updates):
    warned = {event.flow for event in updates.events if isinstance(event, Warned)}

    assert warned == {"minutes_late", "minutes_ahead", "pairs_of_slowest"}


def test_an_event_far_in_the_future_causes_a_warning(updates):
    (event,) = told(updates.events, "FLOW.TIME_AHEAD")

    assert event.flow == "minutes_ahead"
    assert "399 days" in event.message or "400 days" in event.message


def test_a_future_watermark_of_an_earlier_update_is_not_reported_as_stuck(updates):
    assert [event.flow for event in told(updates.later, "FLOW.TIME_AHEAD")] == ["minutes_ahead"]
    assert told(updates.later, "FLOW.WATERMARK_STUCK") == []


def test_a_quarantined_future_event_does_not_make_other_events_late(updates):
    assert sorted(row["id"] for row in updates.pipeline.rows("kept")) == [1, 2]
    assert [row["row"]["id"] for row in updates.pipeline.rows("kept_quarantine")] == [3]


def test_a_watermark_held_back_by_a_quiet_input_causes_a_warning(updates):
    assert [event.flow for event in told(updates.events, "FLOW.WATERMARK_STUCK")] == ["pairs_of_slowest"]


@pytest.mark.long(
    guard="tests/spark/test_state_reporter.py::test_a_watermark_held_back_by_a_quiet_input_causes_a_warning"
)
def test_a_watermark_follows_the_fastest_input_with_the_max_policy(project):
    text = EACH.replace("@dp.table\n    def pairs_of_slowest", f"{FASTEST}\n    def pairs_of_fastest")
    pipeline = project(text).given("busy", *minutes(4)).given("quiet", [NOON])

    result = pipeline.run("pairs_of_fastest")

    assert result.flow("pairs_of_fastest").watermark == "2026-01-01T12:02:00.000Z"


@pytest.mark.long(guard="tests/spark/test_state_reporter.py::test_rows_on_time_cause_no_warning")
def test_a_watermark_that_advances_with_both_inputs_causes_no_warning(project):
    pipeline = project(EACH).given("busy", *minutes(14)).given("quiet", *minutes(14))

    events = []
    result = pipeline.run("pairs_of_slowest", on_event=events.append)

    # More batches than the warning waits for.
    batches = [event for event in events if isinstance(event, BatchDone) and event.counts.rows_written]
    assert (result.state, len(batches) > 10) == (UpdateState.COMPLETED, True)
    assert told(events, "FLOW.WATERMARK_STUCK") == []


def test_the_outcome_reports_removed_duplicates_and_the_watermark(updates):
    (kept,) = updates.result.flow("once").operators
    assert (kept.operator, kept.duplicates_removed) == ("dedupeWithinWatermark", 2)
    assert updates.result.flow("once").watermark == "2026-01-01T12:59:00.000Z"
    assert updates.status == updates.result.outcome


def state_of(updates, flow, **request):
    project = updates.pipeline.project
    return project.checkpoints().state(StateRequest(flow, **request), project.session)


def test_the_state_of_an_aggregation_is_shown_by_the_names_of_its_key(updates):
    found = state_of(updates, "minutes_in_time")
    keyed = state_of(updates, "minutes_in_time", keys=("window.start=2026-01-01 13:00:00",))
    none = state_of(updates, "minutes_in_time", keys=("window.start=2026-01-01 12:00:00",))

    assert found.rows == keyed.rows
    assert found.rows.columns == ("window.start", "window.end", "count")
    assert [row["count"] for row in found.rows.to_json()] == [2]
    assert (none.rows.rows, found.title) == ((), "operator 0 (aggregation)")
    with pytest.raises(PipelineError, match="nothing") as refused:
        state_of(updates, "minutes_in_time", keys=("nothing=1",))
    assert (refused.value.code, "window.end (timestamp)" in refused.value.detail) == ("STATE.BAD_KEY", True)


def test_the_state_of_a_join_is_shown_by_side(updates):
    left = state_of(updates, "pairs_of_slowest", rows=3)
    right = state_of(updates, "pairs_of_slowest", side=Side.RIGHT)
    stores = state_of(updates, "pairs_of_slowest", metadata=True)

    assert (len(left.rows.rows), left.has_more, left.title) == (3, True, "operator 0 (stream-stream join), left side")
    assert left.rows.columns == ("field0", "id", "at")
    assert [row["other"] for row in right.rows.to_json()] == [1]
    assert {row["kind"] for row in stores.rows.to_json()} == {"symmetricHashJoin"}


@pytest.mark.long(
    guard="tests/spark/test_state_reporter.py::test_a_row_behind_the_watermark_causes_an_error_event_and_the_flow_completes"
)
def test_a_continuous_update_reports_a_late_row_after_an_idle_period(project):
    text = WINDOWS.replace(".table(name)", '.schema("id INT, at TIMESTAMP").json(spark.conf.get("root") + "/in")')
    assert '"/in"' in text
    pipeline = project(text)
    pipeline.settings = replace(pipeline.settings, configuration={"root": str(pipeline.folder)})
    for number, row in enumerate((NOON, HOUR_LATER, HOUR_LATER)):
        pipeline.land(f"in/{number}.json", [row])
    pipeline.run("minutes")

    with pipeline.continuing() as update:
        update.wait_until(lambda: update.states.get("minutes") is FlowState.RUNNING)
        pipeline.land("in/9.json", [NOON])
        update.wait_until(lambda: told(warnings(pipeline), "FLOW.ROWS_TOO_LATE"))


def warnings(pipeline):
    events = pipeline.project.events()
    return events.warnings(events.latest_update_id() or "")
