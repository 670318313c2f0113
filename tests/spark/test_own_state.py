"""Flows with state of their own: kept across updates, forgotten after a time to live, ended by a timer."""

from __future__ import annotations

from contextlib import suppress

import pytest

from headrace.model.outcome import UpdateState
from headrace.testing import Crashed, Point

pytestmark = pytest.mark.spark

COUNTS = """
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql import Row

    @dp.table(schema="user STRING")
    def source():
        return spark.readStream.schema("user STRING").json("unused")

    class Counter(StatefulProcessor):
        def __init__(self, ttl_ms):
            self.ttl_ms = ttl_ms

        def init(self, handle):
            self.seen = handle.getValueState("seen", "n INT", self.ttl_ms)

        def handleInputRows(self, key, rows, timerValues):
            before = self.seen.get()[0] if self.seen.exists() else 0
            n = before + sum(1 for _ in rows)
            self.seen.update((n,))
            yield Row(user=key[0], n=n)

    def counted(ttl_ms):
        rows = spark.readStream.option("maxFilesPerTrigger", 1).table("source").groupBy("user")
        return rows.transformWithState(Counter(ttl_ms), "user STRING, n INT", "Append", "ProcessingTime")

    @dp.table
    def kept():
        return counted(None)

    @dp.table
    def expired():
        return counted(1)
    """


def test_state_of_ones_own_is_there_in_the_next_update_unless_its_time_to_live_is_over(project):
    pipeline = project(COUNTS)
    pipeline.given("source", [{"user": "a"}, {"user": "a"}], [{"user": "a"}]).run()

    result = pipeline.given("source", [{"user": "a"}]).run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    found = {name: [row["n"] for row in result.rows(name)] for name in ("kept", "expired")}
    assert found == {"kept": [2, 3, 4], "expired": [1, 1, 2]}


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


@pytest.mark.parametrize("point", [None, pytest.param(Point.WRITTEN, marks=pytest.mark.long(guard="its other cases"))])
def test_a_timer_of_the_clock_fires_once_in_an_update_that_ends(project, point):
    pipeline = project(QUIET).given("source", [{"user": "a"}, {"user": "b"}])
    if point is not None:
        with suppress(Crashed, AssertionError):
            pipeline.crash_at(point, skip=1).run()
        pipeline.restart()

    states = [pipeline.run().state for _ in range(2)]

    assert states == [UpdateState.COMPLETED] * 2
    assert sorted(row["user"] for row in pipeline.rows("quiet")) == ["a", "b"]
