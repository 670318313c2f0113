"""What is new in an input since a flow last read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.checkpoints.offsets import files_seen, newest_listing
from headrace.delta_log.tables import (
    TableState,
    TableVersion,
    commit_actions,
    committed_transaction,
    has_data_changes,
)
from headrace.delta_log.unread_commits import BETWEEN_COMMITS
from headrace.graph.analysis import Source
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.plan.branches import start_over_command
from headrace.plan.deployed import NewInput
from headrace.storage.file_listing import listed_files
from headrace.storage.flow_record import FlowRecord
from headrace.stores.paths import StoragePath


def input_change(name: str, path: str, now: TableState | TableVersion | None, record: FlowRecord) -> str | None:
    """What changed in a table that a view was computed from; None when nothing did."""
    known = record.inputs.get(name)
    if now is None or known is None:
        return f'"{name}" is a new input'
    if now.table_id != known.table_id or now.version < known.version:
        return f'"{name}" was replaced'
    return f'"{name}" changed' if has_data_changes(path, known.version + 1, now.version) else None


def once_changes(table: str, app_id: str) -> NewInput:
    """Whether a flow that runs once has to run: it has not committed to its table yet."""
    if committed_transaction(table, app_id) is None:
        return NewInput(is_due=True, reason="once flow that has not run yet")
    return NewInput(is_due=False, reason="ran once")


def table_change(source: Source, table: TableState | None, offset: Any) -> str | None:
    """What a stream has not read of a table; None when it has read all of it.

    Args:
        source: the table, as a source.
        table: its current state; None if it does not exist.
        offset: the stream's offset; None before its first batch.
    """
    if table is None:
        return f'"{source.detail}" does not exist yet'
    if offset is None:
        return f'"{source.detail}" has rows' if has_data_changes(table.path, 0, table.version) else None
    version, index = int(offset["reservoirVersion"]), int(offset.get("index", 0))
    if index != BETWEEN_COMMITS:
        if not source.reads_feed or offset.get("isStartingVersion") or _has_more(table.path, version, index):
            return f'"{source.detail}" has unread rows'
        version += 1
    changed = has_data_changes(table.path, version, table.version)
    return f'"{source.detail}" has new rows' if changed else None


def has_unread_rows(path: str, newest: int, offset: Mapping[str, Any]) -> bool:
    """Whether a table has rows after a stream's offset.

    Args:
        path: of the table.
        newest: its newest version.
        offset: the offset as Spark stores it.
    """
    version, index = int(offset["reservoirVersion"]), int(offset.get("index", 0))
    if index != BETWEEN_COMMITS:
        # Nothing shows how much of the first snapshot a stream has read.
        if offset.get("isStartingVersion") or _has_more(path, version, index):
            return True
        version += 1
    return has_data_changes(path, version, newest)


def _has_more(path: str, version: int, index: int) -> bool:
    """Whether a commit has changes after a position in it; a change feed keeps the position of the last one it read."""
    actions = commit_actions(path, version) or []
    feed_changes = [action for action in actions if "cdc" in action]
    files = [action.get("add") or action.get("remove") or {} for action in actions]
    changes = feed_changes or [file for file in files if file.get("dataChange")]
    return not actions or index < len(changes) - 1


def files_change(detail: str, offset: Any, checkpoint: StoragePath, number: int) -> str | None:
    """What a stream of Spark's file source has not read; None when it has read all files.

    Args:
        detail: the description of the source, with its paths.
        offset: the stream's offset; None before its first batch.
        checkpoint: of the stream.
        number: of the source in the checkpoint.
    """
    processed = -1 if offset is None else offset.get("logOffset")
    if processed != newest_listing(checkpoint, number):
        return "listed files are not processed yet"
    try:
        fresh = listed_files(detail) - files_seen(checkpoint, number)
    except OSError as error:
        return f'"{error.filename}" cannot be listed'
    return f"{len(fresh)} new file{'s' if len(fresh) > 1 else ''}" if fresh else None


def replaced_source(graph: ResolvedGraph, flow: ResolvedFlow, name: str) -> str:
    """Why a stream cannot continue whose input was replaced, and the command that starts it again."""
    return f'"{name}" was replaced since its last run; to continue, run: {start_over_command(graph, flow)}'
