"""Registers the event log, the views over it, and the system tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.events.extracts import write_extract
from headrace.events.flow_results import FLOW_COLUMNS, event_log_flows
from headrace.events.lakeflow_views import MonitoredPipeline
from headrace.events.log_events import LogEvents
from headrace.events.log_parts import EXTRACT_DDL, Part
from headrace.events.system_tables import (
    LAKEFLOW_VIEWS,
    PIPELINE_EVENTS,
    PIPELINE_UPDATE_TIMELINE,
    STREAMING_TABLES,
    SYSTEM_TABLES,
)
from headrace.events.views import VIEWS, View
from headrace.model.liveness import Liveness
from headrace.model.names import QualifiedName, quoted
from headrace.spark.update.catalog import Catalog

_LOG = QualifiedName("event_log")
_OWN_VIEWS: Mapping[QualifiedName, View] = {QualifiedName(name): view for name, view in VIEWS.items()}
_COLUMNS = {table.name: table.ddl for table in SYSTEM_TABLES}
# Tables that are computed from events without Spark, and their columns.
_COMPUTED: Mapping[QualifiedName, tuple[Callable[[LogEvents, Liveness], pa.Table], str]] = {
    **{name: (compute, _COLUMNS[name]) for name, compute in STREAMING_TABLES.items()},
    QualifiedName("event_log_flows"): (event_log_flows, FLOW_COLUMNS),
}
# One partition needs no shuffles, which took most of the time of a query over 100,000 batches.
_MOST_IN_ONE_PARTITION = 1_000_000
# Names that a statement can read besides the pipeline's own.
EVENT_VIEWS = frozenset({_LOG, *_OWN_VIEWS, *_COMPUTED, *LAKEFLOW_VIEWS})


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
        texts = _views_of_log(lambda parts: extracts.of(path, parts), own, wanted)
        _register_computed(catalog, path, own, wanted, extracts)
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


def _register_computed(
    catalog: Catalog, path: str, own: MonitoredPipeline, wanted: Collection[QualifiedName], extracts: _Extracts
) -> None:
    names = [name for name in _COMPUTED if name in wanted and not catalog.names.knows(name)]
    if names:
        events = LogEvents(path)
        for name in names:
            compute, columns = _COMPUTED[name]
            extracts.store(name, compute(events, own.liveness), columns)


def _views_of_log(
    extract: Callable[[frozenset[Part]], str],
    own: MonitoredPipeline,
    wanted: Collection[QualifiedName],
) -> dict[QualifiedName, str]:
    views = {name: view for name, view in _OWN_VIEWS.items() if name in wanted}
    if not views:
        return {}
    table = extract(frozenset[Part]().union(*(view.parts for view in views.values())))
    return {name: view(table, own.liveness) for name, view in views.items()}


class _Extracts:
    """Extracts of event logs, and tables made of them, as temporary views; each is a folder of files."""

    def __init__(self, catalog: Catalog, folder: Path) -> None:
        self._catalog = catalog
        self._folder = folder
        self._number = 0

    def of(self, log: str, parts: Collection[Part]) -> str:
        """The quoted name of a new extract of a log.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        files = self._new_folder()
        name = QualifiedName(files.name)
        self._register(name, files, EXTRACT_DDL, write_extract(log, parts, files))
        return self._catalog.names.of(name).text

    def store(self, name: QualifiedName, rows: pa.Table, columns: str) -> None:
        """Make rows a temporary view with a name; *columns* are Spark's names and types."""
        files = self._new_folder()
        pq.write_table(rows, files / "0.parquet", compression="LZ4")
        self._register(name, files, columns, rows.num_rows)

    def _new_folder(self) -> Path:
        self._number += 1
        folder = self._folder / f"headrace_events_{self._number}"
        folder.mkdir()
        return folder

    def _register(self, name: QualifiedName, files: Path, columns: str, rows: int) -> None:
        frame = self._catalog.session.read.schema(columns).parquet(str(files))
        self._catalog.register_names([name], [name])
        self._catalog.register_view(name, frame.coalesce(1) if rows <= _MOST_IN_ONE_PARTITION else frame)
