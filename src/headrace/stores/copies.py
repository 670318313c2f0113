"""Copies of files that are never changed: hard links on a disk, server-side copies in an object store."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.stores.object_path import ObjectPath
from headrace.stores.parallel import in_parallel
from headrace.stores.paths import StoragePath, on_disk


@dataclass(frozen=True)
class Copied:
    """What was copied."""

    files: int = 0
    size_bytes: int = 0

    def __add__(self, other: Copied) -> Copied:
        return Copied(self.files + other.files, self.size_bytes + other.size_bytes)


def copy_tree(source: StoragePath, target: StoragePath, *, without: str = "") -> Copied:
    """Copy a folder whose files are never changed in place; files that vanish meanwhile are left out.

    On a disk, the copy is links to the same files: it costs no space while the originals exist.

    Args:
        source: the folder.
        target: its copy, which does not exist, on the same disk or in the same bucket.
        without: the name of a file directly in the folder that is left out.

    Raises:
        OSError: something cannot be copied.
    """
    if isinstance(source, ObjectPath) and isinstance(target, ObjectPath):
        return _copy_objects(source, target, without)
    top, into = on_disk(source, "copying"), on_disk(target, "copying")
    copied = Copied()
    for parent, _, names in os.walk(top):
        folder = into / os.path.relpath(parent, top)
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [name for name in names if name != without] if parent == str(top) else names
        copied += link_files(Path(parent), folder, wanted, missing_ok=True)
        sync_folder(folder)
    return copied


def link_files(source: Path, target: Path, names: Iterable[str], *, missing_ok: bool = False) -> Copied:
    """Link files of a folder in another one, which exists.

    Args:
        source: the folder of the files.
        target: the folder of the links.
        names: the files, relative to both folders, whose subfolders exist.
        missing_ok: leave out files that do not exist.

    Raises:
        FileNotFoundError: a file does not exist.
        OSError: the file system has no hard links, or has reached their limit.
    """
    files = size = 0
    for name in names:
        # Thousands of files: no Path objects.
        link = f"{target}/{name}"
        try:
            os.link(f"{source}/{name}", link)
        except FileNotFoundError:
            if not missing_ok:
                raise
            continue
        files += 1
        size += os.lstat(link).st_size
    return Copied(files, size)


def copy_objects(source: ObjectPath, target: ObjectPath, names: Iterable[str]) -> None:
    """Copy objects of a folder into another one of the bucket, in place of those that are there.

    Args:
        source: the folder of the objects.
        target: the folder of the copies.
        names: the objects, relative to both folders.

    Raises:
        OSError: an object cannot be copied.
    """
    in_parallel(lambda name: source.store.copy(f"{source.key}/{name}", f"{target.key}/{name}"), list(names))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a loss of power."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _copy_objects(source: ObjectPath, target: ObjectPath, without: str) -> Copied:
    left_out = f"{source.key}/{without}"
    # Hadoop's empty markers of folders cannot be copied, and need not be.
    found = [
        meta
        for page in source.store.list_pages(source.key)
        for meta in page
        if meta.size_bytes and meta.key != left_out
    ]
    in_parallel(
        lambda meta: source.store.copy(meta.key, target.key + meta.key.removeprefix(source.key)),
        found,
    )
    return Copied(len(found), sum(meta.size_bytes for meta in found))
