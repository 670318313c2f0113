"""The reports of a running stream: progress, lag, changed files, lost offsets, state and watermark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql.streaming.query import StreamingQuery

from headrace.events.types import Warned
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.static_inputs import StaticInputs
from headrace.sources.kafka_offsets import ReportedLosses
from headrace.spark.analysis.static_inputs import FolderListings
from headrace.spark.monitoring.changed_files import ChangedFiles
from headrace.spark.monitoring.computed_batches import ComputedBatches
from headrace.spark.monitoring.lag import LagReporter
from headrace.spark.monitoring.lost_offsets import LossReporter
from headrace.spark.monitoring.progress_reporter import ProgressReporter
from headrace.spark.monitoring.state_reporter import StateReporter
from headrace.spark.readers.kafka_topics import TopicSource
from headrace.spark.update.context import UpdateContext


@dataclass(frozen=True)
class TopicsRead:
    """The Kafka topics that a query reads, and the offsets that the broker reported at its start."""

    sources: tuple[TopicSource, ...]
    reported_losses: Mapping[int, ReportedLosses]


class StreamReports:
    """All reports of one running query.

    Args:
        context: shared by the flows of the update.
        flow: whose query it is.
        query: the query.
        epoch: of the flow.
        topics: the Kafka topics that it reads.
        static_inputs: how it reads tables and files that are not streams.
        began_at: when the attempt began, in seconds since 1970.
        knows_newest: Spark knows the newest offsets. In real-time mode they are older than the offsets that were read.
        on_poll: called at each report of a continuous stream, if it is one.
    """

    def __init__(
        self,
        context: UpdateContext,
        flow: ResolvedFlow,
        query: StreamingQuery,
        epoch: int,
        topics: TopicsRead,
        static_inputs: StaticInputs,
        began_at: float,
        *,
        knows_newest: bool,
        on_poll: Callable[[], None] | None,
    ) -> None:
        checkpoint = context.state.checkpoint(flow, epoch)
        reads_topics = bool(topics.sources) and knows_newest
        self._lag = LagReporter(context, flow, query, checkpoint, reads_topics=reads_topics)
        self._changes = ChangedFiles(context, flow, query, began_at)
        self._losses = LossReporter(context, flow, topics.sources, topics.reported_losses)
        self._batches = ComputedBatches(query)
        self._progress = ProgressReporter(context, flow, query, epoch)
        self._state = StateReporter(context, flow)
        self._listings = FolderListings(query, static_inputs.relist_interval_s or float("inf"), context.reporting.now)
        self._on_poll = on_poll
        self._context, self._flow = context, flow
        self._unmeasured: set[str] = set()

    def report(self, *, last: bool = False) -> None:
        """Report changes; at the end of the query everything."""
        self._measure("lag", partial(self._lag.report, last=last))
        self._changes.report(last=last)
        batches = self._batches.new()
        self._losses.report(batches)
        self._measure("progress", partial(self._progress.report, batches, last=last))
        self._state.report(batches, last=last)
        self._listings.refresh()
        if self._on_poll is not None and not last:
            self._on_poll()

    def _measure(self, what: str, report: Callable[[], None]) -> None:
        """Report a measurement. What cannot be measured is a warning, because it must not end a flow."""
        try:
            report()
        except (OSError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            if what in self._unmeasured:
                return
            self._unmeasured.add(what)
            name, reason = self._flow.name, f"{type(error).__name__}: {error}"
            message = f'flow "{name}": its {what} cannot be measured ({reason})'
            self._context.reporting.emit(Warned("FLOW.NOT_MEASURED", message, name, str(self._flow.target)))
