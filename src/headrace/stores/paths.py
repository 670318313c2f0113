"""Paths of a storage's files: :class:`pathlib.Path` on a local disk, :class:`ObjectPath` in an object store."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

from headrace.errors import PipelineError
from headrace.stores.connections import connection_of, is_named, open_store
from headrace.stores.object_path import ObjectPath
from headrace.stores.snapshot import Snapshot
from headrace.stores.snapshot_store import SnapshotStore
from headrace.stores.snapshots import store_to_read
from headrace.stores.uris import StoreUri, is_store_uri

if TYPE_CHECKING:
    import pyarrow as pa

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
    store = store_to_read(open_store(uri), lambda: f"{connection_of(uri).endpoint} {uri.root}")
    return ObjectPath(uri.root, uri.key, store)


def snapshot_of(path: StoragePath) -> Snapshot | None:
    """The snapshot that a path is read from; None if it is read where it is."""
    store = path.store if isinstance(path, ObjectPath) else None
    return store.snapshot if isinstance(store, SnapshotStore) else None


def readable_file(path: StoragePath) -> Path | pa.BufferReader:
    """The file for libraries that read paths of a disk: its path, or its content."""
    if isinstance(path, Path):
        return path
    import pyarrow as pa  # noqa: PLC0415 - takes longer than verbs that read no Parquet

    return pa.BufferReader(path.read_bytes())


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
