"""Flows with state of their own: kept across updates, forgotten after a time to live, ended by a timer."""

from __future__ import annotations

from contextlib import suppress

import pytest

from headrace.errors import PipelineError
from headrace.model.outcome import UpdateState
from headrace.model.state_rows import StateRequest
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

# Each task with state of its own starts processes, which are dear.
ONE_TASK = {"configuration": {"spark.sql.shuffle.partitions": "1"}}

COUNTS = """
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql import Row

    @dp.table(schema="user STRING")
    def source():
        return spark.readStream.schema("user STRING").json("unused")

    class Counter(StatefulProcessor):
        def init(self, handle):
            self.kept = handle.getValueState("kept", "n INT", None)
            self.expired = handle.getValueState("expired", "n INT", 1)

        def count(self, state, more):
            n = more + (state.get()[0] if state.exists() else 0)
            state.update((n,))
            return n

        def handleInputRows(self, key, rows, timerValues):
            more = sum(1 for _ in rows)
            yield Row(user=key[0], kept=self.count(self.kept, more), expired=self.count(self.expired, more))

    @dp.table
    def counted():
        rows = spark.readStream.table("source").groupBy("user")
        return rows.transformWithState(Counter(), "user STRING, kept INT, expired INT", "Append", "ProcessingTime")
    """


def test_custom_state_persists_across_updates_until_its_time_to_live_expires(project):
    pipeline = project(COUNTS, **ONE_TASK)
    pipeline.given("source", [{"user": "a"}, {"user": "a"}]).run()

    result = pipeline.given("source", [{"user": "a"}]).run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert sorted((row["kept"], row["expired"]) for row in result.rows("counted")) == [(2, 2), (3, 1)]
    project = pipeline.project
    shown = project.checkpoints().state(StateRequest("counted", variable="kept", keys=("user=a",)), project.session)
    assert shown.rows.to_json() == [{"user": "a", "n": 3}]
    with pytest.raises(PipelineError, match="several state variables"):
        project.checkpoints().state(StateRequest("counted"), project.session)


QUIET = """
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql import Row

    @dp.table(schema="user STRING")
    def source():
        return spark.readStream.schema("user STRING").json("unused")

    class Quiet(StatefulProcessor):
        def init(self, handle):
            self.handle = handle

        def handleInputRows(self, key, rows, timerValues):
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
            return iter(())

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
            yield Row(user=key[0])

    @dp.table
    def quiet():
        rows = spark.readStream.table("source").groupBy("user")
        return rows.transformWithState(Quiet(), "user STRING", "Append", "ProcessingTime")
    """


@pytest.mark.parametrize(
    "point", [None, pytest.param(Failpoint.WRITTEN, marks=pytest.mark.long(guard="its other cases"))]
)
def test_a_processing_time_timer_fires_once_in_a_triggered_update(project, point):
    pipeline = project(QUIET, **ONE_TASK).given("source", [{"user": "a"}, {"user": "b"}])
    if point is not None:
        with suppress(Crashed, AssertionError):
            pipeline.crash_at(point, skip=1).run()
        pipeline.restart()

    states = [pipeline.run().state for _ in range(2)]

    assert states == [UpdateState.COMPLETED] * 2
    assert sorted(row["user"] for row in pipeline.rows("quiet")) == ["a", "b"]
