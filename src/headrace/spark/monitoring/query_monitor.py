"""Monitors a running query until it ends or has to be stopped."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from pyspark.sql.streaming.query import StreamingQuery

_POLL_INTERVAL_S = 0.5


class End(Enum):
    """How a query ended: with its input, or stopped, between two batches or within one."""

    BY_ITSELF = "by itself"
    BETWEEN_BATCHES = "between batches"
    WITHIN_BATCH = "within a batch"
    # Processing-time timers would have kept it running forever.
    DRAINED = "with its input"


class QueryMonitor:
    """Waits for the end of one query.

    Args:
        query: the running query.
        poll: called about twice a second.
        on_current: called once, when the first batch is done or the query waits for input.
        stop_timeout_s: how long the running batch may still take once the query has to stop; None before that.
        drain_after_batch: stop the query once a batch after this one has no new data; None: never.
        now: the clock, in seconds.
    """

    def __init__(
        self,
        query: StreamingQuery,
        *,
        poll: Callable[[], None],
        on_current: Callable[[], None],
        stop_timeout_s: Callable[[], float | None],
        now: Callable[[], float],
        drain_after_batch: int | None = None,
    ) -> None:
        self._query = query
        self._poll = poll
        self._on_current = on_current
        self._stop_timeout_s = stop_timeout_s
        self._now = now
        self._drain_after_batch = drain_after_batch
        self._was_current = False
        self._deadline: float | None = None
        self._last_batch: int | None = None

    def until_end(self) -> End:
        """Wait for the end of the query.

        Raises the error of the query or of a poll, after which the query is stopped too.
        """
        try:
            return self._monitor()
        except BaseException:
            self._query.stop()
            raise

    def _monitor(self) -> End:
        while not self._query.awaitTermination(_POLL_INTERVAL_S):  # type: ignore[arg-type]  # takes parts of a second too
            self._poll()
            if not self._was_current and self._is_current():
                self._was_current = True
                self._on_current()
            if self._drain_after_batch is not None and self._is_drained(self._drain_after_batch):
                self._query.stop()
                return End.DRAINED
            stop_timeout_s = self._stop_timeout_s()
            if stop_timeout_s is None:
                continue
            if self._deadline is None:
                self._deadline, self._last_batch = self._now() + stop_timeout_s, self._batch()
            between_batches = self._between_batches()
            if between_batches or stop_timeout_s == 0 or self._now() >= self._deadline:
                self._query.stop()
                return End.BETWEEN_BATCHES if between_batches else End.WITHIN_BATCH
        return End.BY_ITSELF

    def _is_drained(self, after: int) -> bool:
        progress = self._query.lastProgress
        if progress is None or int(progress["batchId"]) <= after:
            return False
        return all(source["startOffset"] == source["endOffset"] for source in progress["sources"])

    def _is_current(self) -> bool:
        return self._batch() is not None or str(self._query.status["message"]).startswith("Waiting")

    def _between_batches(self) -> bool:
        return self._batch() != self._last_batch or not self._query.status["isTriggerActive"]

    def _batch(self) -> int | None:
        progress = self._query.lastProgress
        return None if progress is None else int(progress["batchId"])
