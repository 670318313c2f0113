"""A sink whose batches wait in the pipeline's storage while it is down, and reach it in their order when it is back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace.runtime.failpoints import Failpoint
from headrace.spark.sinks.sink import Batch, Guard, Sink
from headrace.storage.spill_queue import BatchToKeep, SpilledBatch, keep_waiting, let_go, waiting_batches

# For so long nobody asks a sink that was down.
PAUSE_S = 30.0
# A batch takes no more of those that wait along with it.
_MOST_WITH_A_BATCH = 20


# Of Spark's reader, which takes brackets in a path for those of a pattern (DataSource.GLOB_PATHS_KEY).
_GLOBS = "__globPaths__"


@dataclass(frozen=True)
class SpillPlace:
    """Where batches wait for a sink.

    Attributes:
        folder: for the batches.
        keeps: whether batches begin to wait when the sink is down; else those that do are only delivered.
        outage: of an error of the sink, why it is down; None for what would come again.
        monotonic: seconds that only grow.
        tell: is told, with a code, what became of the sink.
    """

    folder: Path
    keeps: bool
    outage: Callable[[BaseException], str | None]
    monotonic: Callable[[], float]
    tell: Callable[[str, str], None]


class WithSpillQueue:
    """Delivers to a sink, or lets batches wait for it, in their order: while one waits, those behind it do.

    A batch that comes again while it waits is not taken twice. One that the sink has, and that waits still because of a
    crash, goes to the sink again under its own number, as any batch that comes again.

    Args:
        sink: that may be down.
        place: where its batches wait.
        guard: what is done around each step.
        batch_of: a batch that has waited, as the sink gets it.
    """

    def __init__(self, sink: Sink, place: SpillPlace, guard: Guard, batch_of: Callable[[SpilledBatch], Batch]) -> None:
        self._sink = sink
        self._place = place
        self._guard = guard
        self._batch_of = batch_of
        self._not_before = 0.0
        self._told = False

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Take a batch, or let it wait; how many rows it has, if that is known."""
        whose = (batch.epoch, batch.number)
        known = [one.rows() for one in self._waiting() if (one.epoch, one.number) == whose]
        free = self.catch_up(rows.sparkSession, _MOST_WITH_A_BATCH)
        if known:
            return known[0]
        reason: str | None = None
        if free:
            try:
                return self._taken(rows, batch)
            except Exception as error:  # noqa: BLE001 - raised again, unless the sink is down
                reason = self._down(error)
        count = self._keep(rows, batch)
        # Only now is it sure that it was the sink's error, and not that of what computes the rows.
        if reason is not None:
            self._tell_once(reason)
        return count

    def catch_up(
        self, session: SparkSession, most: int | None = None, stopping: Callable[[], bool] = lambda: False
    ) -> bool:
        """Deliver what waits; True when nothing does any more, and the sink may be asked.

        Args:
            session: reads the rows, under the flow's own settings.
            most: how many batches, at most.
            stopping: is asked between batches.
        """
        if self._place.monotonic() < self._not_before:
            return False
        waiting = self._waiting()
        due = waiting[:most]
        for done, one in enumerate(due):
            if stopping():
                return False
            rows = session.read.option(_GLOBS, "false").parquet(str(one.data))
            try:
                self._taken(rows, self._batch_of(one))
            except Exception as error:  # noqa: BLE001 - the same
                self._tell_once(self._down(error, one))
                return False
            self._guard.before(Failpoint.CAUGHT_UP)
            let_go(one)
            if done + 1 == len(waiting):
                self._place.tell("SINK.CAUGHT_UP", "is back, and has all batches that had to wait")
        return len(due) == len(waiting)

    def _waiting(self) -> list[SpilledBatch]:
        return waiting_batches(self._place.folder)

    def _taken(self, rows: DataFrame, batch: Batch) -> int | None:
        count = self._sink.deliver(rows, batch)
        self._not_before, self._told = 0.0, False
        return count

    def _down(self, error: Exception, waited: SpilledBatch | None = None) -> str:
        """Why the sink is down.

        Raises:
            Exception: *error*, where that is no outage, or nothing may wait for its end.
        """
        reason = self._place.outage(error)
        if reason is not None and (waited is not None or self._place.keeps):
            self._not_before = self._place.monotonic() + PAUSE_S
        if reason is None and waited is not None:
            self._place.tell("SINK.WAITING", f"does not take the batch that has waited in {waited.folder}")
        if reason is None or not self._place.keeps:
            raise error
        return reason

    def _tell_once(self, reason: str) -> None:
        if not self._told:
            self._place.tell("SINK.DOWN", f"is down, and batches wait for it in the storage: {reason}")
        self._told = True

    def _keep(self, rows: DataFrame, batch: Batch) -> int:
        def write(folder: Path) -> None:
            rows.write.parquet(str(folder))

        self._guard.before(Failpoint.TO_WRITE)
        kept = BatchToKeep(batch.transaction, batch.epoch, batch.number, batch.positions)
        count = keep_waiting(self._place.folder, kept, write, self._guard.fence)
        self._guard.at(Failpoint.WAITS)
        return count
