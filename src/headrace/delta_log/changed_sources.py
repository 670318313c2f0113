"""Finds the commit and the operation that changed a Delta table that a stream reads, from the table's log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.delta_log.tables import commit_actions, open_table
from headrace.stores.paths import storage_path

_UNKNOWN = "an unknown operation"
# How many commits are searched; each is a file.
_MOST_COMMITS = 10_000


@dataclass(frozen=True)
class SchemaChange:
    """A commit that changed the columns of a table."""

    path: str
    version: int
    operation: str


def operation_of(path: str, version: int) -> str:
    """The operation that made a version of a table, as the log names it: ``DELETE``, ``WRITE (Overwrite)``."""
    return _operation(commit_actions(path, version) or [])


def schema_change(path: str, first: int) -> SchemaChange | None:
    """The first commit from a version on whose columns differ from the version before; None without one."""
    table = open_table(path)
    if table is None:
        return None
    last = min(table.version(), first + _MOST_COMMITS)
    before = next((found for version in range(first - 1, -1, -1) if (found := _columns(path, version))), None)
    for version in range(first, last + 1):
        columns = _columns(path, version)
        if columns is not None and before is not None and columns != before:
            return SchemaChange(path, version, operation_of(path, version))
        before = columns or before
    return None


def _operation(actions: list[dict[str, Any]]) -> str:
    info = next(_infos(actions), None)
    if info is None or "operation" not in info:
        return _UNKNOWN
    mode = info.get("operationParameters", {}).get("mode")
    return f"{info['operation']} ({mode})" if mode else str(info["operation"])


def _infos(actions: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (action["commitInfo"] for action in actions if "commitInfo" in action)


def _columns(path: str, version: int) -> Any:
    """The columns that a commit sets; None if it does not change them."""
    if version < 0 or not storage_path(path).is_dir():
        return None
    for action in commit_actions(path, version) or ():
        if "metaData" in action:
            return json.loads(action["metaData"]["schemaString"])
    return None
