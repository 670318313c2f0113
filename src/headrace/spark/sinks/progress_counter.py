"""Counts the batches of a sink to which Spark itself writes a stream, from the query's progress."""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery

from headrace.events.types import BatchDone
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.outcome import FlowCounts
from headrace.spark.update.context import UpdateContext

# The name of the observed metric, and its field.
OBSERVED, ROWS = "headrace", "rows"


class ProgressCounter:
    """Counts the batches of one query that are in Spark's recent progress.

    Args:
        context: gets the events.
        flow: the query's flow.
        epoch: of the flow.
        query: the query, which may have ended.
    """

    def __init__(self, context: UpdateContext, flow: ResolvedFlow, epoch: int, query: StreamingQuery) -> None:
        self._context = context
        self._flow = flow
        self._epoch = epoch
        self._query = query
        self._last = -1
        self.batches = 0

    def count(self) -> None:
        """Record the batches that were written since the last call."""
        for progress in self._query.recentProgress:
            number = int(progress.batchId)
            observed = progress.observedMetrics.get(OBSERVED)
            if number <= self._last or observed is None:
                continue
            self._last = number
            self.batches += 1
            self._context.reporting.emit(
                BatchDone(
                    flow=self._flow.name,
                    dataset=str(self._flow.target),
                    epoch=self._epoch,
                    batch_id=number,
                    counts=FlowCounts(rows_written=int(observed[ROWS])),
                    duration_ms=int(progress.batchDuration),
                )
            )
