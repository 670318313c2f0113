"""Counts the batches that Spark's own Delta sink commits, from the table's log (D3)."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from headrace.delta_log.tables import commit_file, newest_version
from headrace.events.types import BatchDone
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.outcome import FlowCounts
from headrace.spark.delta.commit_counts import StreamCommit, stream_commits
from headrace.spark.delta.rescued_rows import rescued_column
from headrace.spark.update.context import UpdateContext
from headrace.stores.paths import storage_path


class CommitCounter:
    """Counts the commits of one query to its target.

    Args:
        context: receives the events.
        flow: the flow.
        epoch: the flow's epoch.
        query_id: Spark's id of the query, which its commits carry.
        counted_version: the version of the target up to which commits are in the event log.
        query: the running query, which reports how long its batches took; None if it has ended.
    """

    def __init__(
        self,
        context: UpdateContext,
        flow: ResolvedFlow,
        epoch: int,
        query_id: str,
        counted_version: int,
        query: StreamingQuery | None = None,
    ) -> None:
        self._context = context
        self._flow = flow
        self._epoch = epoch
        self._query_id = query_id
        self._query = query
        self._first = True
        self.counted_version = counted_version
        self.batches = 0

    def count(self) -> None:
        """Record the batches that were committed since the last call; without any, it checks only one file."""
        path = self._context.table_path(self._flow.target)
        # At first, older commits may have been removed from the log; from then on the next commit has a file.
        if not self._first and not commit_file(storage_path(path), self.counted_version + 1).exists():
            return
        newest = newest_version(path)
        if newest <= self.counted_version:
            self._first = False
            return
        # Check this before reading durations: a query that has ended reports no more.
        ended = self._query is None or not self._query.isActive
        column = rescued_column(self._flow)
        commits = tuple(stream_commits(path, self._query_id, self.counted_version + 1, newest, column))
        durations_ms = _durations_ms(self._query, commits[0].batch_id) if self._query is not None and commits else {}
        for commit in commits:
            if not ended and commit.batch_id not in durations_ms:
                # Spark will report it soon.
                return
            self._record(commit, durations_ms.get(commit.batch_id))
            self.counted_version = commit.version
        self._first = False
        self.counted_version = newest

    def _record(self, commit: StreamCommit, duration_ms: int | None) -> None:
        # An update that crashed may have recorded batches without storing counted_version.
        if (
            self._first
            and self._context.reporting.known_counts(self._flow.name, self._epoch, commit.batch_id) is not None
        ):
            return
        self.batches += 1
        self._context.reporting.emit(
            BatchDone(
                flow=self._flow.name,
                dataset=str(self._flow.target),
                epoch=self._epoch,
                batch_id=commit.batch_id,
                counts=FlowCounts(rows_written=commit.rows, rows_rescued=commit.rescued),
                duration_ms=duration_ms,
                commit=commit.commit,
            )
        )


def _durations_ms(query: StreamingQuery, first: int) -> dict[int, int]:
    """The durations of the batches from *first* on, as far as Spark still reports them."""
    # PySpark would convert the whole list at each call.
    progress: Any = query._jsq.recentProgress()  # noqa: SLF001 - has no public form
    found: dict[int, int] = {}
    for index in range(len(progress) - 1, -1, -1):
        batch_id = int(progress[index].batchId())
        if batch_id < first:
            break
        # Triggers without new input report the number of the next batch.
        found.setdefault(batch_id, int(progress[index].batchDuration()))
    return found
