"""Tables whose newest row has to be new: looked at in every update, also when nothing has come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.recorded_updates import heard

from headrace.errors import Problems
from headrace.events.types import Warned
from headrace.model.outcome import FlowState, UpdateState

pytestmark = pytest.mark.spark

TABLE = """
    @dp.table(schema="id INT, at TIMESTAMP")
    def source():
        return spark.readStream.schema("id INT, at TIMESTAMP").json("unused")

    @dp.table
    @dp.{decorator}("still coming", dp.fresh("at", within="1 hour"))
    def events():
        return spark.readStream.table("source")
    """


def table(decorator="expect"):
    return TABLE.replace("{decorator}", decorator)


def row(number, *, hours_ago):
    at = datetime.now(UTC) - timedelta(hours=hours_ago)
    return {"id": number, "at": at.isoformat()}


def judged(result, name="events"):
    """Of the rule: how often it was kept, and broken."""
    ((passed, failed),) = [(e.passed, e.failed) for e in result.flow(name).counts.expectations]
    return passed, failed


def stale(events):
    """What was warned of, by flow."""
    return {event.flow: (event.code, event.message) for event in events if isinstance(event, Warned)}


def test_a_table_is_fresh_if_its_newest_row_is_recent_and_not_far_in_the_future(project):
    cases = {
        "new": [row(1, hours_ago=5), row(2, hours_ago=0)],
        "ahead": [row(1, hours_ago=30 * 24), row(2, hours_ago=-3650 * 24)],
        "empty": [],
    }
    texts = (table().replace("source", f"of_{name}").replace("def events", f"def {name}") for name in cases)
    pipeline = project("".join(texts))
    for name, rows in cases.items():
        pipeline.given(f"of_{name}", rows)

    result, events = heard(pipeline)

    assert {name: judged(result, name) for name in cases} == {"new": (1, 0), "ahead": (0, 1), "empty": (0, 1)}
    assert sorted(stale(events)) == ["ahead", "empty"]
    assert "ahead of the clock" in stale(events)["ahead"][1]


def test_an_update_without_new_rows_warns_about_a_stale_table(project):
    pipeline = project(table()).given("source", [row(1, hours_ago=2)])
    pipeline.run()

    result, events = heard(pipeline)

    assert result.flow("events").state is FlowState.UP_TO_DATE
    assert judged(result) == (0, 1)
    code, message = stale(events)["events"]
    assert (code, "is 2 hours" in message) == ("EXPECTATION.STALE", True)


def test_the_plan_is_empty_when_only_freshness_is_checked(project):
    pipeline = project(table().replace('fresh("at"', 'fresh("AT"')).given("source", [row(1, hours_ago=0)])
    pipeline.run()

    assert pipeline.plan().empty, pipeline.plan().describe()
    assert judged(pipeline.run()) == (1, 0)
    assert pipeline.sql("SELECT sum(passed) FROM event_log_expectations").rows == ((2,),)


def test_a_stale_table_with_expect_or_fail_fails_the_update_and_keeps_its_rows(project):
    pipeline = project(table("expect_or_fail")).given("source", [row(1, hours_ago=2)])

    first, second = pipeline.run(), pipeline.run()

    assert (first.error, second.error) == ("EXPECTATION.STALE", "EXPECTATION.STALE")
    assert [found["id"] for found in pipeline.rows("events")] == [1]
    assert pipeline.given("source", [row(2, hours_ago=0)]).run().state is UpdateState.COMPLETED


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("expect(", "expect_or_drop(", "EXPECTATION.NO_ROW"),
        ('fresh("at"', 'fresh("id"', "EXPECTATION.NO_TIME"),
        ('fresh("at"', 'fresh("when"', "EXPECTATION.UNKNOWN_COLUMN"),
        ("1 hour", "soon", "EXPECTATION.NO_INTERVAL"),
    ],
)
def test_invalid_freshness_rules_are_rejected(project, old, new, code):
    text = table()
    assert old in text

    with pytest.raises(Problems) as caught:
        project(text.replace(old, new)).given("source", []).run()

    assert [error.code for error in caught.value] == [code]


def test_a_freshness_rule_on_a_table_with_several_flows_is_rejected(project):
    more = """
    @dp.append_flow(target="events")
    def more():
        return spark.readStream.table("source")
    """

    with pytest.raises(Problems) as caught:
        project(table() + more).given("source", []).run()

    assert [error.code for error in caught.value] == ["EXPECTATION.FRESH_FLOWS"]


@pytest.mark.long(
    guard=(
        "tests/spark/test_freshness.py::test_an_update_without_new_rows_warns_about_a_stale_table",
        "tests/spark/test_freshness.py::test_a_stale_table_with_expect_or_fail_fails_the_update_and_keeps_its_rows",
    )
)
def test_a_continuous_update_warns_about_a_stale_table_and_continues(project):
    pipeline = project(table("expect_or_fail"), continuous=True).given("source", [row(1, hours_ago=2)])

    with pipeline.continuing() as running:
        running.wait_until(lambda: "EXPECTATION.STALE" in [event.code for event in warnings(pipeline)])

    assert running.result.state is UpdateState.COMPLETED


def warnings(pipeline):
    events = pipeline.project.events()
    return events.warnings(events.latest_update_id() or "")
