"""How much of a Delta table a stream has not read, from the commits after its position."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.delta_log.tables import commit_actions, commit_file, newest_version
from headrace.stores.paths import StoragePath, storage_path

# The index of an offset that stands before a commit, and not within it.
BETWEEN_COMMITS = -1
# The commits whose files are counted; a stream that is further behind is only known to be.
_MAX_COMMITS = 1000


@dataclass(frozen=True)
class UnreadCommits:
    """The commits that a stream has not read completely.

    Attributes:
        commits: their number; without those that add no data, except the ones that were not looked into.
        rows: rows in their files; None if unknown.
        size_bytes: bytes of their files; None if unknown.
        oldest_at_ms: when the oldest of them was written, in milliseconds since 1970; None for none, or if unknown.
    """

    commits: int = 0
    rows: int | None = 0
    size_bytes: int | None = 0
    oldest_at_ms: int | None = None


def unread_commits(path: str, version: int, index: int, *, in_snapshot: bool) -> UnreadCommits:
    """What a stream at a position has not read.

    Args:
        path: of the table.
        version: the version of the position.
        index: the last file of the version that was read; -1 for none.
        in_snapshot: the stream still reads the rows that the table had at this version, whose number is unknown.
    """
    table, found, newest = storage_path(path), UnreadCommits(), newest_version(path)
    for at in range(version, min(newest, version + _MAX_COMMITS - 1) + 1):
        is_snapshot = in_snapshot and at == version
        actions = commit_actions(path, at)
        if actions is None:
            # Log clean-up has removed it.
            found = replace(found, commits=found.commits + 1, rows=None, size_bytes=None)
            continue
        files = _data_files(actions)[index + 1 if at == version else 0 :]
        if files or is_snapshot:
            found = _plus(found, files, _committed_at_ms(actions, commit_file(table, at)))
            found = replace(found, rows=None, size_bytes=None) if is_snapshot else found
    beyond = newest - (version + _MAX_COMMITS - 1)
    return found if beyond <= 0 else replace(found, commits=found.commits + beyond, rows=None, size_bytes=None)


def _plus(found: UnreadCommits, files: Sequence[Mapping[str, Any]], at_ms: int) -> UnreadCommits:
    rows = [_rows_of(file) for file in files]
    known = [count for count in rows if count is not None]
    size_bytes = None if found.size_bytes is None else found.size_bytes + sum(int(file["size"]) for file in files)
    return UnreadCommits(
        commits=found.commits + 1,
        rows=None if found.rows is None or len(known) < len(rows) else found.rows + sum(known),
        size_bytes=size_bytes,
        oldest_at_ms=at_ms if found.oldest_at_ms is None else found.oldest_at_ms,
    )


def _data_files(actions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The files of rows that a commit has added, in the order in which a stream reads them."""
    return [action["add"] for action in actions if "add" in action and action["add"].get("dataChange", True)]


def _rows_of(file: Mapping[str, Any]) -> int | None:
    try:
        return int(json.loads(file["stats"])["numRecords"])
    except (KeyError, TypeError, ValueError):
        return None


def _committed_at_ms(actions: Sequence[Mapping[str, Any]], file: StoragePath) -> int:
    info: Mapping[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    known = info.get("inCommitTimestamp") or info.get("timestamp")
    return int(known) if known is not None else int(file.stat().st_mtime * 1000)
