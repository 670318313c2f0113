"""Paths of a storage's files: :class:`pathlib.Path` on a local disk, :class:`ObjectPath` in an object store."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TypeAlias

from headrace.stores.connections import open_store
from headrace.stores.object_path import ObjectPath
from headrace.stores.uris import StoreUri, is_store_uri

# Both have the methods that a storage needs; what only a disk can do asks for a `Path`.
StoragePath: TypeAlias = Path | ObjectPath


def storage_path(location: str) -> StoragePath:
    """The path of a location: a path of a local disk, or the canonical URI of a place in an object store."""
    if not is_store_uri(location):
        return Path(location)
    uri = StoreUri.parse(location)
    return ObjectPath(uri.root, uri.key, open_store(uri))


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
