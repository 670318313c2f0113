"""Counts the batches that Spark's own Delta sink commits, from the table's log (D3)."""

from __future__ import annotations

import time
from pathlib import Path

from headrace.checkpoints.delta_log import commit_file, table_state
from headrace.events.types import BatchDone
from headrace.graph.resolved import ResolvedFlow
from headrace.model.outcome import FlowCounts
from headrace.spark.commits import stream_commits
from headrace.spark.rescued import rescued_column
from headrace.spark.surroundings import Surroundings


class CommitCounter:
    """Follows one query's commits into its target.

    Args:
        around: where the events go.
        flow: whose commits.
        epoch: the flow's epoch.
        query_id: the query's own id, which its commits carry.
        counted_version: the version of the target up to which commits are in the event log.
    """

    def __init__(
        self, around: Surroundings, flow: ResolvedFlow, epoch: int, query_id: str, counted_version: int
    ) -> None:
        self._around = around
        self._flow = flow
        self._epoch = epoch
        self._query_id = query_id
        self._looked_at = time.monotonic()
        self._first = True
        self.counted_version = counted_version
        self.batches = 0

    def count(self) -> None:
        """Record the batches that were committed since the last call; costs a look at one file when there are none."""
        path = self._around.table_path(self._flow.target)
        # After a start, older commits may be gone from the log; from then on the next one has its file.
        first, self._first = self._first, False
        if not first and not commit_file(Path(path), self.counted_version + 1).exists():
            return
        state = table_state(path)
        if state is None or state.version <= self.counted_version:
            return
        column = rescued_column(self._flow)
        commits = stream_commits(path, self._query_id, self.counted_version + 1, state.version, column)
        now = time.monotonic()
        for commit in commits:
            # Before a crash, the last batches may have been recorded without the record of this having been stored.
            if first and self._around.known_counts(self._flow.name, self._epoch, commit.batch_id) is not None:
                continue
            self.batches += 1
            self._around.emit(
                BatchDone(
                    flow=self._flow.name,
                    dataset=str(self._flow.target),
                    epoch=self._epoch,
                    batch_id=commit.batch_id,
                    counts=FlowCounts(rows_written=commit.rows, rows_rescued=commit.rescued),
                    duration_ms=int((now - self._looked_at) * 1000),
                )
            )
        self._looked_at = now
        self.counted_version = state.version
