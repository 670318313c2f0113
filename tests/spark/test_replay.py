"""Rows that were set aside, through the rules of today: each in exactly one place afterwards, whatever dies."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.model.outcome import UpdateState
from headrace.plan.backfills import ReplayRequest
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

ROWS = [{"id": number, "amount": number - 3} for number in range(6)]
TABLE = """
    @dp.table(schema="id INT, amount INT")
    def source():
        return spark.readStream.schema("id INT, amount INT").json("unused")

    @dp.table
    @dp.expect_or_quarantine("positive", "amount > 0")
    @dp.expect_or_drop("known", "id < 100")
    def orders():
        return spark.readStream.table("source")
    """


def ids(rows):
    return sorted(row["id"] for row in rows)


def aside(pipeline, status, name="orders"):
    return ids(row["row"] for row in pipeline.rows(f"{name}_quarantine") if row["status"] == status)


def changed(pipeline, old, new):
    file = pipeline.folder / "transformations" / "project.py"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return pipeline


@pytest.fixture(scope="module")
def orders_after_one_update(prepared):
    def set_up(shared_project):
        pipeline = shared_project(TABLE).given("source", ROWS)
        pipeline.run()
        assert aside(pipeline, "open") == [0, 1, 2, 3]
        return pipeline

    return prepared(set_up)


@pytest.fixture
def orders(orders_after_one_update):
    """Orders, of which the update put four into quarantine: 0 to 3, with amounts of -3 to 0."""
    return orders_after_one_update.restored()


def test_a_preview_counts_the_rows_that_would_pass_and_writes_nothing(orders):
    before = (orders.rows("orders"), aside(orders, "open"))

    as_they_are = orders.project.changes.preview_replay(ReplayRequest("orders")).to_json()
    changed_rows = ReplayRequest("orders", ("positive",), ("amount=id",))
    mended = orders.project.changes.preview_replay(changed_rows)

    assert (as_they_are["rows"], as_they_are["passing"], as_they_are["failing"]) == (4, 0, 4)
    assert as_they_are["expectations"][0] == {"name": "positive", "passed": 0, "failed": 4}
    # The row whose id is 0 would still violate the rule.
    assert (mended.rows, mended.passing) == (4, 3)
    assert (orders.rows("orders"), aside(orders, "open")) == before


def test_replayed_rows_that_pass_a_changed_expectation_are_written_once(orders):
    changed(orders, "amount > 0", "amount > -3")

    result = orders.replay("orders")

    assert ids(orders.rows("orders")) == [0, 1, 2, 3, 4, 5][1:]
    assert (aside(orders, "open"), aside(orders, "replayed")) == ([0], [0, 1, 2, 3])
    counts = result.flow("orders").counts
    assert (counts.rows_written, counts.rows_quarantined, counts.rows_dropped) == (3, 1, 0)


def test_a_replay_changes_values_before_it_evaluates_expectations(orders):
    orders.replay("orders", changes=["amount=abs(amount)", "id = CASE WHEN id = 1 THEN 101 ELSE id END"])

    assert ids(orders.rows("orders")) == [0, 2, 4, 5]
    assert {row["id"]: row["amount"] for row in orders.rows("orders")}[0] == 3
    assert aside(orders, "open") == [3]
    assert orders.project.events().flow_totals()["orders"].rows_dropped == 1


def test_a_replay_can_release_violating_rows_and_the_stream_continues(orders):
    orders.replay("orders", release=True)

    assert ids(orders.rows("orders")) == [0, 1, 2, 3, 4, 5]
    assert (aside(orders, "open"), aside(orders, "released")) == ([], [0, 1, 2, 3])
    orders.given("source", [{"id": 7, "amount": 7}, {"id": 8, "amount": 0}]).run()
    assert ids(orders.rows("orders")) == [0, 1, 2, 3, 4, 5, 7]
    assert aside(orders, "open") == [8]


def test_a_replay_can_be_limited_to_the_rows_of_one_expectation(project):
    text = TABLE.replace('"id < 100")', '"id < 100")\n    @dp.expect_or_quarantine("odd", "id % 2 = 1")')
    pipeline = project(text).given("source", ROWS)
    pipeline.run()

    pipeline.replay("orders", rules=["odd"], release=True)

    assert (aside(pipeline, "open"), aside(pipeline, "released")) == ([1, 3], [0, 2, 4])


@pytest.mark.parametrize(
    "point",
    [
        Failpoint.WRITTEN,
        *(
            pytest.param(point, marks=pytest.mark.long(guard="its other cases"))
            for point in (
                Failpoint.BEFORE_QUARANTINE,
                Failpoint.BEFORE_WRITE,
                Failpoint.COUNTED,
                Failpoint.MARKED_REPLAYED,
            )
        ),
    ],
)
def test_no_row_is_lost_or_duplicated_when_an_update_finishes_a_crashed_replay(orders, point):
    changed(orders, "amount > 0", "amount > -2")
    with pytest.raises(Crashed):
        orders.crash_at(point).replay("orders")

    result = orders.restart().run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert ids(orders.rows("orders")) == [2, 3, 4, 5]
    assert (aside(orders, "open"), aside(orders, "replayed")) == ([0, 1], [0, 1, 2, 3])
    with pytest.raises(PipelineError) as caught:
        changed(orders, "amount > -2", "amount > -1000").replay("orders", rules=["another"])
    assert caught.value.code == "REPLAY.NOTHING"


def test_a_replay_is_rejected_while_a_batch_is_uncommitted(project):
    pipeline = project(TABLE).given("source", ROWS)
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.QUARANTINED).run()

    with pytest.raises(PipelineError) as caught:
        changed(pipeline.restart(), "amount > 0", "amount > -1000").replay("orders")
    pipeline.run()

    assert caught.value.code == "REPLAY.NOT_NOW"
    assert ids(pipeline.rows("orders")) == [0, 1, 2, 3, 4, 5]


@pytest.mark.long(
    guard=(
        "tests/spark/test_replay.py::test_a_crashed_replay_can_be_abandoned",
        "tests/spark/test_dead_letters.py::test_a_replay_writes_rows_that_the_fixed_query_accepts_and_keeps_the_others",
    )
)
def test_a_failed_replay_leaves_its_rows_in_quarantine(orders):
    failing = "amount=raise_error('no')"

    result = orders.replay("orders", changes=[failing])
    waiting = aside(orders, "open")
    orders.replay("orders", changes=["amount=1"])

    assert (result.state, len(waiting)) == (UpdateState.FAILED, 4)
    assert ids(orders.rows("orders")) == [0, 1, 2, 3, 4, 5]


def test_a_crashed_replay_can_be_abandoned(orders):
    with pytest.raises(Crashed):
        orders.crash_at(Failpoint.BEFORE_WRITE).replay("orders", changes=["amount=2"])
    with pytest.raises(PipelineError) as caught:
        orders.restart().replay("orders", changes=["amount=1"])

    orders.replay("orders", abandon=True)
    orders.replay("orders", changes=["amount=1"])

    assert caught.value.code == "REPLAY.PENDING"
    assert {row["amount"] for row in orders.rows("orders") if row["id"] < 4} == {1}
    assert ids(orders.rows("orders")) == [0, 1, 2, 3, 4, 5]


@pytest.mark.long(
    guard="tests/spark/test_replay.py::test_no_row_is_lost_or_duplicated_when_an_update_finishes_a_crashed_replay"
)
def test_a_crashed_replay_is_finished_after_its_expectation_stops_quarantining(orders):
    changed(orders, "amount > 0", "amount > -1")
    with pytest.raises(Crashed):
        orders.crash_at(Failpoint.QUARANTINED).replay("orders")
    changed(orders, '@dp.expect_or_quarantine("positive", "amount > -1")', '@dp.expect("positive", "amount > -1")')

    orders.restart().run()

    assert ids(orders.rows("orders")) == [0, 1, 2, 3, 4, 5]
    assert aside(orders, "open") == []


def test_replayed_change_events_are_merged(project):
    pipeline = project(
        """
        @dp.table(schema="id INT, name STRING, at INT")
        def source():
            return spark.readStream.schema("id INT, name STRING, at INT").json("unused")

        dp.create_streaming_table("users", expect_all_or_quarantine={"named": "name IS NOT NULL"})
        dp.create_auto_cdc_flow(target="users", source="source", keys=["id"], sequence_by="at")
        """
    ).given(
        "source",
        [{"id": 1, "name": "a", "at": 2}, {"id": 1, "at": 3}, {"id": 2, "at": 1}, {"id": 1, "name": "z", "at": 1}],
    )
    pipeline.run()

    pipeline.replay("users", changes=["name='nobody'"])

    assert {row["id"]: row["name"] for row in pipeline.rows("users")} == {1: "nobody", 2: "nobody"}
    assert sorted(row["status"] for row in pipeline.rows("users_quarantine")) == ["replayed", "replayed"]


def test_invalid_replays_are_rejected(orders):
    with pytest.raises(PipelineError) as no_column:
        orders.replay("orders", changes=["price=1"])
    with pytest.raises(PipelineError) as no_quarantine:
        orders.replay("source")

    assert (no_column.value.code, no_quarantine.value.code) == ("REPLAY.BAD_CHANGE", "QUARANTINE.NONE")
