"""Errors for changed Delta tables that a stream reads, in place of Delta's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.checkpoints.offsets import read_progress
from headrace.delta_log.changed_sources import SchemaChange, operation_of, schema_change
from headrace.errors import PipelineError
from headrace.graph.analysis import Source, SourceKind
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.datasets import Flow
from headrace.model.local_path import local_path
from headrace.model.location import Location
from headrace.runtime.ports import Failed
from headrace.spark.update.context import UpdateContext

# Delta's conditions for commits that remove or replace rows.
CHANGES = frozenset({"DELTA_SOURCE_IGNORE_DELETE", "DELTA_SOURCE_TABLE_IGNORE_CHANGES"})
# Delta's conditions for changed columns.
_SCHEMA_CHANGES = frozenset(
    {
        "DELTA_SCHEMA_CHANGED",
        "DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS",
        "DELTA_SCHEMA_CHANGED_WITH_VERSION",
        "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION",
        "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE",
        "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
        "DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART",
    }
)
# Of delta-error-classes.json: DELTA_SOURCE_IGNORE_DELETE and DELTA_SOURCE_TABLE_IGNORE_CHANGES.
_VERSION = re.compile(r"\bat version (\d+)\. This is currently not supported")
_PATH = re.compile(r"The source table can be found at path (.+?)\.?(?:\s*SQLSTATE.*)?$", re.DOTALL)
_DELTA = re.compile(r"delta (\S.*)")


def changed_input(
    flow: Flow, message: str, location: Location | None, table_name: Callable[[str], str]
) -> PipelineError | None:
    """The problem behind one of ``CHANGES``: table, version and operation; None for an unknown message of Delta."""
    version, path = _VERSION.search(message), _PATH.search(message.strip())
    if version is None or path is None:
        return None
    table = local_path(path.group(1)).rstrip("/")
    return PipelineError(
        "FLOW.INPUT_CHANGED",
        location=location,
        flow=flow.name,
        name=flow.target,
        table=table_name(table),
        version=version.group(1),
        operation=operation_of(table, int(version.group(1))),
    )


def with_schema_change(report: Failed, flow: ResolvedFlow, context: UpdateContext) -> Failed:
    """The report, with the commit that changed a table's columns if the flow failed because of it."""
    if report.condition not in _SCHEMA_CHANGES:
        return report
    found = _schema_change(flow, context)
    if found is None:
        return report
    error = PipelineError(
        "FLOW.INPUT_SCHEMA_CHANGED",
        location=report.error.location,
        flow=flow.name,
        name=flow.target,
        table=name_of(found.path, context),
        version=found.version,
        operation=found.operation,
        condition=report.condition,
    )
    return replace(report, error=error)


def name_of(path: str, context: UpdateContext) -> str:
    """The dataset whose table has a path, or else the path."""
    return next((str(d.name) for d in context.graph.datasets if d.path == path), path)


def _schema_change(flow: ResolvedFlow, context: UpdateContext) -> SchemaChange | None:
    """The first change of columns after what the flow has read, in the first of its tables with one."""
    progress = read_progress(context.state.checkpoint(flow, context.state.progress_of(flow).epoch))
    sources = flow.analysis.sources
    offsets: tuple[Any, ...] = () if progress is None else progress.offsets
    for number, source in enumerate(sources):
        path = _path_of(source, context)
        offset = offsets[number] if number < len(offsets) else None
        read = int(offset.get("reservoirVersion", 0)) if isinstance(offset, dict) else 0
        # The commit that was read last may be the one before the change.
        found = schema_change(path, max(read, 1)) if path else None
        if found is not None:
            return found
    return None


def _path_of(source: Source, context: UpdateContext) -> str | None:
    if source.kind is SourceKind.DATASET:
        return context.table_path(context.naming.canonical(source.detail))
    match = _DELTA.fullmatch(source.detail)
    return local_path(match.group(1)).rstrip("/") if match else None
