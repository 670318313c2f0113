"""Commits changed groups to the table of a view, together with the versions of its tables that they come from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.delta_log.tables import commit_actions, has_data_changes, newest_version
from headrace.events.types import BatchDone
from headrace.model.batch_commit import BatchCommit
from headrace.model.outcome import FlowCounts
from headrace.model.refresh import Refresh
from headrace.runtime.failpoints import Failpoint
from headrace.runtime.ports import Emit
from headrace.spark.delta.conflicts import Outdated
from headrace.spark.delta.transaction import DeltaTransaction
from headrace.spark.refresh.touched_groups import GroupChange
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.update.guard import Guard
from headrace.storage.view_positions import ViewPositions

_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


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
        now_s: a clock for durations.
    """

    flow: str
    dataset: str
    epoch: int
    transaction: str
    guard: Guard
    emit: Emit
    now_s: Callable[[], float] = time.monotonic

    def write(
        self,
        opened: DeltaTransaction,
        change: GroupChange | None,
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
        text = positions.to_text(opened.session.conf.get(_METADATA, None))
        with with_confs(opened.session, {_METADATA: text}):
            self._commit(opened, change, batch_id)
        self.guard.failpoint(Failpoint.WRITTEN)
        counts = FlowCounts(rows_written=change.changed if change else 0, refresh=refresh)
        duration_ms = int((self.now_s() - began_s) * 1000)
        commit = BatchCommit.of(batch_id, commit_actions(opened.path, batch_id) or ()) if change else None
        self.emit(BatchDone(self.flow, self.dataset, self.epoch, batch_id, counts, duration_ms, None, None, commit))
        self.guard.failpoint(Failpoint.COUNTED)

    def _commit(self, opened: DeltaTransaction, change: GroupChange | None, batch_id: int) -> None:
        if change is None:
            opened.record({self.transaction: batch_id})
            return
        metrics = {
            "operationNumSourceRows": change.added,
            "numTargetRowsInserted": change.added,
            "numTargetRowsDeleted": change.removed,
            "numOutputRows": change.added,
        }
        if change.removed and (
            opened.delete_matching(change.keys, change.keys.columns, null_safe=True) != change.removed
        ):
            raise Outdated
        if change.added:
            opened.add(change.rows)
        opened.commit((self.transaction, batch_id), metrics)
