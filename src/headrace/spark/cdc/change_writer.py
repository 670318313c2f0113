"""The sink of a flow that applies changes: each batch of events becomes one commit of the target.

Events to retain are stored first; the commit of the target is the commit point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from headrace.cdc.feed import ChangeFeed, MergePath
from headrace.cdc.merge_commit import MergeSummary
from headrace.cdc.table_lock import TableLock
from headrace.delta_log.tables import newest_version
from headrace.model.datasets import Flow
from headrace.model.sequence_conflicts import OnTie
from headrace.model.tombstone_retention import Retention
from headrace.runtime.failpoints import Failpoint, Failpoints
from headrace.spark.cdc.batch_cache import cached_frames
from headrace.spark.cdc.bitemporal import bitemporal_changes
from headrace.spark.cdc.change_events import cast_to_target, events_of
from headrace.spark.cdc.commit import Commit
from headrace.spark.cdc.delta_change_feed import without_replaced_rows
from headrace.spark.cdc.latest_event import latest_event_changes
from headrace.spark.cdc.merge_batch import Batch
from headrace.spark.cdc.recompute_keys import recomputed_changes
from headrace.spark.cdc.retained_events import RetainedEvents
from headrace.spark.cdc.sequence_conflicts import fail_on_conflicts, mark_conflicts
from headrace.spark.cdc.tombstone_retention import expire, summarize
from headrace.spark.delta.conflicts import recompute_on_conflict


@dataclass(frozen=True)
class ChangeWriter:
    """Merges the batches of one flow into its target.

    Args:
        flow: declares what events do.
        feed: the declaration, applied to the columns of the source.
        table: path of the target.
        retained_events: path of the table that retains events.
        transaction: id of the transactions that commit the flow's batches.
        failpoint: called between writes that a crash could separate.
        fence: raises once another process holds the lease.
        table_lock: shared by all flows into the target.
        retention: how long the target needs retained events.
        now: the current time, in seconds since 1970.
        fencing_token: number of the lease.
        on_tie: what to do about sequence conflicts; quarantined events do not reach this class.
    """

    flow: Flow
    feed: ChangeFeed
    table: str
    retained_events: str
    transaction: str
    failpoint: Failpoints
    fence: Callable[[], None]
    table_lock: TableLock
    retention: Retention
    now: Callable[[], float]
    fencing_token: int
    on_tie: OnTie

    def select_events(self, rows: DataFrame) -> DataFrame:
        """The rows of a batch that are events: of a change feed, the net effect of each commit."""
        events = without_replaced_rows(rows, self.feed.spec.keys) if self.feed.is_delta_change_feed else rows
        return mark_conflicts(self.flow, self.feed, events) if self.on_tie is OnTie.QUARANTINE else events

    def __call__(self, rows: DataFrame, batch_id: int, evaluated: DataFrame) -> bool:
        """Merge the events of a batch, which have keys and sequences; quarantined events have no effect."""
        del evaluated
        with self.table_lock.lock:
            recompute_on_conflict(lambda: self._merge(rows, batch_id), self.fence, self.flow)
        return True

    def _merge(self, rows: DataFrame, batch_id: int) -> None:
        with cached_frames() as cache:
            session = rows.sparkSession
            retained = RetainedEvents(self.retained_events, self.table, self.now)
            read_version = newest_version(self.table)
            if not self.table_lock.is_clean:
                retained.delete_uncommitted(session, self.fence)
            self._expire(session, retained)
            self.table_lock.is_clean = False
            self.table_lock.has_truncates |= self._truncates
            target = session.read.format("delta").load(self.table)
            events = cast_to_target(events_of(self.flow, self.feed, rows), self.feed, target)
            if self.on_tie is OnTie.FAIL:
                fail_on_conflicts(self.flow, events, batch_id)
            batch = Batch(
                flow=self.flow,
                feed=self.feed,
                events=events,
                retained=retained.read(events),
                target=target,
                has_truncates=self.table_lock.has_truncates,
                expired=retained.expired(events) if self.table_lock.has_expired else None,
                cache=cache,
            )
            path = self._path(events)
            if path is MergePath.LATEST_EVENT:
                changes = latest_event_changes(batch)
            else:
                changes = bitemporal_changes(batch) if self.feed.spec.bitemporal else recomputed_changes(batch)
            if changes.to_retain is not None:
                self.fence()
                retained.add(changes.to_retain, self.transaction, batch_id)
                self.failpoint(Failpoint.EVENTS_RETAINED)
            self.failpoint(Failpoint.BEFORE_WRITE)
            summary = MergeSummary(path, changes.counts, self.feed.spec.keeps_versions)
            transaction = (self.transaction, batch_id)
            Commit(changes.merge, self.table, self.fence, transaction, summary, read_version).execute()
            self.table_lock.is_clean = True
            self.failpoint(Failpoint.WRITTEN)

    def _expire(self, session: SparkSession, retained: RetainedEvents) -> None:
        """Remove expired events, before the first batch and then at intervals, and note what is retained."""
        if self.feed.spec.bitemporal:
            # Bitemporal versions follow from all events.
            return
        state, now = self.table_lock, self.now()
        if state.is_clean and state.checked_at is not None and now - state.checked_at < self.retention.interval_s:
            return
        until = now - self.retention.window_s
        summary = summarize(session, retained, self.feed, until)
        if summary.may_expire and expire(session, retained, self.feed, until, self.fencing_token, self.fence):
            self.failpoint(Failpoint.EVENTS_EXPIRED)
            summary = summarize(session, retained, self.feed, until)
        state.has_truncates, state.has_expired, state.checked_at = summary.has_truncates, summary.has_expired, now

    def _path(self, events: DataFrame) -> MergePath:
        path, _ = self.feed.merge_path
        if path is MergePath.LATEST_EVENT and self._truncates and not events.filter("truncates").isEmpty():
            return MergePath.RECOMPUTED_KEYS
        return path

    @property
    def _truncates(self) -> bool:
        return self.flow.changes is not None and self.flow.changes.truncates is not None
