"""A sink whose batches wait in the pipeline's storage while it is down, and reach it in their order when it is back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from headrace.checkpoints.waiting import WaitingBatch, keep_waiting, let_go, waiting_batches
from headrace.runtime.seam import Point
from headrace.spark.sinks.sink import Batch, Guard, Sink

# For so long nobody asks a sink that was down.
PAUSE_S = 30.0


@dataclass(frozen=True)
class WaitingPlace:
    """Where batches wait for a sink.

    Attributes:
        folder: for the batches.
        keeps: whether batches begin to wait when the sink is down; else those that do are only delivered.
        outage: of an error of the sink, why it is down; None for what is wrong with the batch, or would come again.
        monotonic: seconds that only grow.
        tell: is told once that the sink is down and why, and how many batches it got when it was back.
    """

    folder: Path
    keeps: bool
    outage: Callable[[BaseException], str | None]
    monotonic: Callable[[], float]
    tell: Callable[[str, str], None]


class WithFallback:
    """Delivers to a sink, or lets batches wait for it, in their order: while one waits, those behind it do.

    A batch that comes again while it waits is not taken twice. One that the sink has, and that waits still because of a
    crash, goes to the sink again under its own number, as any batch that comes again.

    Args:
        sink: that may be down.
        place: where its batches wait.
        guard: what is done around each step.
        batch_of: a batch that has waited, as the sink gets it.
    """

    def __init__(
        self, sink: Sink, place: WaitingPlace, guard: Guard, batch_of: Callable[[WaitingBatch], Batch]
    ) -> None:
        self._sink = sink
        self._place = place
        self._guard = guard
        self._batch_of = batch_of
        self._asked_again_at = 0.0

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Take a batch, or let it wait; how many rows it has, if that is known."""
        whose = (batch.transaction, batch.number)
        known = [one.rows for one in self._waiting() if (one.transaction, one.number) == whose]
        free = self.catch_up(lambda path: rows.sparkSession.read.parquet(str(path)))
        if known:
            return known[0]
        if free:
            try:
                return self._sink.deliver(rows, batch)
            except Exception as error:  # noqa: BLE001 - raised again, unless the sink is down
                self._is_down(error)
        return self._keep(rows, batch)

    def catch_up(self, read: Callable[[Path], DataFrame]) -> bool:
        """Deliver what waits; True when nothing does any more.

        *read* gives the rows of a folder of Parquet files.
        """
        waiting = self._waiting()
        if waiting and self._place.monotonic() < self._asked_again_at:
            return False
        for one in waiting:
            try:
                self._sink.deliver(read(one.data), self._batch_of(one))
            except Exception as error:  # noqa: BLE001 - the same
                self._is_down(error)
                return False
            self._guard.before(Point.CAUGHT_UP)
            let_go(one)
        if waiting:
            self._asked_again_at = 0.0
            rows = sum(one.rows for one in waiting)
            self._place.tell("SINK.CAUGHT_UP", f"is back, and has {_counted(len(waiting), rows)} that had to wait")
        return True

    def _waiting(self) -> list[WaitingBatch]:
        return waiting_batches(self._place.folder)

    def _is_down(self, error: Exception) -> None:
        """Take note of an outage.

        Raises:
            Exception: *error*, where it is none, or nothing may wait for its end.
        """
        reason = self._place.outage(error) if self._place.keeps else None
        if reason is None:
            raise error
        if not self._asked_again_at:
            self._place.tell("SINK.DOWN", f"is down, and batches wait for it in the storage: {reason}")
        self._asked_again_at = self._place.monotonic() + PAUSE_S

    def _keep(self, rows: DataFrame, batch: Batch) -> int:
        def write(folder: Path) -> None:
            rows.write.parquet(str(folder))

        self._guard.at(Point.TO_WRITE)
        whose = (batch.transaction, batch.epoch, batch.number)
        count = keep_waiting(self._place.folder, whose, write, self._guard.fence)
        self._guard.at(Point.WAITS)
        return count


def _counted(batches: int, rows: int) -> str:
    return f"{batches} batch{'' if batches == 1 else 'es'} of {rows} row{'' if rows == 1 else 's'}"
