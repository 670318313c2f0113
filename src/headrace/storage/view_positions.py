"""The input versions that a materialized view was computed from, inside the commit that stores its rows.

So no crash separates the two, and whoever restores or copies the view's table restores them with its rows.

Law: if :func:`last_positions` finds positions, the rows of the version of the view are those of its query over these
versions of its inputs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.delta_log.tables import commit_actions, has_data_changes
from headrace.model.refresh import Refresh, RefreshMethod

_OWN, _KEY, _USERS = "headrace", "view", "user_metadata"
# Raised whenever the rules change by which changed rows are found: views are then computed in full once.
RULES_VERSION = 1
# Operations that move rows to other files and keep every row.
_KEEPS_ROWS = frozenset({"OPTIMIZE", "REORG"})
# From so many newer commits on, the view is computed in full.
_MAX_COMMITS = 10_000


@dataclass(frozen=True)
class ViewPositions:
    """What the rows of a view were computed from.

    Attributes:
        query: the fingerprint of its query.
        inputs: the version of each table, by the table's id.
        refresh: the refresh that committed them; None in commits of version 0.1.
        rows_written: how many rows it changed; None if only the commit's metrics say so.
        version: the version of the view that it made; -1 before it is committed.
    """

    query: str
    inputs: Mapping[str, int] = field(default_factory=dict)
    refresh: Refresh | None = field(default=None, compare=False)
    rows_written: int | None = field(default=None, compare=False)
    version: int = field(default=-1, compare=False)

    def to_text(self, user_metadata: str | None = None) -> str:
        """The text for Delta's ``userMetadata``, including the metadata that the user has set."""
        found: dict[str, Any] = {"rules": RULES_VERSION, "query": self.query, "inputs": dict(self.inputs)}
        if self.refresh is not None:
            found |= {**self.refresh.to_json(), "rows_written": self.rows_written}
        own = {_KEY: found}
        return json.dumps({_OWN: own, **({} if user_metadata is None else {_USERS: user_metadata})})


@dataclass(frozen=True)
class NoPositions:
    """Why the input versions of a view are not known."""

    reason: str


def last_positions(path: str, version: int) -> ViewPositions | NoPositions:
    """What the rows of a version of a view were computed from, from the log of its table."""
    for number in range(version, max(version - _MAX_COMMITS, -1), -1):
        actions = commit_actions(path, number)
        if actions is None:
            return NoPositions(f"version {number} of the view is no longer in its log")
        info = _commit_info(actions)
        found = _positions_of(info.get("userMetadata"))
        if found is not None:
            # Blind appends of others do not conflict with the commit.
            before = int(info.get("readVersion", number - 1))
            if has_data_changes(path, before + 1, number - 1):
                return NoPositions(f"another writer changed the view before its version {number}")
            if found.pop("rules", None) != RULES_VERSION:
                return NoPositions("the view was refreshed by another version of Headrace")
            return _read(found, info, number)
        if moved := change_of(actions):
            return NoPositions(f"version {number} of the view was written by {moved}")
    return NoPositions("the view has no recorded input versions")


def _read(found: Mapping[str, Any], info: Mapping[str, Any], version: int) -> ViewPositions:
    inputs = {str(key): int(value) for key, value in found["inputs"].items()}
    if "refresh" not in found:
        return ViewPositions(str(found["query"]), inputs, version=version)
    refresh = Refresh(RefreshMethod(found["refresh"]), str(found["refresh_reason"]))
    rows = found.get("rows_written")
    if rows is None:
        rows = (info.get("operationMetrics") or {}).get("numOutputRows")
    return ViewPositions(str(found["query"]), inputs, refresh, None if rows is None else int(rows), version)


def change_of(actions: Iterable[Mapping[str, Any]]) -> str | None:
    """What changed rows in a commit of a table; None if it kept all rows."""
    actions = list(actions)
    files = [action.get("add") or action.get("remove") for action in actions if "add" in action or "remove" in action]
    if not actions:
        return "an unknown operation"
    operation = str(_commit_info(actions).get("operation", "an unknown operation"))
    if not files or (operation in _KEEPS_ROWS and not any(file.get("dataChange", True) for file in files if file)):
        return None
    return operation


def changed_bytes(actions: Iterable[Mapping[str, Any]]) -> int:
    """About how many bytes the rows have that a commit of a table added or removed.

    A file of which rows are marked as deleted is removed and added again; only these rows count.
    """
    actions = list(actions)
    removed = {action["remove"]["path"]: action["remove"] for action in actions if "remove" in action}
    added = {action["add"]["path"]: action["add"] for action in actions if "add" in action}
    total = 0.0
    for path, file in {**removed, **added}.items():
        if file.get("dataChange"):
            share = _marked_share(removed[path], file) if path in removed and path in added else 1.0
            total += int(file.get("size") or 0) * share
    return int(total)


def _marked_share(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """The share of the rows of a file that are marked as deleted on only one side; 1 if it is not known."""
    marked = [int((file.get("deletionVector") or {}).get("cardinality", 0)) for file in (before, after)]
    try:
        rows = int(json.loads(after.get("stats") or "")["numRecords"])
    except (ValueError, TypeError, KeyError):
        return 1.0
    return min(abs(marked[0] - marked[1]) / max(rows, 1), 1.0)


def _commit_info(actions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})


def _positions_of(text: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(text or "")[_OWN][_KEY]
        return dict(found) if {"query", "inputs"} <= set(found) else None
    except (ValueError, TypeError, KeyError):
        return None
