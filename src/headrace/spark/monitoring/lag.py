"""The lag of a running query: for topics from Spark's own progress, for files and tables also from their logs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from headrace.autoloader.pending_files import auto_loader_backlog
from headrace.autoloader.source import Source as LoaderSource
from headrace.delta_log.unread_commits import BETWEEN_COMMITS, unread_commits
from headrace.events.types import FlowLagMetrics
from headrace.graph.analysis import Source, SourceKind
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.local_path import local_path
from headrace.model.outcome import FilesBacklog, PartitionLag, SourceLag, TableLag
from headrace.sources.kafka_offsets import lags, positions_of
from headrace.sources.source_lag import lag_of_offsets
from headrace.spark.monitoring.unread_files import UnreadFiles
from headrace.spark.update.context import UpdateContext
from headrace.stores.paths import StoragePath, storage_path

# The start of Spark's description of the source.
_DESCRIPTION = "KafkaV2["
_DELTA_SOURCE = re.compile(r"DeltaSource\[(?P<path>.*)\]", re.DOTALL)
_REPORT_INTERVAL_S = 10.0


class LagReporter:
    """Reports the lag of a query behind topics, files and tables, when it has changed: at intervals and at the end."""

    def __init__(
        self,
        context: UpdateContext,
        flow: ResolvedFlow,
        query: StreamingQuery,
        checkpoint: StoragePath,
        *,
        reads_topics: bool,
    ) -> None:
        self._context = context
        self._flow = flow
        self._query = query
        self._loaders = {
            number: LoaderSource.from_json(source.detail)
            for number, source in enumerate(flow.analysis.sources)
            if source.kind is SourceKind.AUTO_LOADER
        }
        self._tables = {
            number: source for number, source in enumerate(flow.analysis.sources) if source.kind is SourceKind.DATASET
        }
        self._others = {
            number: source for number, source in enumerate(flow.analysis.sources) if source.kind is SourceKind.OTHER
        }
        self._files = {
            number: UnreadFiles(source, number, checkpoint, context.reporting.now)
            for number, source in enumerate(flow.analysis.sources)
            if source.kind is SourceKind.FILES
        }
        self._reads_topics = reads_topics
        self._reported: FlowLagMetrics | None = None
        self._reported_at = float("-inf")

    def report(self, *, last: bool = False) -> None:
        """Report the lag if it has changed."""
        now = self._context.reporting.now()
        if not last and now - self._reported_at < _REPORT_INTERVAL_S:
            return
        progress: Any = self._query.lastProgress
        if progress is None:
            return
        self._reported_at = now
        lag = lag_of_progress(progress) if self._reads_topics else ()
        backlog, tables = backlog_of_progress(progress, self._loaders), table_lag_of_progress(progress, self._tables)
        unread = (files.lag(last=last) for files in self._files.values())
        others = (*source_lag_of_progress(progress, self._others), *(found for found in unread if found is not None))
        behind = FlowLagMetrics(self._flow.name, str(self._flow.target), lag, backlog, tables, others)
        if (lag or backlog or tables or others) and behind != self._reported:
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


def source_lag_of_progress(progress: Mapping[str, Any], others: Mapping[int, Source]) -> tuple[SourceLag, ...]:
    """The lag behind Kinesis, databases and synthetic events, when the last batch was planned.

    Args:
        progress: of the last batch.
        others: the sources of other kinds, by their numbers.
    """
    found = (
        lag_of_offsets(others[number].detail, source["endOffset"], source["latestOffset"])
        for number, source in enumerate(progress["sources"])
        if number in others
    )
    return tuple(lag for lag in found if lag is not None)


def table_lag_of_progress(progress: Mapping[str, Any], datasets: Mapping[int, Source]) -> tuple[TableLag, ...]:
    """The commits after the last batch that a query has not read, for each Delta table that it streams.

    Args:
        progress: of the last batch.
        datasets: the sources that are datasets, by their numbers.
    """
    found = (_table_lag(source, datasets.get(number)) for number, source in enumerate(progress["sources"]))
    return tuple(lag for lag in found if lag is not None)


def _table_lag(source: Mapping[str, Any], dataset: Source | None) -> TableLag | None:
    description = _DELTA_SOURCE.fullmatch(str(source["description"]))
    if description is None:
        return None
    path, position = local_path(description["path"]), _position_of(source["endOffset"])
    if position is None or not storage_path(path).is_dir():
        return None
    version, index, in_snapshot = position
    unread = unread_commits(path, version, index, in_snapshot=in_snapshot)
    oldest = None if unread.oldest_at_ms is None else datetime.fromtimestamp(unread.oldest_at_ms / 1000, UTC)
    name = path if dataset is None else dataset.detail
    if dataset is not None and dataset.reads_feed:
        # A change feed has other rows than the files of the table.
        return TableLag(name, unread.commits, None, None, oldest)
    return TableLag(name, unread.commits, unread.rows, unread.size_bytes, oldest)


def _position_of(offset: Any) -> tuple[int, int, bool] | None:
    """The version, the file and whether the initial rows are being read; None for another offset.

    Source: Delta's ``DeltaSourceOffset``. Between two commits, the position is before the next version, which may not
    exist yet.
    """
    try:
        found = json.loads(offset) if isinstance(offset, str) else offset
        version, index = int(found["reservoirVersion"]), int(found["index"])
        return version, max(index, BETWEEN_COMMITS), bool(found.get("isStartingVersion"))
    except (KeyError, TypeError, ValueError):
        return None
