"""Looks after a running query until it ends, or until it is to be stopped."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from pyspark.sql.streaming.query import StreamingQuery

_LOOK_EVERY_S = 0.5


class End(Enum):
    """How a query ended: with its input, or stopped, between two batches or within one."""

    BY_ITSELF = "by itself"
    BETWEEN_BATCHES = "between batches"
    WITHIN_BATCH = "within a batch"
    # It would have gone on with timers of the clock for ever.
    DRAINED = "with its input"


class QueryMonitor:
    """Waits for one query.

    Args:
        query: what runs.
        look: called at each look, about twice a second.
        current: called once, when a first batch is done or the query waits for input.
        stop_timeout_s: how long the running batch may still take once the query should end early, None before that.
        drains_behind: end it once a batch behind this one has brought nothing new; None: never.
        now: seconds.
    """

    def __init__(
        self,
        query: StreamingQuery,
        *,
        look: Callable[[], None],
        current: Callable[[], None],
        stop_timeout_s: Callable[[], float | None],
        now: Callable[[], float],
        drains_behind: int | None = None,
    ) -> None:
        self._query = query
        self._look = look
        self._current = current
        self._stop_timeout_s = stop_timeout_s
        self._now = now
        self._drains_behind = drains_behind
        self._said_current = False
        self._deadline: float | None = None
        self._last_batch: int | None = None

    def until_end(self) -> End:
        """How the query ended.

        Raises what made the query fail, or what a look raised; the query does not run on without somebody who looks.
        """
        try:
            return self._watched()
        except BaseException:
            self._query.stop()
            raise

    def _watched(self) -> End:
        while not self._query.awaitTermination(_LOOK_EVERY_S):  # type: ignore[arg-type]  # takes parts of a second too
            self._look()
            if not self._said_current and self._is_current():
                self._said_current = True
                self._current()
            if self._drains_behind is not None and self._is_drained(self._drains_behind):
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

    def _is_drained(self, behind: int) -> bool:
        progress = self._query.lastProgress
        if progress is None or int(progress["batchId"]) <= behind:
            return False
        return all(source["startOffset"] == source["endOffset"] for source in progress["sources"])

    def _is_current(self) -> bool:
        return self._batch() is not None or str(self._query.status["message"]).startswith("Waiting")

    def _between_batches(self) -> bool:
        return self._batch() != self._last_batch or not self._query.status["isTriggerActive"]

    def _batch(self) -> int | None:
        progress = self._query.lastProgress
        return None if progress is None else int(progress["batchId"])
