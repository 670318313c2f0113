"""Reports the offsets that a running query has skipped because they were lost, from Spark's progress and the broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headrace.errors import PipelineError
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.sources.kafka_offsets import LostOffsets, ReportedLosses, losses_in_batch, offset_ranges, partition_losses
from headrace.spark.readers.kafka_topics import TopicSource, earliest_offsets, report_lost
from headrace.spark.update.context import UpdateContext


class LossReporter:
    """Checks each batch of a query with ``failOnDataLoss`` off for lost offsets.

    Queries the broker only about a batch that read fewer records than it has offsets.

    Args:
        context: the context of the update.
        flow: the flow.
        sources: the sources of its query that read topics.
        reported: what was reported before the query started, by the number of the source.
    """

    def __init__(
        self,
        context: UpdateContext,
        flow: ResolvedFlow,
        sources: Iterable[TopicSource],
        reported: Mapping[int, ReportedLosses],
    ) -> None:
        self._context = context
        self._flow = flow
        self._sources = [source for source in sources if not source.fails_on_loss]
        self._reported = reported

    def report(self, batches: Sequence[Any]) -> None:
        """Warn of the offsets that the batches since the last call have lost."""
        for batch in batches:
            for source in self._sources:
                report_lost(self._context, self._flow, self._lost(source, batch["sources"][source.number]))

    def _lost(self, source: TopicSource, batch: Any) -> tuple[LostOffsets, ...]:
        start, end, rows = batch["startOffset"], batch["endOffset"], int(batch["numInputRows"])
        reported = self._reported[source.number]
        spans = offset_ranges(start, end, reported.earliest)
        gone = partition_losses(start, end, reported.lost_partitions)
        if sum(max(span.end - span.start, 0) for span in spans.values()) <= rows:
            return gone
        try:
            firsts = earliest_offsets(self._context.session, source, self._flow, spans)
        except PipelineError:
            # A broker that does not answer is no reason to stop a running query.
            return gone
        return (*gone, *losses_in_batch(spans, rows, firsts))
