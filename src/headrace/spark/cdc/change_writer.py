"""The sink of a flow that applies changes: batches of events become one commit of the target each.

What is to be remembered is stored first; the commit of the target is the one that counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from headrace.cdc.feed import ChangeFeed, MergePath
from headrace.cdc.merge_commit import Merged
from headrace.cdc.scd_spec import ScdType
from headrace.cdc.table_lock import TableLock
from headrace.delta_log.tables import newest_version
from headrace.model.datasets import Flow
from headrace.model.sequence_conflicts import OnTie
from headrace.model.tombstone_retention import Retention
from headrace.runtime.failpoints import Failpoint, Failpoints
from headrace.spark.cdc.batch_cache import kept_rows
from headrace.spark.cdc.bitemporal import believed
from headrace.spark.cdc.change_events import events_of, fitted
from headrace.spark.cdc.change_feed import without_replaced
from headrace.spark.cdc.commit import Commit
from headrace.spark.cdc.latest_event import newest
from headrace.spark.cdc.merge_batch import Batch
from headrace.spark.cdc.recompute_keys import rebuilt
from headrace.spark.cdc.retained_events import RetainedEvents
from headrace.spark.cdc.sequence_conflicts import refuse_ties, with_ties
from headrace.spark.cdc.tombstone_retention import forget, look
from headrace.spark.delta.conflicts import computed_again


@dataclass(frozen=True)
class ChangeWriter:
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
        retention: how long the target needs what is remembered.
        now: the time of day, in seconds since 1970.
        term: the number of the lease.
        on_tie: what is done about events that tie; those that are set aside do not come here.
    """

    flow: Flow
    feed: ChangeFeed
    table: str
    memory: str
    transaction: str
    at: Failpoints
    fence: Callable[[], None]
    turn: TableLock
    retention: Retention
    now: Callable[[], float]
    term: int
    on_tie: OnTie

    def events_among(self, rows: DataFrame) -> DataFrame:
        """The rows of a batch that are events: of a change feed, what its commits come to."""
        events = without_replaced(rows, self.feed.shape.keys) if self.feed.of_commits else rows
        return with_ties(self.flow, self.feed, events) if self.on_tie is OnTie.QUARANTINE else events

    def __call__(self, rows: DataFrame, batch_id: int, judged: DataFrame) -> bool:
        """Merge the events of a batch, whose keys and sequences are there; what was set aside changes nothing."""
        del judged
        with self.turn.lock:
            computed_again(lambda: self._merge(rows, batch_id), self.fence, self.flow)
        return True

    def _merge(self, rows: DataFrame, batch_id: int) -> None:
        with kept_rows() as kept:
            session = rows.sparkSession
            memory = RetainedEvents(self.memory, self.table, self.now)
            since = newest_version(self.table)
            if not self.turn.tidy:
                memory.forget_unfinished(session, self.fence)
            self._tidy(session, memory)
            self.turn.tidy = False
            self.turn.truncated |= self._truncates
            target = session.read.format("delta").load(self.table)
            events = fitted(events_of(self.flow, self.feed, rows), self.feed, target)
            if self.on_tie is OnTie.FAIL:
                refuse_ties(self.flow, events, batch_id)
            batch = Batch(
                flow=self.flow,
                feed=self.feed,
                events=events,
                remembered=memory.read(events),
                target=target,
                truncated=self.turn.truncated,
                forgotten=memory.forgotten(events) if self.turn.forgot else None,
                kept=kept,
            )
            path = self._path(events)
            if path is MergePath.NEWEST:
                changes = newest(batch)
            else:
                changes = believed(batch) if self.feed.shape.bitemporal else rebuilt(batch)
            if changes.missing is not None:
                self.fence()
                memory.add(changes.missing, self.transaction, batch_id)
                self.at(Failpoint.REMEMBERED)
            self.at(Failpoint.TO_WRITE)
            merged = Merged(path, changes.counts, self.feed.shape.scd_type is ScdType.TWO)
            Commit(changes.merge, self.table, self.fence, (self.transaction, batch_id), merged, since).make()
            self.turn.tidy = True
            self.at(Failpoint.WRITTEN)

    def _tidy(self, session: SparkSession, memory: RetainedEvents) -> None:
        """Know what is remembered, and forget what nobody should need any more, at first and now and then."""
        if self.feed.shape.bitemporal:
            # What was believed follows from all events.
            return
        turn, now = self.turn, self.now()
        if turn.tidy and turn.looked_at is not None and now - turn.looked_at < self.retention.pause_s:
            return
        until = now - self.retention.window_s
        known = look(session, memory, self.feed, until)
        if known.due and forget(session, memory, self.feed, until, self.term, self.fence):
            self.at(Failpoint.FORGOTTEN)
            known = look(session, memory, self.feed, until)
        turn.truncated, turn.forgot, turn.looked_at = known.truncated, known.forgot, now

    def _path(self, events: DataFrame) -> MergePath:
        path, _ = self.feed.path
        if path is MergePath.NEWEST and self._truncates and not events.filter("truncates").isEmpty():
            return MergePath.REBUILT
        return path

    @property
    def _truncates(self) -> bool:
        return self.flow.changes is not None and self.flow.changes.truncates is not None
