"""What a running stream reports: its lag, changed files, lost offsets, state and watermark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql.streaming.query import StreamingQuery

from headrace.graph.resolved import ResolvedFlow
from headrace.model.static_inputs import StaticInputs
from headrace.sources.kafka_offsets import Told
from headrace.spark.analysis.static_inputs import FolderListings
from headrace.spark.monitoring.changed_files import ChangedFiles
from headrace.spark.monitoring.lag import LagReporter
from headrace.spark.monitoring.lost_offsets import LossReporter
from headrace.spark.monitoring.state_reporter import StateReporter
from headrace.spark.readers.kafka_topics import TopicSource
from headrace.spark.update.context import UpdateContext


@dataclass(frozen=True)
class TopicsRead:
    """The Kafka topics that a query reads, and what the broker said of them when it started."""

    sources: tuple[TopicSource, ...]
    told: Mapping[int, Told]


class StreamReports:
    """All reports of one running query.

    Args:
        context: what the flows of the update share.
        flow: whose query it is.
        query: the query.
        topics: what it reads from Kafka.
        static_inputs: how it reads tables and files that are no streams.
        began_at: when the attempt began, in seconds since 1970.
        knows_newest: Spark knows the newest offsets; in real time, they are older than what was read.
        polled: called at each report of a continuous stream, if it is one.
    """

    def __init__(
        self,
        context: UpdateContext,
        flow: ResolvedFlow,
        query: StreamingQuery,
        topics: TopicsRead,
        static_inputs: StaticInputs,
        began_at: float,
        *,
        knows_newest: bool,
        polled: Callable[[], None] | None,
    ) -> None:
        self._lag = LagReporter(context, flow, query, reads_topics=bool(topics.sources) and knows_newest)
        self._changes = ChangedFiles(context, flow, query, began_at)
        self._losses = LossReporter(context, flow, query, topics.sources, topics.told)
        self._state = StateReporter(context, flow, query)
        self._listings = FolderListings(query, static_inputs.listed_every_s or float("inf"), context.now)
        self._polled = polled

    def report(self, *, last: bool = False) -> None:
        """Report what is new; at the end of the query everything."""
        self._lag.tell(last=last)
        self._changes.tell(last=last)
        self._losses.tell()
        self._state.tell(last=last)
        self._listings.look()
        if self._polled is not None and not last:
            self._polled()
