"""The sink of a flow that applies changes: batches of events become one commit of the target each.

What is to be remembered is stored first; the commit of the target is the one that counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from headrace.cdc.feed import Feed
from headrace.cdc.turn import Turn
from headrace.model.datasets import Flow
from headrace.runtime.seam import Point, Seam
from headrace.spark.cdc.batch import Batch
from headrace.spark.cdc.feed import events_of, fitted
from headrace.spark.cdc.kept import kept_rows
from headrace.spark.cdc.memory import Memory
from headrace.spark.cdc.newest import newest, newest_decides
from headrace.spark.cdc.rebuilding import rebuilt


@dataclass(frozen=True)
class Merging:
    """Merges the batches of one flow into its target.

    Args:
        flow: declares what events do.
        feed: what that means for the columns of its source.
        table: where the target lies.
        memory: where events are remembered.
        transaction: under which the flow's batches are committed.
        at: is told each point that a crash could part from the next.
        fence: returns while this update may commit.
        turn: which the flows into the target take in turns.
    """

    flow: Flow
    feed: Feed
    table: str
    memory: str
    transaction: str
    at: Seam
    fence: Callable[[], None]
    turn: Turn

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Merge the events of a batch, whose keys and sequences are there."""
        with self.turn.lock, kept_rows() as kept:
            session = rows.sparkSession
            memory = Memory(self.memory, self.table)
            if not self.turn.tidy:
                memory.forget_unfinished(session)
                self.turn.truncated = memory.has_truncates(session)
            self.turn.tidy = False
            self.turn.truncated |= self._truncates
            target = session.read.format("delta").load(self.table)
            events = fitted(events_of(self.flow, self.feed, rows), self.feed, target)
            batch = Batch(self.flow, self.feed, events, memory.read(events), target, self.turn.truncated, kept)
            changes = newest(batch) if self._newest_decides(events) else rebuilt(batch)
            if changes.missing is not None:
                self.fence()
                memory.add(changes.missing, self.transaction, batch_id)
                self.at(Point.REMEMBERED)
            self.at(Point.TO_WRITE)
            self.fence()
            changes.merge.commit(self.table, self.transaction, batch_id)
            self.turn.tidy = True
            self.at(Point.WRITTEN)

    def _newest_decides(self, events: DataFrame) -> bool:
        if not newest_decides(self.feed):
            return False
        return not self._truncates or events.filter("truncates").isEmpty()

    @property
    def _truncates(self) -> bool:
        return self.flow.changes is not None and self.flow.changes.truncates is not None
