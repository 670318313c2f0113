"""Commits changed groups to the table of a view, together with the versions of its tables that they come from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.delta_log.tables import (
    commit_actions,
    count_rows,
    has_data_changes,
    newest_version,
    open_table_log,
    size_by_checksum,
)
from headrace.events.types import BatchDone
from headrace.model.batch_commit import BatchCommit
from headrace.model.expectations import ExpectationCount
from headrace.model.outcome import FlowCounts
from headrace.model.refresh import Refresh
from headrace.runtime.failpoints import Failpoint
from headrace.runtime.ports import Emit
from headrace.spark.cdc.batch_cache import cached_bytes, cached_frames
from headrace.spark.delta.conflicts import Outdated
from headrace.spark.delta.small_append import SmallAppends, most_rows, refresh_caches
from headrace.spark.delta.transaction import DeltaTransaction
from headrace.spark.refresh.view_change import ViewChange, in_groups
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.update.guard import Guard
from headrace.storage.view_positions import ViewPositions

# Views up to this size are written as a whole: that takes less time than to find the rows that are gone.
_REWRITTEN_BYTES = 8 << 20
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def is_small_view(opened: DeltaTransaction) -> bool:
    """Whether the view that a transaction changes is written as a whole."""
    snapshot = opened.opened.snapshot()
    known = size_by_checksum(opened.path, int(snapshot.version()))
    return (int(snapshot.sizeInBytes()) if known is None else known) <= _REWRITTEN_BYTES


@dataclass(frozen=True)
class GroupWriter:
    """Commits to one view.

    Attributes:
        flow: the name of its flow.
        dataset: its name.
        epoch: the epoch of the flow.
        transaction: the id of the flow's transactions.
        guard: failpoints and fencing.
        emit: receives a BatchDone for each commit.
        known_counts: the counts of a commit that the event log has already; by flow, epoch and batch id.
        expectations: how many rows of the view pass and fail each of its expectations afterwards.
        now_s: a clock for durations.
    """

    flow: str
    dataset: str
    epoch: int
    transaction: str
    guard: Guard
    emit: Emit
    known_counts: Callable[[str, int, int], FlowCounts | None]
    expectations: tuple[ExpectationCount, ...] = ()
    now_s: Callable[[], float] = time.monotonic

    def write(
        self,
        opened: DeltaTransaction,
        change: ViewChange | None,
        positions: ViewPositions,
        refresh: Refresh,
        began_s: float,
    ) -> None:
        """Commit a change, or only the new positions, and report it.

        Args:
            opened: the transaction in which the stored rows were read.
            change: what changes in the view; None if nothing does.
            positions: what the rows come from afterwards.
            refresh: how the view is refreshed.
            began_s: when the refresh began.

        Raises:
            Outdated: another writer has changed the view since the transaction was opened; nothing was written.
        """
        read_version = int(opened.opened.snapshot().version())
        batch_id = read_version + 1
        self.guard.before(Failpoint.BEFORE_WRITE)
        if has_data_changes(opened.path, batch_id, newest_version(opened.path)):
            raise Outdated
        rows_written = change.changed if change else 0
        positions = replace(positions, refresh=refresh, rows_written=rows_written)
        text = positions.to_text(opened.session.conf.get(_METADATA, None))
        if not self._commit_small(opened, change, batch_id, text):
            with with_confs(opened.session, {_METADATA: text}):
                self._commit(opened, change, batch_id)
        self.guard.failpoint(Failpoint.WRITTEN)
        counts = FlowCounts(rows_written=rows_written, expectations=self.expectations, refresh=refresh)
        duration_ms = int((self.now_s() - began_s) * 1000)
        commit = BatchCommit.of(batch_id, commit_actions(opened.path, batch_id) or ()) if change else None
        self.emit(BatchDone(self.flow, self.dataset, self.epoch, batch_id, counts, duration_ms, None, None, commit))
        self.guard.failpoint(Failpoint.COUNTED)

    def count_again(self, positions: ViewPositions, path: str) -> None:
        """Report a refresh that is in the view, and that a crash kept out of the event log.

        Args:
            positions: those of its commit.
            path: of the view.
        """
        number, rows = positions.version, positions.rows_written
        if positions.refresh is None or rows is None or self.known_counts(self.flow, self.epoch, number) is not None:
            return
        counts = FlowCounts(rows_written=rows, refresh=positions.refresh, recovered=True)
        commit = BatchCommit.of(number, commit_actions(path, number) or ())
        self.emit(BatchDone(self.flow, self.dataset, self.epoch, number, counts, None, None, None, commit))

    def _commit_small(self, opened: DeltaTransaction, change: ViewChange | None, batch_id: int, text: str) -> bool:
        """Commit without Spark's writer; False if only that can do it, and nothing was written."""
        session, read_version = opened.session, batch_id - 1
        appends = SmallAppends(opened.path, self.transaction)
        if change is None:
            return appends.record(session, batch_id, text, read_version)
        row_count = change.added
        if change.removed:
            stored = open_table_log(opened.path) if is_small_view(opened) else None
            if stored is None or stored.version() != read_version:
                return False
            row_count += count_rows(stored, opened.path) - change.removed
        if row_count > most_rows(session):
            return False
        with cached_frames() as cache:
            rows, size_bytes = change.rows, change.size_bytes
            if change.removed and change.keys is not None:
                # What fits into small files may take much room in memory.
                rows = cache.eager(self._others(opened, change.keys).unionByName(rows))
                size_bytes = cached_bytes(rows)
            done = appends.append(
                rows,
                row_count,
                batch_id,
                replace=change.removed > 0,
                user_metadata=text,
                size_bytes=size_bytes,
                read_version=read_version,
            )
        if done:
            refresh_caches(session, opened.path)
        return done

    @staticmethod
    def _others(opened: DeltaTransaction, keys: DataFrame) -> DataFrame:
        """The stored rows of all groups but those with these keys."""
        return in_groups(opened.rows(), F.broadcast(keys), keys.columns, matching=False)

    def _commit(self, opened: DeltaTransaction, change: ViewChange | None, batch_id: int) -> None:
        if change is None:
            opened.record({self.transaction: batch_id})
            return
        metrics = {
            "operationNumSourceRows": change.added,
            "numTargetRowsInserted": change.added,
            "numTargetRowsDeleted": change.removed,
            "numOutputRows": change.added,
        }
        kept = self._remove(opened, change) if change.removed else None
        rows = change.rows if kept is None else kept.unionByName(change.rows)
        if kept is not None or change.added:
            opened.add(rows)
        opened.commit((self.transaction, batch_id), metrics)

    def _remove(self, opened: DeltaTransaction, change: ViewChange) -> DataFrame | None:
        """Remove the stored rows of the groups that change; returns rows that have to be written again, if any."""
        if change.keys is None:
            opened.delete_all()
            return None
        if is_small_view(opened):
            opened.delete_all()
            return self._others(opened, change.keys)
        if opened.delete_matching(change.keys, change.keys.columns, null_safe=True) != change.removed:
            raise Outdated
        return None
