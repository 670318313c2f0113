"""Registers the event log and the views over it."""

from __future__ import annotations

from pathlib import Path

from headrace.events.views import SYSTEM_VIEWS, VIEWS
from headrace.model.names import QualifiedName
from headrace.spark.update.catalog import Catalog

_LOG = QualifiedName("event_log")


def register_event_views(catalog: Catalog, path: str, *, is_held: bool) -> None:
    """Register the event log as a table ``event_log``, and flat views over it.

    Args:
        catalog: with the pipeline's own tables, whose names come first.
        path: of the event log.
        is_held: a process holds the lease of the pipeline.
    """
    if not (Path(path) / "_delta_log").is_dir():
        return
    catalog.register_path(_LOG, path)
    table = catalog.names.of(_LOG).text
    views = {QualifiedName(name): view for name, view in VIEWS.items()}
    views |= {name: view for name, view in SYSTEM_VIEWS.items() if not catalog.names.knows(name)}
    catalog.register_names(views, views)
    for name, view in views.items():
        catalog.register_view(name, catalog.session.sql(view(table, is_held)))
