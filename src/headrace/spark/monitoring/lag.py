"""The lag of a running query: for topics from Spark's own progress, for files also from their ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from headrace.autoloader.pending_files import auto_loader_backlog
from headrace.autoloader.source import Source as LoaderSource
from headrace.events.types import FlowLagMetrics
from headrace.graph.analysis import SourceKind
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.outcome import FilesBacklog, PartitionLag
from headrace.sources.kafka_offsets import lags, positions_of
from headrace.spark.update.context import UpdateContext

# The start of Spark's description of the source.
_DESCRIPTION = "KafkaV2["
_REPORT_INTERVAL_S = 10.0


class LagReporter:
    """Reports the lag of a query behind its topics and files, when it has changed: at intervals and at the end."""

    def __init__(
        self, context: UpdateContext, flow: ResolvedFlow, query: StreamingQuery, *, reads_topics: bool
    ) -> None:
        self._context = context
        self._flow = flow
        self._query = query
        self._loaders = {
            number: LoaderSource.from_json(source.detail)
            for number, source in enumerate(flow.analysis.sources)
            if source.kind is SourceKind.AUTO_LOADER
        }
        self._is_enabled = reads_topics or bool(self._loaders)
        self._reported: FlowLagMetrics | None = None
        self._reported_at = float("-inf")

    def report(self, *, last: bool = False) -> None:
        """Report the lag if it has changed."""
        now = self._context.reporting.now()
        if not self._is_enabled or (not last and now - self._reported_at < _REPORT_INTERVAL_S):
            return
        progress: Any = self._query.lastProgress
        if progress is None:
            return
        self._reported_at = now
        lag, backlog = lag_of_progress(progress), backlog_of_progress(progress, self._loaders)
        behind = FlowLagMetrics(self._flow.name, str(self._flow.target), lag, backlog)
        if (lag or backlog) and behind != self._reported:
            self._reported = behind
            self._context.reporting.emit(behind)


def lag_of_progress(progress: Mapping[str, Any]) -> tuple[PartitionLag, ...]:
    """The lag of every partition that a query reads, from the progress of its last batch; empty for other sources.

    Source: Spark's ``SourceProgress``; ``latestOffset`` is the broker's latest when the batch was planned.
    """
    return tuple(
        partition
        for source in progress["sources"]
        if str(source["description"]).startswith(_DESCRIPTION)
        for partition in lags(positions_of(source["endOffset"]), positions_of(source["latestOffset"]))
    )


def backlog_of_progress(progress: Mapping[str, Any], loaders: Mapping[int, LoaderSource]) -> tuple[FilesBacklog, ...]:
    """The discovered files after the last batch, for each Auto Loader source by its number.

    Unlike for a broker, the ledger is read now: an idle stream has already discovered what it reads next.
    """
    found = (
        auto_loader_backlog(loader, progress["sources"][number]["endOffset"])
        for number, loader in loaders.items()
        if number < len(progress["sources"])
    )
    return tuple(backlog for backlog in found if backlog is not None)
