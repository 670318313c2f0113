"""Registers the event log, the views over it, and the system tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from headrace.events.extracts import write_extract
from headrace.events.lakeflow_views import MonitoredPipeline
from headrace.events.log_parts import EXTRACT_DDL, Part
from headrace.events.system_tables import LAKEFLOW_VIEWS, PIPELINE_EVENTS, PIPELINE_UPDATE_TIMELINE, STREAMING_VIEWS
from headrace.events.views import VIEWS, View
from headrace.model.names import QualifiedName, quoted
from headrace.spark.update.catalog import Catalog

_LOG = QualifiedName("event_log")
_OWN_VIEWS: Mapping[QualifiedName, View] = {
    **{QualifiedName(name): view for name, view in VIEWS.items()},
    **STREAMING_VIEWS,
}
# One partition needs no shuffles, which took most of the time of a query over 100,000 batches.
_MOST_IN_ONE_PARTITION = 1_000_000
# Names that a statement can read besides the pipeline's own.
EVENT_VIEWS = frozenset({_LOG, *_OWN_VIEWS, *LAKEFLOW_VIEWS})


def register_event_views(
    catalog: Catalog,
    path: str,
    pipelines: Sequence[MonitoredPipeline],
    wanted: Collection[QualifiedName],
    folder: Path,
) -> None:
    """Register the event log as a table ``event_log``, flat views over it, and the system tables.

    Args:
        catalog: with the pipeline's own tables, whose names come first.
        path: of the event log.
        pipelines: what ``system.lakeflow.*`` covers: first the pipeline itself.
        wanted: the names that a statement can read; others are not registered, because each takes half a second.
        folder: is empty, and exists as long as the views are used.
    """
    own, *others = pipelines
    extracts = _Extracts(catalog, folder)
    texts: dict[QualifiedName, str] = {}
    if (Path(path) / "_delta_log").is_dir():
        if _LOG in wanted or PIPELINE_EVENTS.name in wanted:
            catalog.register_path(_LOG, path)
            own = replace(own, table=catalog.names.of(_LOG).text)
        texts = _views_of_log(catalog, lambda parts: extracts.of(path, parts), own, wanted)
    pipelines = [own, *(replace(one, table=one.log and f"delta.{quoted(one.log)}") for one in others)]
    if PIPELINE_UPDATE_TIMELINE.name in wanted:
        updates = (one.log and extracts.of(one.log, {Part.UPDATES}) for one in pipelines)
        pipelines = [replace(one, updates=extract) for one, extract in zip(pipelines, updates, strict=True)]
    for name, view in LAKEFLOW_VIEWS.items():
        text = view(pipelines) if name in wanted else ""
        if text and not catalog.names.knows(name):
            texts[name] = text
    catalog.register_names(texts, texts)
    for name, text in texts.items():
        catalog.register_view(name, catalog.session.sql(text))


def _views_of_log(
    catalog: Catalog,
    extract: Callable[[frozenset[Part]], str],
    own: MonitoredPipeline,
    wanted: Collection[QualifiedName],
) -> dict[QualifiedName, str]:
    known = {name for name in STREAMING_VIEWS if catalog.names.knows(name)}
    views = {name: view for name, view in _OWN_VIEWS.items() if name in wanted and name not in known}
    if not views:
        return {}
    table = extract(frozenset[Part]().union(*(view.parts for view in views.values())))
    return {name: view(table, own.liveness) for name, view in views.items()}


class _Extracts:
    """Extracts of event logs as temporary views; each is a folder of files."""

    def __init__(self, catalog: Catalog, folder: Path) -> None:
        self._catalog = catalog
        self._folder = folder
        self._number = 0

    def of(self, log: str, parts: Collection[Part]) -> str:
        """The quoted name of a new extract of a log.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        self._number += 1
        name = QualifiedName(f"headrace_events_{self._number}")
        files = self._folder / name.name
        files.mkdir()
        events = write_extract(log, parts, files)
        frame = self._catalog.session.read.schema(EXTRACT_DDL).parquet(str(files))
        self._catalog.register_names([name], [name])
        self._catalog.register_view(name, frame.coalesce(1) if events <= _MOST_IN_ONE_PARTITION else frame)
        return self._catalog.names.of(name).text
