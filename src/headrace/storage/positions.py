"""The positions of a checkpoint in words, from its offsets alone: without the project's code and without a session."""

from __future__ import annotations

import json
import os.path
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from headrace.autoloader.ledger.places import LEDGER_POINTER, LEDGERS
from headrace.autoloader.ledger.positions import Offset
from headrace.autoloader.ledger.stored_ledgers import has_ledger, open_ledger
from headrace.checkpoints.offsets import files_seen, read_progress
from headrace.delta_log.tables import TableState
from headrace.delta_log.unread_commits import BETWEEN_COMMITS
from headrace.errors import PipelineError
from headrace.model.names import QualifiedName
from headrace.sources.kafka_offsets import positions_of
from headrace.stores.paths import StoragePath, is_below, sorted_paths, storage_path

NOTHING_READ = "nothing read yet"
_CHECKPOINTS = "checkpoints"
_LONGEST_OFFSET = 200
_MOST_PARTITIONS = 4


@dataclass(frozen=True)
class StoredTable:
    """A table of the storage that a flow may read."""

    name: QualifiedName
    state: TableState


@dataclass(frozen=True)
class SourcePosition:
    """The position of one source of a flow.

    Attributes:
        source: the source in words.
        position: the position in words.
        offset: the position as Spark stores it.
        is_known: whether Headrace knows this kind of offset, so that a flow can start at a given position of it.
    """

    source: str
    position: str
    offset: Any
    is_known: bool = True

    def to_json(self) -> dict[str, Any]:
        """The position for programs."""
        return {"source": self.source, "position": self.position, "offset": self.offset}


def source_positions(
    checkpoint: StoragePath, tables: Iterable[StoredTable], ledgers: Iterable[StoragePath]
) -> tuple[SourcePosition, ...]:
    """The position of each source after the newest planned batch of a checkpoint; empty before the first batch.

    Args:
        checkpoint: the checkpoint.
        tables: the tables of the storage.
        ledgers: the folders of Auto Loader's ledgers, which are gone through for each source.
    """
    progress = read_progress(checkpoint)
    by_id = {table.state.table_id: table for table in tables}
    offsets = progress.offsets if progress is not None else ()
    return tuple(_position(number, offset, checkpoint, by_id, ledgers) for number, offset in enumerate(offsets))


def table_position(offset: Mapping[str, Any], newest: int) -> str:
    """The position in a Delta table whose newest version is *newest*."""
    version, index = int(offset["reservoirVersion"]), int(offset.get("index", 0))
    if index != BETWEEN_COMMITS:
        return f"within version {version} of {newest}"
    return f"read through version {version - 1} of {newest}" if version else NOTHING_READ


def files_position(checkpoint: StoragePath, source: int) -> str:
    """The position in files that Spark's file source lists."""
    return f"{_count(len(files_seen(checkpoint, source)), 'file')} taken"


@dataclass(frozen=True)
class LedgerFolders:
    """The folders of the ledgers that a flow can read, its own first.

    Those of a view that it reads are next to the view, whose name the checkpoint does not have. So all others follow,
    which is a search of the storage: it begins when the own ones have been passed.

    Attributes:
        flow_folder: of the flow.
    """

    flow_folder: StoragePath

    @property
    def own(self) -> tuple[StoragePath, ...]:
        """Those next to the flow, and next to the other flows of its dataset."""
        found = _ledgers_below(self.flow_folder.parent, "*")
        return tuple(sorted(found, key=lambda folder: not is_below(folder, self.flow_folder)))

    def __iter__(self) -> Iterator[StoragePath]:
        own = self.own
        yield from own
        schema = self.flow_folder.parent.parent
        # Below it are schemas, or catalogs with schemas.
        for checkpoints in (schema.parent, schema.parent.parent):
            if checkpoints.name == _CHECKPOINTS:
                found = (*_ledgers_below(checkpoints, "*/*/*"), *_ledgers_below(checkpoints, "*/*/*/*"))
                yield from (folder for folder in found if folder not in own)


def ledger_folders(flow_folder: StoragePath) -> LedgerFolders:
    """The folders of the ledgers that a flow can read."""
    return LedgerFolders(flow_folder)


def _ledgers_below(folder: StoragePath, flows: str) -> tuple[StoragePath, ...]:
    beside = sorted_paths(folder.glob(f"{flows}/auto_loader/*/{LEDGERS}"))
    pointers = sorted_paths(folder.glob(f"{flows}/auto_loader/*/{LEDGER_POINTER}"))
    return (*beside, *(storage_path(pointer.read_text(encoding="utf-8")) for pointer in pointers))


def _position(
    number: int,
    offset: Any,
    checkpoint: StoragePath,
    tables: Mapping[str, StoredTable],
    ledgers: Iterable[StoragePath],
) -> SourcePosition:
    if offset is None:
        return SourcePosition(f"source {number}", NOTHING_READ, offset)
    if isinstance(offset, Mapping):
        if "reservoirId" in offset:
            return _in_table(offset, tables.get(str(offset["reservoirId"])))
        if offset.keys() == {"logOffset"}:
            folder = _common_folder(files_seen(checkpoint, number))
            return SourcePosition(f"the files in {folder}", files_position(checkpoint, number), offset)
        if {"ledger", "number"} <= offset.keys():
            return _in_ledger(offset, ledgers)
    partitions = positions_of(offset)
    if partitions:
        topics = ", ".join(dict.fromkeys(f'"{topic}"' for topic, _ in partitions))
        return SourcePosition(f"topic {topics}", _partitions_text(partitions), offset, is_known=False)
    return SourcePosition(f"source {number}", json.dumps(offset)[:_LONGEST_OFFSET], offset, is_known=False)


def _in_table(offset: Mapping[str, Any], table: StoredTable | None) -> SourcePosition:
    if table is None:
        version = offset.get("reservoirVersion")
        name = f"a table that is not in this storage (id {offset['reservoirId']})"
        return SourcePosition(name, f"at version {version}", offset, is_known=False)
    return SourcePosition(f'table "{table.name}"', table_position(offset, table.state.version), offset)


def _in_ledger(offset: Mapping[str, Any], folders: Iterable[StoragePath]) -> SourcePosition:
    source, at = "files of Auto Loader", Offset.of(offset)
    root = next((folder for folder in folders if has_ledger(folder, at.ledger)), None)
    if root is None:
        return SourcePosition(source, f"up to number {at.number} of a ledger that is missing", offset)
    try:
        with closing(open_ledger(root, at.ledger, read_only=True)) as ledger:
            read, later = max(at.number - ledger.first_number, 0), ledger.backlog(at.number).files
            last = ledger.files(at.number - 1, at.number)
    except PipelineError as error:
        return SourcePosition(source, f"up to number {at.number}; {error.message}", offset)
    newest = f", the last one {last[0].path}" if last and read else ""
    waiting = f"; {_count(later, 'file')} found and not read" if later else ""
    return SourcePosition(source, f"{_count(read, 'file')} read{newest}{waiting}", offset)


def _partitions_text(partitions: Mapping[tuple[str, int], int]) -> str:
    if len(partitions) > _MOST_PARTITIONS:
        low, high = min(partitions.values()), max(partitions.values())
        return f"{len(partitions)} partitions, next offsets {low} to {high}"
    return ", ".join(f"partition {number} at offset {at}" for (_, number), at in sorted(partitions.items()))


def _common_folder(files: Iterable[str]) -> str:
    folders = {os.path.dirname(file) for file in files}  # noqa: PTH120 - they may be URLs of object stores
    if not folders:
        return "a folder"
    parts = [folder.split("/") for folder in folders]
    return "/".join(_common(parts)) or "/"


def _common(parts: list[list[str]]) -> Iterator[str]:
    for names in zip(*parts, strict=False):
        if len(set(names)) > 1:
            return
        yield names[0]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
