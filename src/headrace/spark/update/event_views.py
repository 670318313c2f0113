"""Registers the event log, the tables that are computed from it, and the system tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.events.lakeflow_views import MonitoredPipeline
from headrace.events.log_events import LogEvents
from headrace.events.log_tables import LOG_TABLES
from headrace.events.system_tables import (
    LAKEFLOW_VIEWS,
    PIPELINE_EVENTS,
    PIPELINE_UPDATE_TIMELINE,
    STREAMING_TABLES,
    SYSTEM_TABLES,
)
from headrace.events.update_timeline import pipeline_update_timeline
from headrace.events.view_names import EVENT_LOG
from headrace.model.liveness import Liveness
from headrace.model.names import QualifiedName, quoted
from headrace.spark.update.catalog import Catalog
from headrace.stores.delta_tables import is_delta

_COLUMNS = {table.name: table.ddl for table in SYSTEM_TABLES}
# Tables that are computed from events without Spark, and their columns.
_COMPUTED: Mapping[QualifiedName, tuple[Callable[[LogEvents, Liveness], pa.Table], str]] = {
    **{name: (compute, _COLUMNS[name]) for name, compute in STREAMING_TABLES.items()},
    **{QualifiedName(name): (table.compute, table.columns) for name, table in LOG_TABLES.items()},
}
# One partition needs no shuffles, which took most of the time of a query over 100,000 batches.
_MOST_IN_ONE_PARTITION = 1_000_000


def register_event_views(
    catalog: Catalog,
    path: str,
    pipelines: Sequence[MonitoredPipeline],
    wanted: Collection[QualifiedName],
    folder: Path,
) -> None:
    """Register the event log as a table ``event_log``, flat tables of its events, and the system tables.

    Args:
        catalog: with the pipeline's own tables, whose names come first.
        path: of the event log.
        pipelines: what ``system.lakeflow.*`` covers: first the pipeline itself.
        wanted: the names that a statement can read; others are not registered, because each takes half a second.
        folder: is empty, and exists as long as the views are used.
    """
    own, *others = pipelines
    stored = _StoredTables(catalog, folder)
    texts: dict[QualifiedName, str] = {}
    if is_delta(path):
        if EVENT_LOG in wanted or PIPELINE_EVENTS.name in wanted:
            catalog.register_path(EVENT_LOG, path)
            own = replace(own, table=catalog.names.of(EVENT_LOG).text)
        _register_computed(catalog, path, own, wanted, stored)
    pipelines = [own, *(replace(one, table=one.log and f"delta.{quoted(one.log)}") for one in others)]
    timeline = PIPELINE_UPDATE_TIMELINE.name
    if timeline in wanted and not catalog.names.knows(timeline):
        stored.store(timeline, pipeline_update_timeline(pipelines), _COLUMNS[timeline])
    for name, view in LAKEFLOW_VIEWS.items():
        text = view(pipelines) if name in wanted else ""
        if text and not catalog.names.knows(name):
            texts[name] = text
    catalog.register_names(texts, texts)
    for name, text in texts.items():
        catalog.register_view(name, catalog.session.sql(text))


def _register_computed(
    catalog: Catalog, path: str, own: MonitoredPipeline, wanted: Collection[QualifiedName], stored: _StoredTables
) -> None:
    names = [name for name in _COMPUTED if name in wanted and not catalog.names.knows(name)]
    if names:
        events = LogEvents(path)
        for name in names:
            compute, columns = _COMPUTED[name]
            stored.store(name, compute(events, own.liveness), columns)


class _StoredTables:
    """Computed tables as temporary views; each is a folder of files."""

    def __init__(self, catalog: Catalog, folder: Path) -> None:
        self._catalog = catalog
        self._folder = folder
        self._number = 0

    def store(self, name: QualifiedName, rows: pa.Table, columns: str) -> None:
        """Make rows a temporary view with a name; *columns* are Spark's names and types."""
        self._number += 1
        folder = self._folder / f"headrace_events_{self._number}"
        folder.mkdir()
        pq.write_table(rows, folder / "0.parquet", compression="LZ4")
        frame = self._catalog.session.read.schema(columns).parquet(str(folder))
        self._catalog.register_names([name], [name])
        self._catalog.register_view(name, frame.coalesce(1) if rows.num_rows <= _MOST_IN_ONE_PARTITION else frame)
