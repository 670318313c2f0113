"""Says what a running query has gone on without, from Spark's progress and the broker's answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedFlow
from headrace.sources.kafka_offsets import Lost, Told, gone_between, lost_between, spans_of
from headrace.spark.monitoring.computed_batches import ComputedBatches
from headrace.spark.readers.kafka_topics import TopicSource, first_left, tell_lost
from headrace.spark.update.context import UpdateContext


class LossReporter:
    """Looks at each batch of a query whose sources are told to go on over offsets that are gone.

    The broker is asked only about a batch that has read fewer records than its offsets are.

    Args:
        context: what the flows of the update share.
        flow: whose query runs.
        query: what runs.
        sources: those of its sources that read topics.
        told: by the number of a source, what was said before the query started.
    """

    def __init__(
        self,
        context: UpdateContext,
        flow: ResolvedFlow,
        query: StreamingQuery,
        sources: Iterable[TopicSource],
        told: Mapping[int, Told],
    ) -> None:
        self._context = context
        self._flow = flow
        self._batches = ComputedBatches(query)
        self._sources = [source for source in sources if not source.fails_on_loss]
        self._told = told

    def tell(self) -> None:
        """Warn of what the batches since the last call have lost."""
        for batch in self._batches.new() if self._sources else ():
            for source in self._sources:
                tell_lost(self._context, self._flow, self._lost(source, batch["sources"][source.number]))

    def _lost(self, source: TopicSource, batch: Any) -> tuple[Lost, ...]:
        start, end, rows = batch["startOffset"], batch["endOffset"], int(batch["numInputRows"])
        told = self._told[source.number]
        spans = spans_of(start, end, told.firsts)
        gone = gone_between(start, end, told.gone)
        if sum(max(span.end - span.start, 0) for span in spans.values()) <= rows:
            return gone
        try:
            firsts = first_left(self._context.session, source, self._flow, spans)
        except PipelineError:
            # A broker that does not answer now is no reason to end a query that runs.
            return gone
        return (*gone, *lost_between(spans, rows, firsts))
