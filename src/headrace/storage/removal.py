"""Removes parts of a storage so that a crash leaves each part whole or out of the way.

A part is first renamed into a folder that nothing reads, and then deleted there. What a crash leaves in that folder is
deleted by the next removal.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from headrace.settings.storage import StorageLayout
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath, on_disk, remove_tree, storage_path


@dataclass(frozen=True)
class Size:
    """A number of files and their bytes."""

    files: int = 0
    size_bytes: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.files + other.files, self.size_bytes + other.size_bytes)


def removal_folder(layout: StorageLayout) -> StoragePath:
    """The folder into which parts of the storage are renamed before they are deleted."""
    return storage_path(layout.events).with_name("removed")


def remove(part: StoragePath, folder: StoragePath) -> None:
    """Remove a file or a folder; safe to repeat after a crash.

    Args:
        part: what to remove, in the same file system as *folder*; it may be gone already.
        folder: the folder in which it is deleted; created if missing.
    """
    if isinstance(part, ObjectPath):
        # Nothing can be renamed there: after a crash, the next call deletes what is left.
        part.unlink()
        remove_tree(part)
        return
    if not os.path.lexists(part):
        return
    folder.mkdir(parents=True, exist_ok=True)
    doomed = folder / uuid.uuid4().hex
    part.rename(on_disk(doomed, "removing"))
    _delete(doomed)


def finish_removals(folder: StoragePath) -> Size:
    """Delete what a crash left in the folder of removals; returns its size."""
    left = size_of(folder)
    with suppress(FileNotFoundError):
        for doomed in [*folder.iterdir()]:
            _delete(doomed)
        on_disk(folder, "removing").rmdir()
    return left


def size_of(part: StoragePath) -> Size:
    """The files in a folder, or a file itself, and their bytes; files that vanish meanwhile do not count."""
    if isinstance(part, ObjectPath):
        below = [*chain.from_iterable(part.store.list_pages(part.key))] or (
            [part.store.head(part.key)] if part.is_file() else []
        )
        return Size(len(below), sum(meta.size_bytes for meta in below))
    if part.is_file() or part.is_symlink():
        return Size(1, part.lstat().st_size)
    found = Size()
    for parent, _, files in os.walk(part):
        for name in files:
            with suppress(FileNotFoundError):
                found += Size(1, os.lstat(os.path.join(parent, name)).st_size)  # noqa: PTH118 - thousands of files
    return found


def _delete(part: StoragePath) -> None:
    if part.is_dir() and not part.is_symlink():
        remove_tree(part)
    else:
        part.unlink()
