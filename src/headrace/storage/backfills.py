"""The backfills of a flow, stored next to its checkpoints before they start, so that a crashed one can be finished."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from headrace.atomic_write import replace_file
from headrace.checkpoints.epochs import read_epoch
from headrace.checkpoints.initial_offsets import INITIAL_BATCHES, DeltaPosition, FilesPosition, Position
from headrace.delta_log.tables import TableState, commit_actions
from headrace.model.names import QualifiedName
from headrace.plan.backfills import Backfill, FilesRange, Replay, SourceRange, TableRange
from headrace.stores.delta_tables import open_delta
from headrace.stores.paths import StoragePath, storage_path

_FOLDER = "loads"


def stored_backfills(flow_folder: StoragePath, name: Callable[[str], QualifiedName]) -> tuple[Backfill, ...]:
    """All backfills of a flow, oldest first.

    Args:
        flow_folder: the folder of the flow's record and checkpoints.
        name: parses a stored dataset name.
    """
    files = sorted([*(flow_folder / _FOLDER).glob("*.json")], key=lambda file: int(file.stem))
    return tuple(_read(file, name) for file in files)


def store_backfill(flow_folder: StoragePath, backfill: Backfill) -> None:
    """Store a backfill; the write is atomic."""
    file = flow_folder / _FOLDER / f"{backfill.number}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    stored = {
        "ranges": [found.to_json() for found in backfill.ranges],
        "fences": backfill.stream_starts_after,
        "done": backfill.done,
        "retired": backfill.retired,
        **({"replay": backfill.replay.to_json()} if backfill.replay is not None else {}),
    }
    replace_file(file, json.dumps(stored))


def finished(backfill: Backfill) -> Backfill:
    """The backfill, marked as done."""
    return replace(backfill, done=True)


def retire_backfills(flow_folder: StoragePath, name: Callable[[str], QualifiedName]) -> None:
    """Record that the rows of all backfills of a flow are gone; their numbers are never reused."""
    for backfill in stored_backfills(flow_folder, name):
        if not backfill.retired:
            store_backfill(flow_folder, replace(backfill, retired=True))


def range_end_position(found: SourceRange) -> Position:
    """The position right after a range, from which a stream reads everything else."""
    if isinstance(found, TableRange):
        return DeltaPosition(found.table_id, found.last + 1)
    return FilesPosition((*found.before, *found.files))


def overlap(one: SourceRange, other: SourceRange) -> bool:
    """True when two ranges of the same source have rows in common."""
    if isinstance(one, TableRange) and isinstance(other, TableRange):
        return one.table_id == other.table_id and one.first <= other.last and other.first <= one.last
    if isinstance(one, FilesRange) and isinstance(other, FilesRange):
        return bool({path for path, _ in one.files} & {path for path, _ in other.files})
    return True


class Coverage:
    """What the stream of a flow has read, or will read, in one epoch."""

    def __init__(self, checkpoint: StoragePath) -> None:
        self._epoch = read_epoch(checkpoint)
        self._progress = self._epoch.progress
        first, second = self._epoch.first_offsets(), self._epoch.first_offsets(1)
        # The first two batches of an ordinary stream end at different offsets; those of an initial checkpoint do not.
        self._initial_offsets = first if first and first == second else None

    @property
    def has_read(self) -> bool:
        """True when a batch was planned, besides those of an initial checkpoint."""
        if self._progress is None:
            return False
        return self._initial_offsets is None or self._progress.batch_id >= INITIAL_BATCHES

    @property
    def is_unread(self) -> bool:
        """True when the stream starts at given initial offsets and has read nothing yet."""
        return self._initial_offsets is not None and not self.has_read

    def reaches(self, number: int, found: SourceRange) -> bool:
        """True when the stream has read, or will read, rows of a range of its source *number*; also if unknown."""
        if self._progress is None:
            return bool(self._epoch.unreadable)
        if self._initial_offsets is None:
            return True
        if isinstance(found, FilesRange):
            seen = self._epoch.files_first_seen(number)
            return any(path not in seen for path, _ in found.files)
        offset = self._initial_offsets[number]
        return bool(offset["reservoirId"] != found.table_id or found.last >= int(offset["reservoirVersion"]))

    def skipped_files(self, number: int) -> frozenset[str]:
        """The files that the stream skips, because it starts after them."""
        return self._epoch.files_first_seen(number)

    def starts_at(self, positions: Sequence[Position]) -> bool:
        """True when the stream started at these positions, whether or not it has read anything since."""
        if self._initial_offsets is None or len(self._initial_offsets) != len(positions):
            return False
        return all(
            self._initial_offsets[number] == position.offset()
            and (
                not isinstance(position, FilesPosition)
                or self.skipped_files(number) == {path for path, _ in position.seen}
            )
            for number, position in enumerate(positions)
        )

    def starts_at_range(self, number: int, found: SourceRange) -> bool:
        """True when a range starts exactly where the stream does."""
        if not self.is_unread or self._initial_offsets is None:
            return False
        if isinstance(found, FilesRange):
            return not self.skipped_files(number) & {path for path, _ in found.files}
        offset = self._initial_offsets[number]
        return bool(offset["reservoirId"] == found.table_id and found.first == int(offset["reservoirVersion"]))


def added_files(table: TableState, found: TableRange) -> frozenset[str]:
    """Names of the data files that a range of versions added.

    Raises:
        LookupError: with a reason, when the log lacks a version, or a version removed or changed rows.
    """
    added: set[str] = set()
    for version in range(found.first, found.last + 1):
        actions = commit_actions(table.path, version)
        if actions is None:
            raise LookupError(f"version {version} is no longer in the log")
        if any(action["remove"].get("dataChange", True) for action in actions if "remove" in action):
            raise LookupError(f"version {version} removes or changes rows")
        names = [action["add"] for action in actions if "add" in action]
        added |= {storage_path(add["path"]).name for add in names if add.get("dataChange", True)}
    return frozenset(added)


def versions_with(table: TableState, found: TableRange) -> dict[int, frozenset[str]]:
    """Versions of a table that together hold all files a range added, each with the files to read from it.

    Files that were compacted since are only in older versions.

    Raises:
        LookupError: as :func:`added_files`.
    """
    wanted = added_files(table, found)
    parts: dict[int, frozenset[str]] = {}
    version = found.last
    while wanted:
        available = wanted & frozenset(
            storage_path(uri).name for uri in open_delta(table.path, version=version).file_uris()
        )
        if available:
            parts[version] = available
            wanted -= available
        version = max(_added_at(table, found, wanted, below=version), default=found.first)
    return parts


def _added_at(table: TableState, found: TableRange, names: frozenset[str], *, below: int) -> list[int]:
    """The versions that added any of these files."""
    return [
        version
        for version in range(found.first, below)
        if any(
            storage_path(a["add"]["path"]).name in names
            for a in commit_actions(table.path, version) or ()
            if "add" in a
        )
    ]


def next_number(backfills: Sequence[Backfill]) -> int:
    """The number of the next backfill."""
    return max((backfill.number for backfill in backfills), default=0) + 1


def _read(file: StoragePath, name: Callable[[str], QualifiedName]) -> Backfill:
    stored = json.loads(file.read_text(encoding="utf-8"))
    ranges = tuple(_range(found, name) for found in stored["ranges"])
    done, retired = bool(stored["done"]), bool(stored["retired"])
    replay = _replay(stored["replay"], name) if "replay" in stored else None
    return Backfill(int(file.stem), ranges, bool(stored["fences"]), done, retired, is_resumed=True, replay=replay)


def _replay(stored: dict[str, Any], name: Callable[[str], QualifiedName]) -> Replay:
    changes = tuple((str(column), str(text)) for column, text in stored["changes"])
    rules = tuple(map(str, stored["rules"]))
    failing = stored.get("failing")
    ids = None if failing is None else tuple(map(str, failing))
    dataset, version, judged = name(stored["dataset"]), int(stored["version"]), bool(stored["judged"])
    return Replay(dataset, version, rules, changes, judged, ids, bool(stored.get("from_source", False)))


def _range(stored: dict[str, Any], name: Callable[[str], QualifiedName]) -> SourceRange:
    if "table" in stored:
        first, last = int(stored["first"]), int(stored["last"])
        return TableRange(name(stored["table"]), str(stored["table_id"]), first, last, bool(stored["whole"]))
    paths = tuple(map(str, stored["paths"]))
    return FilesRange(str(stored["source"]), paths, _files(stored["files"]), _files(stored["before"]))


def _files(stored: list[list[Any]]) -> tuple[tuple[str, int], ...]:
    return tuple((str(path), int(at)) for path, at in stored)
