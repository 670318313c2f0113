"""Paths of a storage's files: :class:`pathlib.Path` on a local disk, :class:`ObjectPath` in an object store."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from headrace.errors import PipelineError
from headrace.stores.connections import is_named, open_store
from headrace.stores.object_path import ObjectPath
from headrace.stores.reading_once import once_if_asked
from headrace.stores.uris import StoreUri, is_store_uri

# Both have the methods that a storage needs; what only a disk can do asks for a `Path`.
StoragePath: TypeAlias = Path | ObjectPath


def storage_path(location: str) -> StoragePath:
    """The path of a location: a path of a local disk, or the URI of a place in a bucket that settings name.

    Of other buckets nothing is asked here: what a query reads there, Spark reaches with settings of its own. Their
    paths are those of a disk, where nothing is.
    """
    if not is_store_uri(location):
        return Path(location)
    uri = StoreUri.parse(location)
    if not is_named(uri):
        return Path(location)
    return ObjectPath(uri.root, uri.key, once_if_asked(open_store(uri)))


def remove_tree(folder: StoragePath) -> None:
    """Delete a folder and all below it; nothing happens if it does not exist.

    Raises:
        OSError: something cannot be deleted.
    """
    if isinstance(folder, ObjectPath):
        folder.store.delete_below(folder.key)
        return
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        if folder.exists():
            raise


def sorted_paths(paths: Iterable[StoragePath]) -> list[StoragePath]:
    """Paths by their parts, as a folder's listing is read."""
    return sorted(paths, key=lambda path: str(path).split("/"))


def relative_path(path: StoragePath, folder: StoragePath) -> PurePosixPath:
    """A path below a folder.

    Raises:
        ValueError: it is not below it.
    """
    return PurePosixPath(str(path)).relative_to(PurePosixPath(str(folder)))


def is_below(path: StoragePath, folder: StoragePath) -> bool:
    """True for a folder and for all below it."""
    return PurePosixPath(str(path)).is_relative_to(PurePosixPath(str(folder)))


def file_source(file: StoragePath) -> str | BytesIO:
    """A file for libraries that take a path of a disk, or a file object with all of its content."""
    return BytesIO(file.read_bytes()) if isinstance(file, ObjectPath) else str(file)


def move_file(file: StoragePath, target: StoragePath) -> StoragePath:
    """Move a file inside its storage, in place of one that is there; returns the new path.

    In an object store, a crash can leave both.

    Raises:
        OSError: it cannot be moved.
    """
    if isinstance(file, ObjectPath) and isinstance(target, ObjectPath):
        file.store.copy(file.key, target.key)
        file.unlink()
        return target
    return on_disk(file, "moving a file between storages").replace(on_disk(target, "moving a file between storages"))


def on_disk(path: StoragePath, action: str) -> Path:
    """The path, for what only a file system can do.

    Raises:
        PipelineError: STORAGE.NEEDS_DISK: it is in an object store.
    """
    if isinstance(path, Path):
        return path
    raise PipelineError("STORAGE.NEEDS_DISK", path=path, action=action)
