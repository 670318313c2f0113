"""Watching a query: it never runs on without somebody who looks."""

from __future__ import annotations

import pytest

from headrace.spark.monitoring.query_monitor import End, QueryMonitor


class Query:
    """Runs until it is stopped."""

    def __init__(self):
        self.stopped = False
        self.lastProgress = None
        self.status = {"message": "Waiting for next trigger", "isTriggerActive": False}

    def awaitTermination(self, _timeout):  # noqa: N802 - PySpark's name
        return self.stopped

    def stop(self):
        self.stopped = True


def watch(query, poll=lambda: None, stop_timeout_s=lambda: None, on_current=lambda: None):
    return QueryMonitor(query, poll=poll, on_current=on_current, stop_timeout_s=stop_timeout_s, now=lambda: 0.0)


def test_the_query_is_stopped_when_a_poll_raises():
    query = Query()

    def look():
        raise RuntimeError("taken over")

    with pytest.raises(RuntimeError, match="taken over"):
        watch(query, look).until_end()
    assert query.stopped


def test_a_query_that_waits_for_input_stops_between_batches_when_requested():
    query = Query()
    said = []

    assert (
        watch(query, stop_timeout_s=lambda: 10.0, on_current=lambda: said.append(1)).until_end() is End.BETWEEN_BATCHES
    )
    assert (query.stopped, said) == (True, [1])


def test_a_running_batch_is_interrupted_when_the_stop_timeout_is_zero():
    query = Query()
    query.status = {"message": "Processing new data", "isTriggerActive": True}

    assert watch(query, stop_timeout_s=lambda: 0.0).until_end() is End.WITHIN_BATCH
    assert query.stopped
