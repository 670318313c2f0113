"""Reports what the batches of a running query did: rows, rates, phases and state."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from headrace.events.types import StreamProgress
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.executor_time import ExecutorTime, sum_of
from headrace.model.stream_progress import StreamBatches, combined
from headrace.spark.update.context import UpdateContext

_REPORT_INTERVAL_S = 10.0


class ProgressReporter:
    """Collects the batches of one query, and reports them together: at intervals and at the end."""

    def __init__(self, context: UpdateContext, flow: ResolvedFlow, query: StreamingQuery, epoch: int) -> None:
        self._context = context
        self._flow = flow
        self._query = query
        self._epoch = epoch
        self._unreported: list[Any] = []
        self._previous_start: datetime | None = None
        self._reported_at = context.reporting.now()
        self._has_reported = False

    def report(self, batches: Sequence[Any], *, last: bool = False) -> None:
        """Add the batches since the last call, and report if it is time to.

        Args:
            batches: Spark's progress of the new batches, oldest first.
            last: the query has ended.
        """
        self._unreported += batches
        now = self._context.reporting.now()
        if not last and now - self._reported_at < _REPORT_INTERVAL_S:
            return
        self._reported_at = now
        if self._unreported:
            progress = combined(self._unreported, self._previous_start, self._executor_time(last=last))
            self._unreported, self._previous_start = [], progress.started_at
        elif not self._has_reported and str(self._query.status["message"]).startswith("Waiting"):
            # A query without input so far is seen too.
            progress = StreamBatches.none(datetime.fromtimestamp(now, UTC))
        else:
            return
        self._has_reported = True
        self._context.reporting.emit(
            StreamProgress(
                flow=self._flow.name,
                dataset=str(self._flow.target),
                epoch=self._epoch,
                query_id=str(self._query.id),
                run_id=str(self._query.runId),
                progress=progress,
            )
        )

    def _executor_time(self, *, last: bool) -> ExecutorTime | None:
        """The time of the tasks of the unreported batches, and of what came between them."""
        newest = int(self._unreported[-1]["batchId"])
        times = self._context.reporting.executor_times.take(str(self._query.runId), newest, settled=last)
        return sum_of(times.values())
