"""Which versions of a table can still be read, and what made them; from the log, without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.delta_log.commit_changes import CommitChanges
from headrace.delta_log.log_files import CHECKPOINT, commit_versions, newest_checkpoint
from headrace.delta_log.table_files import live_files, removed_files
from headrace.delta_log.tables import commit_actions, has_data_changes, newest_version
from headrace.stores.paths import storage_path


@dataclass(frozen=True)
class VersionRange:
    """The versions whose state the log still has, from the earliest to the newest."""

    earliest: int
    newest: int


@dataclass(frozen=True)
class CommitInfo:
    """What made a version: Delta's name of the operation, the time, and its changes; None if the commit is gone."""

    operation: str | None = None
    committed_at: str | None = None
    changes: CommitChanges | None = None


def version_range(path: str) -> VersionRange:
    """The versions of the table at a path whose state the log has; their files may be gone nevertheless.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, STORAGE.EMPTY_COMMIT.
    """
    newest = newest_version(path)
    log = storage_path(path) / "_delta_log"
    commits = set(commit_versions(log))
    first = newest
    while first - 1 in commits and first in commits:
        first -= 1
    if first == 0:
        return VersionRange(0, newest)
    found = (CHECKPOINT.fullmatch(file.name) for file in log.glob("*.checkpoint*"))
    checkpoints = sorted({int(match[1]) for match in found if match and int(match[1]) >= first - 1})
    complete = (version for version in checkpoints if newest_checkpoint(log, version)[0] == version)
    return VersionRange(next(complete, newest), newest)


def version_before_last_change(path: str, versions: VersionRange) -> int | None:
    """The version before the newest commit that changed rows; None if the log knows no earlier rows."""
    for version in range(versions.newest, versions.earliest, -1):
        if has_data_changes(path, version, version):
            return version - 1
    return None


def earliest_version_with_files(path: str, versions: VersionRange) -> int:
    """The earliest version from which on all files of the table are still there: VACUUM removes those of older ones.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE.
    """
    table = storage_path(path)
    for version in range(versions.newest, versions.earliest, -1):
        if not all((table / name).exists() for name in removed_files(path, version)):
            return version
    needed = (name for file in live_files(path, versions.earliest) for name in (file.path, file.vector) if name)
    return versions.earliest if all((table / name).exists() for name in needed) else versions.earliest + 1


def commit_info(path: str, version: int) -> CommitInfo:
    """What made a version of the table at a path."""
    actions = commit_actions(path, version)
    if actions is None:
        return CommitInfo()
    changes = CommitChanges.of(actions)
    for info in _infos(actions):
        written_ms = info.get("inCommitTimestamp") or info.get("timestamp")
        at = None if written_ms is None else datetime.fromtimestamp(written_ms / 1000, UTC)
        return CommitInfo(info.get("operation"), None if at is None else at.isoformat(timespec="seconds"), changes)
    return CommitInfo(changes=changes)


def _infos(actions: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield from (action["commitInfo"] for action in actions if "commitInfo" in action)
