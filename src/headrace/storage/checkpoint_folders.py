"""Finds the checkpoints of all streams in a storage: those of flows, of scripts, and those with a path of their own.

A script's paths ``dbfs:/`` and ``/mnt/`` are in the storage, and it may use any other path there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headrace.storage.flow_record import read_record
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath, is_below, relative_path, storage_path

_RECORD = "flow.json"
# Folders of a flow that no checkpoint is in, and that may be large.
_OTHERS_OF_FLOW = frozenset({"failing_rows", "waiting", "auto_loader", "loads", "aside"})
_OWN_OF_CHECKPOINT = frozenset({"offsets", "commits", "sources", "state"})
_OWN_OF_TABLE = frozenset({"_delta_log", "_change_data"})
# Headrace's own folders, below the storage. What is being removed is in the first one.
_OWN = ("system", "savepoints")


@dataclass(frozen=True)
class CheckpointFolder:
    """The folder of a checkpoint.

    ``name`` is its path relative to the folder of checkpoints, or else to the storage.
    """

    path: StoragePath
    name: str


@dataclass(frozen=True)
class CheckpointFolders:
    """The checkpoints of a storage; ``unknown`` says which folders may have more, because they cannot be listed."""

    found: tuple[CheckpointFolder, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass
class _Listing:
    """What is directly in a folder; ``lost`` are links to nothing."""

    folders: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)


def find_checkpoints(root: str) -> CheckpointFolders:
    """The checkpoints in a storage that a stream may continue from, sorted by path.

    Follows links. Passes over the old epochs of flows, partitions of tables, and the folders ``system`` and
    ``savepoints``. A folder that vanishes meanwhile may have been renamed, so it counts as one that cannot be listed.

    Args:
        root: the folder of the storage.
    """
    top = storage_path(root)
    found: list[StoragePath] = []
    unknown: list[str] = []
    seen: set[object] = set()
    left = [top] if _is_there(top) else []
    while left:
        folder = left.pop()
        try:
            identity = _identity(folder)
            if identity in seen:
                continue
            seen.add(identity)
            listing = _list(folder)
            is_checkpoint = _is_checkpoint(folder, listing)
        except OSError as error:
            unknown.append(f"{_name(top, folder)} cannot be listed ({type(error).__name__})")
            continue
        found += [folder] if is_checkpoint else []
        unknown += (f"{_name(top, folder / name)} is a link to nothing" for name in sorted(listing.lost))
        passed = _passed_over(top, folder, listing, is_checkpoint=is_checkpoint)
        left += (folder / name for name in sorted(listing.folders.difference(passed), reverse=True))
    return CheckpointFolders(tuple(CheckpointFolder(path, _name(top, path)) for path in found), tuple(unknown))


def _list(folder: StoragePath) -> _Listing:
    listing = _Listing()
    if isinstance(folder, ObjectPath):
        found = folder.store.list_folder(folder.key)
        listing.folders.update(found.folders)
        listing.files.update(meta.name for meta in found.objects)
        return listing
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                listing.folders.add(entry.name)
            elif entry.is_symlink() and not entry.is_file():
                listing.lost.add(entry.name)
            else:
                listing.files.add(entry.name)
    return listing


def _is_checkpoint(folder: StoragePath, listing: _Listing) -> bool:
    if "offsets" not in listing.folders:
        return False
    return "metadata" in listing.files or any(name.isdigit() for name in _list(folder / "offsets").files)


def _passed_over(top: StoragePath, folder: StoragePath, listing: _Listing, *, is_checkpoint: bool) -> Iterator[str]:
    """The folders in a folder that no checkpoint is in."""
    if folder == top:
        yield from _OWN
    if is_checkpoint:
        yield from _OWN_OF_CHECKPOINT
    if "_delta_log" in listing.folders:
        yield from _OWN_OF_TABLE
        # Partitions.
        yield from (name for name in listing.folders if "=" in name)
    # A script may have a file of this name.
    if _RECORD in listing.files and is_below(folder, top / "checkpoints"):
        yield from (name for name in _unused_of_flow(folder, listing) if not _is_flow(folder / name))


def _unused_of_flow(folder: StoragePath, listing: _Listing) -> Iterator[str]:
    record = read_record(folder / _RECORD)
    # Without a readable record, each epoch may be the current one.
    oldest = 0 if record is None or record.unreadable else record.epoch
    yield from _OTHERS_OF_FLOW
    yield from (name for name in listing.folders if name.isdigit() and int(name) < oldest)


def _is_flow(folder: StoragePath) -> bool:
    """Whether a folder belongs to a flow: a dataset with a catalog may have the path of another dataset's flow."""
    return _is_there(folder / _RECORD)


def _is_there(path: StoragePath) -> bool:
    """Whether a path exists, or is a link to nothing."""
    return os.path.lexists(path) if isinstance(path, Path) else path.exists()


def _identity(folder: StoragePath) -> object:
    """What all links to a folder have in common."""
    if isinstance(folder, ObjectPath):
        return folder
    found = folder.stat()
    return found.st_dev, found.st_ino


def _name(top: StoragePath, path: StoragePath) -> str:
    checkpoints = top / "checkpoints"
    return relative_path(path, checkpoints if is_below(path, checkpoints) else top).as_posix()
