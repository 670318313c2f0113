"""The spill queue: batches that wait in the pipeline's storage for a sink that is down, each a folder of Parquet files.

A folder's name has the batch's position in the order of delivery and its number, and is never reused. A folder gets
this name when it is complete, and loses it before it is removed, so that a crash never leaves a partial batch. In an
object store, which has no renames, a folder counts while it has the file that is written last and deleted first.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from headrace.atomic_write import replace_file
from headrace.settings.storage import path_safe
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath, move_file, readable_file, remove_tree, sorted_paths

_FOLDER, _ONLY, _ABOUT, _ROWS = "waiting", "sink", "batch.json", "rows"
_NAME = re.compile(r"(?P<place>\d{12})\.(?P<epoch>-?\d+)\.(?P<number>\d+)\.[0-9a-f]{32}")
_DRAFT, _REMOVED = ".draft-", ".gone-"
# An empty file of a queue, written at each delivery from it.
_DELIVERED = ".delivered"
# The spill queue of each sink, by its name.
SpillFolders: TypeAlias = dict[str, StoragePath]


@dataclass(frozen=True)
class SpilledBatch:
    """A batch in the spill queue.

    Attributes:
        folder: its folder.
        position: its position in the order of delivery.
        epoch: the epoch of the flow.
        number: the batch's number in its epoch.
    """

    folder: StoragePath
    position: int
    epoch: int
    number: int

    @property
    def data(self) -> StoragePath:
        """The folder of its Parquet files."""
        return self.folder / _ROWS

    def transaction(self) -> str:
        """The name of the flow's delivery to the sink in the batch's epoch."""
        return str(self._about()["transaction"])

    def positions(self) -> str:
        """A digest of the batch's end offsets; empty if unknown."""
        return str(self._about().get("positions", ""))

    def rows(self) -> int:
        """The number of its rows."""
        return int(self._about()["rows"])

    def size(self) -> int:
        """The bytes of its Parquet files."""
        return sum(file.stat().st_size for file in self.data.glob("*.parquet"))

    def spilled_at(self) -> float:
        """When it joined the queue, in seconds since 1970."""
        # A folder of a bucket has no time.
        return (self.folder / _ABOUT if isinstance(self.folder, ObjectPath) else self.data).stat().st_mtime

    def _about(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / _ABOUT).read_text(encoding="utf-8"))
        return found


@dataclass(frozen=True)
class BatchToSpill:
    """A batch to put into the queue: its transaction, the flow's epoch, its number and a digest of its end offsets."""

    transaction: str
    epoch: int
    number: int
    positions: str = ""


def spill_folders(folder: StoragePath, sink: str, members: Iterable[str] = ()) -> SpillFolders:
    """The spill queue of each of a flow's sinks.

    Args:
        folder: the flow's folder, with its record.
        sink: the flow's target; a flow with one sink keeps its queue when the sink is renamed.
        members: the sinks of the target, if it is a group of sinks.
    """
    by_member = {member: folder / _FOLDER / path_safe(member) for member in members}
    return by_member or {sink: folder / _FOLDER / _ONLY}


def waiting_batches(folder: StoragePath, sink: str) -> dict[str, list[SpilledBatch]]:
    """The batches that wait for each sink of a flow, of sinks that have a spill queue; *sink* is the flow's target."""
    try:
        queues = sorted_paths((folder / _FOLDER).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {sink if queue.name == _ONLY else queue.name: spilled_batches(queue) for queue in queues}


def spilled_batches(queue: StoragePath) -> list[SpilledBatch]:
    """The batches in one of :func:`spill_folders`, in the order of delivery."""
    try:
        named = [(_NAME.fullmatch(found.name), found) for found in queue.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [
        SpilledBatch(folder, int(name["place"]), int(name["epoch"]), int(name["number"]))
        for name, folder in named
        if name is not None and _is_complete(folder)
    ]
    return sorted(found, key=lambda batch: batch.position)


def all_spilled_batches(folder: StoragePath) -> list[SpilledBatch]:
    """The batches of a flow that wait for any sink.

    Args:
        folder: the flow's folder, with its record.
    """
    return [batch for queue in sorted_paths((folder / _FOLDER).glob("*")) for batch in spilled_batches(queue)]


def spill_batch(
    queue: StoragePath, batch: BatchToSpill, write: Callable[[StoragePath], None], fence: Callable[[], None]
) -> int:
    """Append a batch to a spill queue, unless it is empty; returns its number of rows.

    Args:
        queue: one of :func:`spill_folders`.
        batch: the batch.
        write: writes the rows as Parquet files into a given folder.
        fence: returns while this update may commit.

    Raises:
        OSError: the written files have disappeared.
    """
    token = uuid.uuid4().hex
    if isinstance(queue, ObjectPath):
        return _spill_to_store(queue, token, batch, write, fence)
    draft = queue / f"{_DRAFT}{token}"
    try:
        rows = _drafted(draft, batch, write)
        if rows:
            fence()
            draft.rename(queue / _folder_name(queue, batch, token))
    finally:
        _remove([draft])
    for path in (queue, *queue.parents[:2]):
        _sync(path)
    return rows


def _spill_to_store(
    queue: ObjectPath, token: str, batch: BatchToSpill, write: Callable[[StoragePath], None], fence: Callable[[], None]
) -> int:
    folder = queue / _folder_name(queue, batch, token)
    rows = 0
    try:
        write(folder / _ROWS)
        rows, _ = _written(folder)
        if rows:
            fence()
            replace_file(folder / _ABOUT, _about(batch, rows))
    finally:
        if not _is_complete(folder):
            _remove([folder])
    return rows


def _folder_name(queue: StoragePath, batch: BatchToSpill, token: str) -> str:
    position = max((one.position for one in spilled_batches(queue)), default=0) + 1
    return f"{position:012}.{batch.epoch}.{batch.number}.{token}"


def _is_complete(folder: StoragePath) -> bool:
    return not isinstance(folder, ObjectPath) or (folder / _ABOUT).is_file()


def _drafted(draft: Path, batch: BatchToSpill, write: Callable[[StoragePath], None]) -> int:
    """Write a batch durably, and return its number of rows."""
    draft.mkdir(parents=True)
    write(draft / _ROWS)
    rows, files = _written(draft)
    (draft / _ABOUT).write_text(_about(batch, rows), encoding="utf-8")
    for path in map(str, (*files, draft / _ROWS, draft / _ABOUT, draft)):
        _sync(path)
    return rows


def _written(folder: StoragePath) -> tuple[int, list[StoragePath]]:
    """The number of rows that were written, and their files."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes longer than the rest of a scrape, which only lists batches

    files: list[StoragePath] = [*(folder / _ROWS).glob("*.parquet")]
    if not files:
        raise FileNotFoundError(f"{folder / _ROWS} lost its files while they were written")
    return sum(int(pq.read_metadata(readable_file(file)).num_rows) for file in files), files


def _about(batch: BatchToSpill, rows: int) -> str:
    return json.dumps({"transaction": batch.transaction, "rows": rows, "positions": batch.positions})


def replace_rows(batch: SpilledBatch, file: StoragePath, new: StoragePath, rows: int) -> None:
    """Replace a file of a batch that was never sent by another one.

    Args:
        batch: the batch.
        file: one of its Parquet files.
        new: a complete file of the same storage; it is moved.
        rows: the number of rows that the batch then has.
    """
    about = {**batch._about(), "rows": rows}  # noqa: SLF001 - the batch's own file
    # The number comes first: if a crash comes between the two, repeating the call corrects the file.
    replace_file(batch.folder / _ABOUT, json.dumps(about))
    if isinstance(new, ObjectPath):
        move_file(new, file)
        return
    _sync(new)
    # First: after a crash, an old checksum of a new file would make it unreadable.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    _sync(move_file(new, file).parent)


def clear_drafts(queue: StoragePath) -> None:
    """Remove partial batches that crashed updates left."""
    _remove(queue.glob(f"{_DRAFT}*"))
    if isinstance(queue, ObjectPath) and queue.is_dir():
        _remove(folder for folder in queue.iterdir() if _NAME.fullmatch(folder.name) and not _is_complete(folder))


def remove_spilled_batch(batch: SpilledBatch) -> None:
    """Remove a batch that was delivered."""
    folder = batch.folder
    if isinstance(folder, ObjectPath):
        # Nothing tells that an object was deleted before.
        (folder / _ABOUT).stat()
        (folder / _ABOUT).unlink()
        _remove([folder])
        replace_file(folder.parent / _DELIVERED, "")
        return
    removed = folder.with_name(f"{_REMOVED}{batch.folder.name}")
    folder.rename(removed)
    # Otherwise a power loss could restore the folder without its files.
    _sync(removed.parent)
    _remove(folder.parent.glob(f"{_REMOVED}*"))
    (folder.parent / _DELIVERED).touch()


def delivered_at(folder: StoragePath, sink: str) -> float | None:
    """When a waiting batch was delivered to a sink of a flow last, in seconds since 1970; None if none was.

    Args:
        folder: the flow's folder, with its record.
        sink: a name from :func:`waiting_batches`.
    """
    queue = folder / _FOLDER / sink
    try:
        return ((queue if queue.is_dir() else folder / _FOLDER / _ONLY) / _DELIVERED).stat().st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return None


def _remove(folders: Iterable[StoragePath]) -> None:
    for folder in folders:
        with suppress(OSError):
            remove_tree(folder)


def _sync(path: StoragePath | str) -> None:
    handle = os.open(str(path), os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
