"""Where this machine caches what a storage in a bucket has: one folder for each storage."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from headrace.stores.object_path import ObjectPath

_FOLDERS: dict[str, str] = {}


def set_cache_folder(storage: str, folder: str) -> None:
    """Say where the caches of a storage are.

    Args:
        storage: the canonical URI of the storage.
        folder: a folder of this machine; it may not exist yet.
    """
    _FOLDERS[storage] = folder


def cache_folders() -> dict[str, str]:
    """The folders by storage."""
    return dict(_FOLDERS)


def cache_folder(path: ObjectPath) -> Path:
    """The folder for caches of what is at a path of a storage.

    Raises:
        LookupError: :func:`set_cache_folder` has not named one.
    """
    for storage, folder in _FOLDERS.items():
        if PurePosixPath(str(path)).is_relative_to(PurePosixPath(storage)):
            return Path(folder)
    raise LookupError(f"no cache folder is known for {path}")
