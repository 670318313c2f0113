"""A sink with a spill queue: batches wait in the pipeline's storage while it is down, and are delivered in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from headrace.runtime.failpoints import Failpoint
from headrace.spark.sinks.sink import Batch, Sink
from headrace.spark.update.guard import Guard
from headrace.storage.spill_queue import BatchToSpill, SpilledBatch, remove_spilled_batch, spill_batch, spilled_batches
from headrace.stores.paths import StoragePath

# How long a sink that was down gets no requests.
PAUSE_S = 30.0
# How many waiting batches a new batch delivers before itself.
_MAX_SPILLED_PER_BATCH = 20


# An option of Spark's reader, which would interpret brackets in a path as a glob (DataSource.GLOB_PATHS_KEY).
_GLOBS = "__globPaths__"


@dataclass(frozen=True)
class SpillQueue:
    """The queue of batches that wait for a sink.

    Attributes:
        folder: holds the batches.
        spills: new batches may join the queue; otherwise it is only drained.
        outage_reason: for an error of the sink, why it is down; None for any other error.
        monotonic: a monotonic clock in seconds.
        report: gets the state of the sink, with a code.
    """

    folder: StoragePath
    spills: bool
    outage_reason: Callable[[BaseException], str | None]
    monotonic: Callable[[], float]
    report: Callable[[str, str], None]


class SpillQueueSink:
    """Delivers batches to a sink, or queues them, in order: while one waits, later ones wait too.

    A batch that is repeated while it waits is queued once. If a crash comes between the delivery of a waiting batch and
    its removal, the sink gets it again under its own number, like any repeated batch.

    Args:
        sink: the sink, which may be down.
        queue: the queue of its batches.
        guard: failpoints and fencing of each step.
        batch_of: the batch that the sink gets for a waiting one.
    """

    def __init__(self, sink: Sink, queue: SpillQueue, guard: Guard, batch_of: Callable[[SpilledBatch], Batch]) -> None:
        self._sink = sink
        self._queue = queue
        self._guard = guard
        self._batch_of = batch_of
        self._not_before = 0.0
        self._has_reported = False

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Deliver or queue a batch; returns its number of rows, if known."""
        batch_key = (batch.epoch, batch.number)
        known = [one.rows() for one in self._pending() if (one.epoch, one.number) == batch_key]
        is_drained = self.catch_up(rows.sparkSession, _MAX_SPILLED_PER_BATCH)
        if known:
            return known[0]
        reason: str | None = None
        if is_drained:
            try:
                return self._deliver(rows, batch)
            except Exception as error:  # noqa: BLE001 - raised again, unless the sink is down
                reason = self._outage_reason(error)
        count = self._spill(rows, batch)
        # Only now is it certain that the error came from the sink, and not from the computation of the rows.
        if reason is not None:
            self._report_outage(reason)
        return count

    def catch_up(
        self, session: SparkSession, limit: int | None = None, is_stopping: Callable[[], bool] = lambda: False
    ) -> bool:
        """Deliver waiting batches; True if none is left, and the sink may get new ones.

        Args:
            session: reads the rows, with the flow's own settings.
            limit: the maximum number of batches.
            is_stopping: checked between batches.
        """
        if self._queue.monotonic() < self._not_before:
            return False
        pending = self._pending()
        due = pending[:limit]
        for done, one in enumerate(due):
            if is_stopping():
                return False
            rows = session.read.option(_GLOBS, "false").parquet(str(one.data))
            try:
                self._deliver(rows, self._batch_of(one))
            except Exception as error:  # noqa: BLE001 - the same
                self._report_outage(self._outage_reason(error, one))
                return False
            self._guard.before(Failpoint.SPILL_DELIVERED)
            remove_spilled_batch(one)
            if done + 1 == len(pending):
                self._queue.report("SINK.CAUGHT_UP", "is back, and has all batches that had to wait")
        return len(due) == len(pending)

    def _pending(self) -> list[SpilledBatch]:
        return spilled_batches(self._queue.folder)

    def _deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        count = self._sink.deliver(rows, batch)
        self._not_before, self._has_reported = 0.0, False
        return count

    def _outage_reason(self, error: Exception, spilled: SpilledBatch | None = None) -> str:
        """Why the sink is down.

        Raises:
            Exception: *error*, if it is not an outage, or batches may not wait.
        """
        reason = self._queue.outage_reason(error)
        if reason is not None and (spilled is not None or self._queue.spills):
            self._not_before = self._queue.monotonic() + PAUSE_S
        if reason is None and spilled is not None:
            self._queue.report("SINK.WAITING", f"does not take the batch that has waited in {spilled.folder}")
        if reason is None or not self._queue.spills:
            raise error
        return reason

    def _report_outage(self, reason: str) -> None:
        if not self._has_reported:
            self._queue.report("SINK.DOWN", f"is down, and batches wait for it in the storage: {reason}")
        self._has_reported = True

    def _spill(self, rows: DataFrame, batch: Batch) -> int:
        def write(folder: StoragePath) -> None:
            rows.write.parquet(str(folder))

        self._guard.before(Failpoint.BEFORE_WRITE)
        batch_to_spill = BatchToSpill(batch.transaction, batch.epoch, batch.number, batch.positions)
        count = spill_batch(self._queue.folder, batch_to_spill, write, self._guard.fence)
        self._guard.failpoint(Failpoint.SPILLED)
        return count
