"""Registers the event log, the views over it, and the system tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from headrace.events.lakeflow_views import MonitoredPipeline
from headrace.events.system_tables import LAKEFLOW_VIEWS, STREAMING_VIEWS
from headrace.events.views import VIEWS
from headrace.model.liveness import Liveness
from headrace.model.names import QualifiedName
from headrace.spark.update.catalog import Catalog

_LOG = QualifiedName("event_log")


EVENT_VIEWS = frozenset({_LOG, *map(QualifiedName, VIEWS), *STREAMING_VIEWS, *LAKEFLOW_VIEWS})


def register_event_views(
    catalog: Catalog, path: str, pipelines: Sequence[MonitoredPipeline], wanted: Collection[QualifiedName]
) -> None:
    """Register the event log as a table ``event_log``, flat views over it, and the system tables.

    Args:
        catalog: with the pipeline's own tables, whose names come first.
        path: of the event log.
        pipelines: what ``system.lakeflow.*`` covers: first the pipeline itself, whose ``table`` is ignored.
        wanted: the names in :data:`EVENT_VIEWS` that a statement can read; to register one takes half a second.
    """
    if not EVENT_VIEWS.intersection(wanted):
        return
    own, *others = pipelines
    texts: dict[QualifiedName, str] = {}
    if (Path(path) / "_delta_log").is_dir():
        catalog.register_path(_LOG, path)
        own = replace(own, table=catalog.names.of(_LOG).text)
        texts = _views_of_log(catalog, str(own.table), own.liveness)
    for name, view in LAKEFLOW_VIEWS.items():
        text = view((own, *others))
        if text and not catalog.names.knows(name):
            texts[name] = text
    texts = {name: text for name, text in texts.items() if name in wanted}
    catalog.register_names(texts, texts)
    for name, text in texts.items():
        catalog.register_view(name, catalog.session.sql(text))


def _views_of_log(catalog: Catalog, table: str, liveness: Liveness) -> dict[QualifiedName, str]:
    views = {QualifiedName(name): view for name, view in VIEWS.items()}
    views |= {name: view for name, view in STREAMING_VIEWS.items() if not catalog.names.knows(name)}
    return {name: view(table, liveness) for name, view in views.items()}
