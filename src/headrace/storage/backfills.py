"""The loads of a flow: stored beside its checkpoints before they begin, so that a crash in one is finished later."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from headrace.delta_log.tables import TableState, commit_actions
from headrace.checkpoints.offsets import Progress, files_first_seen, first_offsets, read_progress
from headrace.checkpoints.initial_offsets import SEEDED_BATCHES, DeltaPosition, FilesPosition, Position
from headrace.model.names import QualifiedName
from headrace.plan.backfills import FilesRange, Load, Replay, SourceRange, TableRange

_FOLDER = "loads"


def loads_of(flow_folder: Path, name: Callable[[str], QualifiedName]) -> tuple[Load, ...]:
    """All loads of a flow, oldest first.

    Args:
        flow_folder: where the flow's record and checkpoints are.
        name: the dataset behind a stored name.
    """
    files = sorted((flow_folder / _FOLDER).glob("*.json"), key=lambda file: int(file.stem))
    return tuple(_read(file, name) for file in files)


def store_load(flow_folder: Path, load: Load) -> None:
    """Store a load, whole or not at all."""
    file = flow_folder / _FOLDER / f"{load.number}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    said = {
        "ranges": [found.to_json() for found in load.ranges],
        "fences": load.fences,
        "done": load.done,
        "retired": load.retired,
        **({"replay": load.replay.to_json()} if load.replay is not None else {}),
    }
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as stream:
        json.dump(said, stream)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)


def finished(load: Load) -> Load:
    """The load once all of it is done."""
    return replace(load, done=True)


def retire_loads(flow_folder: Path, name: Callable[[str], QualifiedName]) -> None:
    """Take note that the rows of all loads of a flow are gone; their numbers are not given again."""
    for load in loads_of(flow_folder, name):
        if not load.retired:
            store_load(flow_folder, replace(load, retired=True))


def position_behind(found: SourceRange) -> Position:
    """Where a stream begins that reads what comes behind a range."""
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
    """What the stream of a flow has read in one epoch, or reads in time to come."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._progress: Progress | None = read_progress(checkpoint)
        first, second = first_offsets(checkpoint), first_offsets(checkpoint, 1)
        # A stream's own first batches do not end at one place.
        self._begins = first if first and first == second else None

    @property
    def used(self) -> bool:
        """True when a batch was planned that is not one of those that a seeded checkpoint begins with."""
        if self._progress is None:
            return False
        return self._begins is None or self._progress.batch_id >= SEEDED_BATCHES

    @property
    def fenced(self) -> bool:
        """True when the stream begins at a position of its own and has read nothing yet."""
        return self._begins is not None and not self.used

    def reaches(self, number: int, found: SourceRange) -> bool:
        """True when the stream has read, or will read, rows of a range of its source with this number."""
        if self._progress is None:
            return False
        if self._begins is None:
            return True
        if isinstance(found, FilesRange):
            seen = files_first_seen(self._checkpoint, number)
            return any(path not in seen for path, _ in found.files)
        offset = self._begins[number]
        return bool(offset["reservoirId"] != found.table_id or found.last >= int(offset["reservoirVersion"]))

    def seen(self, number: int) -> frozenset[str]:
        """The files that the stream leaves out because it begins behind them."""
        return files_first_seen(self._checkpoint, number)

    def begins_at(self, positions: Sequence[Position]) -> bool:
        """True when the stream begins at these positions, whether or not it has read anything since."""
        if self._begins is None or len(self._begins) != len(positions):
            return False
        return all(
            self._begins[number] == position.offset()
            and (not isinstance(position, FilesPosition) or self.seen(number) == {path for path, _ in position.seen})
            for number, position in enumerate(positions)
        )

    def borders(self, number: int, found: SourceRange) -> bool:
        """True when a range begins exactly where the stream does."""
        if not self.fenced or self._begins is None:
            return False
        if isinstance(found, FilesRange):
            return not self.seen(number) & {path for path, _ in found.files}
        offset = self._begins[number]
        return bool(offset["reservoirId"] == found.table_id and found.first == int(offset["reservoirVersion"]))


def added_files(table: TableState, found: TableRange) -> frozenset[str]:
    """Names of the data files that a range of versions has added.

    Raises:
        LookupError: with a reason, when a version is gone from the log, or has removed or changed rows.
    """
    added: set[str] = set()
    for version in range(found.first, found.last + 1):
        actions = commit_actions(table.path, version)
        if actions is None:
            raise LookupError(f"version {version} is no longer in the log")
        if any(action["remove"].get("dataChange", True) for action in actions if "remove" in action):
            raise LookupError(f"version {version} removes or changes rows")
        names = [action["add"] for action in actions if "add" in action]
        added |= {Path(add["path"]).name for add in names if add.get("dataChange", True)}
    return frozenset(added)


def versions_with(table: TableState, found: TableRange) -> dict[int, frozenset[str]]:
    """Versions of a table that together hold all files that a range has added, each with those to read from it.

    Files that were put together with others since are only in versions before that.

    Raises:
        LookupError: as :func:`added_files`.
    """
    wanted = added_files(table, found)
    parts: dict[int, frozenset[str]] = {}
    version = found.last
    while wanted:
        there = wanted & frozenset(Path(uri).name for uri in DeltaTable(table.path, version=version).file_uris())
        if there:
            parts[version] = there
            wanted -= there
        version = max(_added_at(table, found, wanted, below=version), default=found.first)
    return parts


def _added_at(table: TableState, found: TableRange, names: frozenset[str], *, below: int) -> list[int]:
    """The versions that have added any of these files."""
    return [
        version
        for version in range(found.first, below)
        if any(Path(a["add"]["path"]).name in names for a in commit_actions(table.path, version) or () if "add" in a)
    ]


def next_number(loads: Sequence[Load]) -> int:
    """The number of the load after these."""
    return max((load.number for load in loads), default=0) + 1


def _read(file: Path, name: Callable[[str], QualifiedName]) -> Load:
    said = json.loads(file.read_text(encoding="utf-8"))
    ranges = tuple(_range(found, name) for found in said["ranges"])
    done, retired = bool(said["done"]), bool(said["retired"])
    replay = _replay(said["replay"], name) if "replay" in said else None
    return Load(int(file.stem), ranges, bool(said["fences"]), done, retired, begun=True, replay=replay)


def _replay(said: dict[str, Any], name: Callable[[str], QualifiedName]) -> Replay:
    changes = tuple((str(column), str(text)) for column, text in said["changes"])
    rules = tuple(map(str, said["rules"]))
    failing = said.get("failing")
    ids = None if failing is None else tuple(map(str, failing))
    dataset, version, judged = name(said["dataset"]), int(said["version"]), bool(said["judged"])
    return Replay(dataset, version, rules, changes, judged, ids, bool(said.get("from_source", False)))


def _range(said: dict[str, Any], name: Callable[[str], QualifiedName]) -> SourceRange:
    if "table" in said:
        first, last = int(said["first"]), int(said["last"])
        return TableRange(name(said["table"]), str(said["table_id"]), first, last, bool(said["whole"]))
    paths = tuple(map(str, said["paths"]))
    return FilesRange(str(said["source"]), paths, _files(said["files"]), _files(said["before"]))


def _files(said: list[list[Any]]) -> tuple[tuple[str, int], ...]:
    return tuple((str(path), int(at)) for path, at in said)
