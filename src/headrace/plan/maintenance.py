"""What maintenance would do with a table, and why; pure, from facts that were read before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import ceil, inf
from typing import Any

from headrace.delta_log.table_features import TableFeatures
from headrace.delta_log.table_files import LiveFile, StoredFile
from headrace.model.maintenance import DAY_S, LEAST_FILE_AGE_S, MaintenancePolicy, Task, VacuumScope
from headrace.model.sizes import size_text

SMALL_FILE_BYTES = 32 * 1024 * 1024
TARGET_FILE_BYTES = 4 * SMALL_FILE_BYTES
# Below, small files cost readers less than rewriting them. Updates compact above 256 themselves.
COMPACT_ABOVE_FILES = 20
# A file of which a greater share of rows is deleted is rewritten.
DELETED_SHARE = 0.2
# Z-ordering rewrites a whole partition. With this share, each row is rewritten about five times, however large the
# table becomes.
UNORDERED_SHARE = 0.2
# With liquid clustering, Delta leaves a group of clustered files alone once it has this size.
CUBE_BYTES = 1024 * 1024 * 1024
# Delta writes a checkpoint each 100 commits; until then, each reader reads all commits since the last one.
CHECKPOINT_ABOVE_COMMITS = 20


class Role(Enum):
    """What a table of the storage is; the value is the word for it."""

    STREAMING = "streaming table"
    VIEW = "table that is replaced as a whole"
    QUARANTINE = "quarantine"
    CHANGES = "memory of change data capture"
    DEAD_LETTERS = "dead letters"
    OTHER = "table that no flow writes"


class ActionState(str, Enum):
    """The state of an action."""

    PLANNED = "PLANNED"
    DONE = "DONE"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class Size:
    """Files and their bytes."""

    files: int
    size_bytes: int

    def describe(self) -> str:
        """Files and bytes as text."""
        return f"{self.files} file{'' if self.files == 1 else 's'}, {size_text(self.size_bytes)}"


@dataclass(frozen=True)
class Action:
    """One action of maintenance.

    Attributes:
        table: the name of the table; ``logs`` for log files.
        path: its folder.
        task: what is done.
        state: whether it is planned, done, skipped or failed.
        reason: why it is due; or why it was skipped, or has failed.
        before: the files before; None where files do not matter.
        after: the files afterwards, estimated if it is only planned.
        rows: the rows that it deletes; None where rows do not matter.
        partitions: the partitions that it is limited to; empty for the whole table.
    """

    table: str
    path: str
    task: Task
    state: ActionState
    reason: str
    before: Size | None = None
    after: Size | None = None
    rows: int | None = None
    partitions: tuple[tuple[tuple[str, str | None], ...], ...] = ()

    def skipped(self, reason: str) -> Action:
        """The action, not done for a reason."""
        return replace(self, state=ActionState.SKIPPED, reason=reason, after=None, rows=None)

    def to_json(self) -> dict[str, Any]:
        """The action as JSON."""
        before, after = self.before, self.after
        return {
            "table": self.table,
            "path": self.path,
            "task": self.task.value,
            "state": self.state.value,
            "reason": self.reason,
            "files_before": None if before is None else before.files,
            "bytes_before": None if before is None else before.size_bytes,
            "files_after": None if after is None else after.files,
            "bytes_after": None if after is None else after.size_bytes,
            "rows": self.rows,
        }


@dataclass(frozen=True)
class TableFacts:
    """What maintenance must know of a table.

    Attributes:
        name: as the project writes it.
        path: its folder.
        role: what it is.
        managed: False if the project excludes it from maintenance.
        protected: why its files must stay as they are; empty if they need not.
        busy: why a running update may conflict with a rewrite of its files; empty if none does.
        partition_by: its partition columns.
        cluster_by: the columns of its liquid clustering.
        z_order: the columns that it is to be Z-ordered by.
        files: the files of its current version.
        unordered: the paths of files that are neither Z-ordered nor clustered.
        commits: the commits since the last checkpoint of its log.
        features: its features.
        stored: its files on disk.
        needed: the files that readers may need; None if that is unknown.
        kept_for: why files are needed that are older than the retention, or why that is unknown.
        streams: the streams that read it.
        unknown_streams: why it is unknown which streams read it; empty if it is known.
        log_kept_for: which stream needs commits that Delta may remove with its next checkpoint of the log.
        expired_rows: the quarantined rows or dead letters past their retention; None if they cannot be counted.
    """

    name: str
    path: str
    role: Role
    managed: bool = True
    protected: str = ""
    busy: str = ""
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    z_order: tuple[str, ...] = ()
    files: tuple[LiveFile, ...] = ()
    unordered: frozenset[str] = frozenset()
    commits: int = 0
    features: TableFeatures = field(default_factory=TableFeatures)
    stored: tuple[StoredFile, ...] = ()
    needed: frozenset[str] | None = frozenset()
    kept_for: str = ""
    streams: tuple[str, ...] = ()
    unknown_streams: str = ""
    log_kept_for: str = ""
    expired_rows: int | None = 0

    @property
    def size(self) -> Size:
        """The files of the current version."""
        return Size(len(self.files), sum(file.size for file in self.files))

    @property
    def size_on_disk(self) -> Size:
        """All data files on disk."""
        return Size(len(self.stored), sum(file.size for file in self.stored))


def table_action(task: Task, table: TableFacts, policy: MaintenancePolicy, now_s: float) -> Action | None:
    """What maintenance would do with a table for a task; None if nothing is due.

    A skipped action is due, and not done for its reason.

    Args:
        task: the task.
        table: the facts.
        policy: the settings.
        now_s: the time, in seconds since 1970.
    """
    if not table.managed or table.role is Role.OTHER:
        return None
    action = _due_action(task, table, policy, now_s)
    if action is not None and table.protected and action.state is ActionState.PLANNED:
        return action.skipped(table.protected)
    return action


def _due_action(task: Task, table: TableFacts, policy: MaintenancePolicy, now_s: float) -> Action | None:
    match task:
        case Task.RETENTION:
            return _retention(table)
        case Task.COMPACT:
            return None if _is_clustering_due(table) else _compaction(table)
        case Task.CLUSTER:
            return _clustering(table)
        case Task.VACUUM:
            return _vacuum(table, policy, now_s)
        case Task.CHECKPOINT:
            return _checkpoint(table)
        case Task.EPOCHS | Task.INACTIVE:
            return None


def unneeded_files(table: TableFacts, policy: MaintenancePolicy, now_s: float) -> tuple[StoredFile, ...]:
    """The files on disk that nobody needs: of no version since the retention, and not written within it.

    Law: a file younger than ``LEAST_FILE_AGE_S`` is not among them, however short the retention is.

    None are known of a table with a feature that this version does not know: it may have files of other kinds.
    """
    if table.needed is None or table.features.unknown:
        return ()
    oldest_s = now_s - max(policy.retain_s, LEAST_FILE_AGE_S)
    return tuple(file for file in table.stored if file.path not in table.needed and file.modified_s < oldest_s)


def compactable_files(files: Sequence[LiveFile]) -> tuple[LiveFile, ...]:
    """The files that a compaction rewrites: small ones next to others, and those with many deleted rows."""
    small: dict[object, list[LiveFile]] = defaultdict(list)
    for file in files:
        if file.size < SMALL_FILE_BYTES:
            small[file.partition].append(file)
    together = {file.path for group in small.values() if len(group) > 1 for file in group}
    return tuple(file for file in files if file.path in together or _deleted_share(file) > DELETED_SHARE)


def _planned(
    table: TableFacts, task: Task, reason: str, before: Size | None = None, after: Size | None = None
) -> Action:
    return Action(table.name, table.path, task, ActionState.PLANNED, reason, before, after)


def _rewriting(table: TableFacts, planned: Action) -> Action:
    """A rewrite of files, skipped while a running update could conflict with it."""
    return planned.skipped(table.busy) if table.busy else planned


def _retention(table: TableFacts) -> Action | None:
    if table.expired_rows is None:
        return _planned(table, Task.RETENTION, "").skipped("its rows cannot be read without Spark")
    if not table.expired_rows:
        return None
    rows = f"{table.expired_rows} row{'' if table.expired_rows == 1 else 's'}"
    planned = replace(_planned(table, Task.RETENTION, f"{rows} past the retention"), rows=table.expired_rows)
    if table.streams:
        return planned.skipped(f"{table.streams[0]} streams from the table, and would fail at deleted rows")
    if table.unknown_streams:
        return planned.skipped(table.unknown_streams)
    return _rewriting(table, planned)


def _compaction(table: TableFacts) -> Action | None:
    found = compactable_files(table.files)
    small = sum(file.size < SMALL_FILE_BYTES for file in found)
    is_deleted = any(_deleted_share(file) > DELETED_SHARE for file in found)
    if small <= COMPACT_ABOVE_FILES and not is_deleted:
        return None
    reason = f"{small} small files" if small > COMPACT_ABOVE_FILES else "files with many deleted rows"
    return _rewriting(table, _planned(table, Task.COMPACT, reason, table.size, _size_after(table.files, found)))


def _is_clustering_due(table: TableFacts) -> bool:
    return bool(_partitions_to_order(table))


def _partitions_to_order(table: TableFacts) -> tuple[tuple[tuple[str, str | None], ...], ...]:
    """The partitions of which a great enough share is not ordered."""
    if not table.z_order and not table.cluster_by:
        return ()
    whole: dict[tuple[tuple[str, str | None], ...], int] = defaultdict(int)
    unordered: dict[tuple[tuple[str, str | None], ...], int] = defaultdict(int)
    for file in table.files:
        whole[file.partition] += file.size
        unordered[file.partition] += file.size if file.path in table.unordered else 0
    # A clustering rewrites at most one group of files besides those that are not clustered.
    most = UNORDERED_SHARE * (CUBE_BYTES if table.cluster_by else inf)
    return tuple(
        part for part in whole if unordered[part] and unordered[part] >= min(UNORDERED_SHARE * whole[part], most)
    )


def _clustering(table: TableFacts) -> Action | None:
    due = _partitions_to_order(table)
    if not due:
        return None
    files = [file for file in table.files if file.partition in due]
    unordered = sum(file.size for file in files if file.path in table.unordered)
    share = unordered / max(sum(file.size for file in files), 1)
    columns = ", ".join(table.cluster_by or table.z_order)
    where = f" in {len(due)} partition{'' if len(due) == 1 else 's'}" if table.partition_by else ""
    what = "clustered" if table.cluster_by else "Z-ordered"
    reason = f"{share:.0%} of the bytes{where} are not {what} by {columns}"
    planned = _planned(table, Task.CLUSTER, reason, table.size, _size_after(table.files, files))
    # With column mapping, the log has other names of the columns.
    is_named = all({column for column, _ in part} == set(table.partition_by) for part in due)
    return _rewriting(table, replace(planned, partitions=due if table.partition_by and is_named else ()))


def _vacuum(table: TableFacts, policy: MaintenancePolicy, now_s: float) -> Action | None:
    before = table.size_on_disk
    planned = _planned(table, Task.VACUUM, "", before)
    if table.features.unknown:
        return planned.skipped(f"unknown table feature {', '.join(table.features.unknown)}")
    if table.needed is None:
        return planned.skipped(table.kept_for)
    found = unneeded_files(table, policy, now_s)
    if not found:
        return None
    removed = Size(len(found), sum(file.size for file in found))
    after = Size(before.files - removed.files, before.size_bytes - removed.size_bytes)
    reason = f"{removed.describe()} unused for {policy.retain_s / DAY_S:g} days"
    if policy.vacuum is VacuumScope.OFF or (policy.vacuum is VacuumScope.VIEWS and table.role is Role.STREAMING):
        return planned.skipped(f"{reason}; maintenance.vacuum is {policy.vacuum.value}")
    return replace(planned, reason=f"{reason}; {table.kept_for}" if table.kept_for else reason, after=after)


def _checkpoint(table: TableFacts) -> Action | None:
    if table.commits <= CHECKPOINT_ABOVE_COMMITS:
        return None
    planned = _planned(table, Task.CHECKPOINT, f"{table.commits} commits since the last checkpoint of the log")
    # Without features, it is written without Delta, and no commits are removed.
    return planned.skipped(table.log_kept_for) if table.log_kept_for and table.features.names else planned


def _size_after(files: Sequence[LiveFile], rewritten: Sequence[LiveFile]) -> Size:
    """The estimated files of a table after some were rewritten."""
    paths = {file.path for file in rewritten}
    kept = [file for file in files if file.path not in paths]
    new: dict[object, int] = defaultdict(int)
    for file in rewritten:
        new[file.partition] += int(file.size * (1 - _deleted_share(file)))
    return Size(
        len(kept) + sum(max(ceil(size / TARGET_FILE_BYTES), 1) for size in new.values()),
        sum(file.size for file in kept) + sum(new.values()),
    )


def _deleted_share(file: LiveFile) -> float:
    return file.deleted_rows / file.rows if file.rows else 0.0


def due_tasks(actions: Sequence[Action]) -> Iterator[Task]:
    """The tasks of the actions that are planned, each once."""
    seen = {action.task for action in actions if action.state is ActionState.PLANNED}
    yield from (task for task in Task if task in seen)
