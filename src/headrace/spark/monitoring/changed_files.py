"""Warns once of files that changed after Auto Loader read them, because they are not read again."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from headrace.autoloader.pending_files import files_changed_since
from headrace.autoloader.source import Source as LoaderSource
from headrace.errors import PipelineError
from headrace.events.types import Warned
from headrace.graph.analysis import SourceKind
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.spark.update.context import UpdateContext

_POLL_INTERVAL_S = 10.0


class ChangedFiles:
    """Warns of the files of a query that changed since it started."""

    def __init__(self, context: UpdateContext, flow: ResolvedFlow, query: StreamingQuery, began_at: float) -> None:
        self._context = context
        self._flow = flow
        self._query = query
        self._loaders = {
            number: LoaderSource.from_json(source.detail)
            for number, source in enumerate(flow.analysis.sources)
            if source.kind is SourceKind.AUTO_LOADER
        }
        # Before the start of the query, which lists files at once.
        self._since_s = began_at
        self._reported_at = context.reporting.now()
        self._reported = set[str]()

    def report(self, *, last: bool = False) -> None:
        """Warn of the changes since the last call."""
        now = self._context.reporting.now()
        if not self._loaders or (not last and now - self._reported_at < _POLL_INTERVAL_S):
            return
        progress: Any = self._query.lastProgress
        if progress is None:
            return
        self._reported_at = now
        for number, loader in self._loaders.items():
            offset = progress["sources"][number]["endOffset"] if number < len(progress["sources"]) else None
            self._warn(
                [path for path in files_changed_since(loader, offset, self._since_s) if path not in self._reported]
            )

    def _warn(self, paths: list[str]) -> None:
        if not paths:
            return
        self._reported.update(paths)
        problem = PipelineError(
            "AUTO_LOADER.FILES_CHANGED_LATER", flow=self._flow.name, count=len(paths), file=paths[0]
        )
        message = f"{problem.message}. {problem.hint}"
        self._context.reporting.emit(Warned(problem.code, message, self._flow.name, str(self._flow.target)))
