"""How far a running query is behind what it reads: topics by Spark's own progress, files by their ledger too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from headrace.autoloader.pending_files import backlog_of_auto_loader
from headrace.autoloader.source import Source as LoaderSource
from headrace.events.types import FlowBehind
from headrace.graph.resolved import ResolvedFlow, SourceKind
from headrace.model.outcome import FilesBacklog, PartitionLag
from headrace.sources.kafka_offsets import lags, positions_of
from headrace.spark.update.context import UpdateContext

# How Spark describes the source.
_DESCRIPTION = "KafkaV2["
_SAY_EVERY_S = 10.0


class LagReporter:
    """Says how far a query is behind its topics and files, when that has changed, now and then, and at its end."""

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
        self._is_told = reads_topics or bool(self._loaders)
        self._said: FlowBehind | None = None
        self._looked_at = float("-inf")

    def tell(self, *, last: bool = False) -> None:
        """Record how far the query is behind if there is news of it."""
        now = self._context.now()
        if not self._is_told or (not last and now - self._looked_at < _SAY_EVERY_S):
            return
        progress: Any = self._query.lastProgress
        if progress is None:
            return
        self._looked_at = now
        lag, backlog = lag_of_progress(progress), backlog_of_progress(progress, self._loaders)
        behind = FlowBehind(self._flow.name, str(self._flow.target), lag, backlog)
        if (lag or backlog) and behind != self._said:
            self._said = behind
            self._context.emit(behind)


def lag_of_progress(progress: Mapping[str, Any]) -> tuple[PartitionLag, ...]:
    """The lag of every partition that a query reads, by the progress of its last batch; nothing for other sources.

    Source: Spark's ``SourceProgress``; ``latestOffset`` is what the broker had when the batch was planned.
    """
    return tuple(
        partition
        for source in progress["sources"]
        if str(source["description"]).startswith(_DESCRIPTION)
        for partition in lags(positions_of(source["endOffset"]), positions_of(source["latestOffset"]))
    )


def backlog_of_progress(progress: Mapping[str, Any], loaders: Mapping[int, LoaderSource]) -> tuple[FilesBacklog, ...]:
    """The files that are found and lie behind the last batch, of each source of Auto Loader by its number.

    Unlike a broker, the ledger is asked as it is now: a stream that waits has found what it will read next.
    """
    found = (
        backlog_of_auto_loader(loader, progress["sources"][number]["endOffset"])
        for number, loader in loaders.items()
        if number < len(progress["sources"])
    )
    return tuple(backlog for backlog in found if backlog is not None)
