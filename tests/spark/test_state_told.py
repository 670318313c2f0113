"""What a query keeps in state, and what its watermark does: told as it runs, and stopping nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from tests.heard import heard

from headrace.events.types import Level, Warned
from headrace.model.outcome import FlowState, UpdateState

pytestmark = pytest.mark.spark

SOURCE = """
    @dp.table(schema="id INT, at TIMESTAMP")
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
JOIN = (
    SOURCE
    + """
    @dp.table(schema="id INT, at TIMESTAMP")
    def quiet():
        return spark.readStream.schema("id INT, at TIMESTAMP").json("unused")

    @dp.table
    def pairs():
        other = events("quiet").selectExpr("id AS other", "at AS other_at")
        return events().join(other, F.expr("id = other AND other_at BETWEEN at AND at + INTERVAL 1 HOUR"))
    """
)
# Spark drops rows of a batch by the watermark of the one before.
NOON, HOUR_LATER = {"id": 1, "at": "2026-01-01T12:00:00Z"}, {"id": 2, "at": "2026-01-01T13:00:00Z"}


def told(events, code):
    return [event for event in events if isinstance(event, Warned) and event.code == code]


def test_a_row_that_the_watermark_has_passed_is_an_error_event_and_stops_nothing(project):
    pipeline = project(WINDOWS).given("source", [NOON], [HOUR_LATER], [HOUR_LATER], [NOON])

    result, events = heard(pipeline)

    assert result.state is UpdateState.COMPLETED
    (event,) = told(events, "FLOW.ROWS_TOO_LATE")
    assert (event.level, event.flow) == (Level.ERROR, "minutes")
    assert "1 row, or sums of several, of batch" in event.message
    (stored,) = told(pipeline.project.events().warnings(result.outcome.update_id), "FLOW.ROWS_TOO_LATE")
    assert stored == event


def test_rows_that_come_in_time_are_no_event(project):
    pipeline = project(WINDOWS).given("source", [NOON], [HOUR_LATER], [HOUR_LATER])

    _, events = heard(pipeline)

    assert [event for event in events if isinstance(event, Warned)] == []


def test_one_event_far_ahead_of_the_clock_is_warned_of(project):
    ahead = datetime.now(timezone.utc) + timedelta(days=400)
    pipeline = project(WINDOWS).given("source", [NOON], [{"id": 3, "at": ahead.isoformat()}])

    _, events = heard(pipeline)

    (event,) = told(events, "FLOW.TIME_AHEAD")
    assert "399 days" in event.message or "400 days" in event.message


def test_a_watermark_that_an_earlier_update_has_moved_ahead_is_warned_of_as_that(project):
    ahead = datetime.now(timezone.utc) + timedelta(days=400)
    pipeline = project(WINDOWS).given("source", [NOON], [{"id": 3, "at": ahead.isoformat()}])
    pipeline.run()
    minutes = [[{"id": 1, "at": f"2026-01-01T12:{number:02}:00Z"}] for number in range(14)]
    pipeline.given("source", *minutes)

    _, events = heard(pipeline)

    assert len(told(events, "FLOW.TIME_AHEAD")) == 1
    assert told(events, "FLOW.WATERMARK_STUCK") == []


def test_an_event_far_ahead_is_set_aside_by_a_rule_and_those_behind_it_are_not_late(project):
    rule = '    @dp.expect_or_quarantine("in time", dp.on_time("at", within="1 day", ahead="1 hour"))\n'
    text = SOURCE + "\n    @dp.table\n" + rule + "    def kept():\n        return events()\n"
    ahead = datetime.now(timezone.utc) + timedelta(hours=30)
    pipeline = project(text).given("source", [NOON], [{"id": 3, "at": ahead.isoformat()}], [HOUR_LATER])

    pipeline.run()

    assert sorted(row["id"] for row in pipeline.rows("kept")) == [1, 2]
    assert [row["row"]["id"] for row in pipeline.rows("kept_quarantine")] == [3]


def test_a_watermark_that_one_quiet_input_holds_back_is_warned_of(project):
    minutes = [[{"id": 1, "at": f"2026-01-01T12:{number:02}:00Z"}] for number in range(14)]
    pipeline = project(JOIN).given("source", *minutes).given("quiet", [NOON])

    _, events = heard(pipeline)

    assert len(told(events, "FLOW.WATERMARK_STUCK")) == 1


def test_a_watermark_that_goes_on_with_both_inputs_is_not_warned_of(project):
    minutes = [[{"id": 1, "at": f"2026-01-01T12:{number:02}:00Z"}] for number in range(14)]
    pipeline = project(JOIN).given("source", *minutes).given("quiet", *minutes)

    _, events = heard(pipeline)

    assert told(events, "FLOW.WATERMARK_STUCK") == []


def test_a_watermark_follows_the_fastest_input_where_the_settings_say_so(project):
    said = '@dp.table(spark_conf={"spark.sql.streaming.multipleWatermarkPolicy": "max"})\n    def pairs'
    assert "@dp.table\n    def pairs" in JOIN
    minutes = [[{"id": 1, "at": f"2026-01-01T12:{number:02}:00Z"}] for number in range(14)]
    pipeline = project(JOIN.replace("@dp.table\n    def pairs", said))
    pipeline.given("source", *minutes).given("quiet", [NOON])

    result, events = heard(pipeline)

    assert told(events, "FLOW.WATERMARK_STUCK") == []
    assert result.flow("pairs").watermark == "2026-01-01T12:12:00.000Z"


def test_duplicates_that_were_removed_are_in_the_outcome_with_the_watermark(project):
    text = (
        SOURCE
        + """
    @dp.table
    def once():
        return events().dropDuplicatesWithinWatermark(["id"])
    """
    )
    pipeline = project(text).given("source", [NOON, NOON, HOUR_LATER], [HOUR_LATER])

    result = pipeline.run()

    (kept,) = result.flow("once").kept
    assert (kept.operator, kept.duplicates_removed) == ("dedupeWithinWatermark", 2)
    assert result.flow("once").watermark == "2026-01-01T12:59:00.000Z"
    assert pipeline.project.status() == result.outcome


def test_a_late_row_is_told_of_after_a_pause_of_a_query_that_goes_on(project):
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
