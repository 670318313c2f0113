"""Finds damaged files of state stores, without a JVM: what a stream needs to load its newest committed state.

Layout after Spark's ``RocksDBFileManager`` and ``HDFSBackedStateStoreProvider``: a store loads its newest snapshot
(``<version>.zip`` or ``.snapshot``), then the changes of each later version (``.changelog`` or ``.delta``). The version
after batch N is N + 1. In checkpoint format 2, ``_<id>`` follows the version, and a version may have several files.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.checkpoints.offsets import newest_batches
from headrace.checkpoints.state_size import STATE_FILE, store_folders
from headrace.stores.paths import StoragePath, sorted_paths

_SNAPSHOTS = ("zip", "snapshot")


@dataclass(frozen=True)
class StateDamage:
    """A damaged or missing file of a state store: its path, or the folder that lacks it, and what is wrong."""

    path: StoragePath
    reason: str


@dataclass(frozen=True)
class _Store:
    """The files of one state store by version: its snapshots, and its changes."""

    folder: StoragePath
    snapshots: dict[int, list[StoragePath]]
    changes: dict[int, list[StoragePath]]

    @property
    def newest(self) -> int:
        return max((*self.snapshots, *self.changes), default=0)


def find_state_damage(checkpoint: StoragePath) -> StateDamage | None:
    """The first damage of a checkpoint's state that keeps its stream from continuing; None if there is none.

    Only what the newest completed batch needs counts: an interrupted batch writes its state again.
    """
    _, done = newest_batches(checkpoint)
    if done is None:
        return None
    try:
        operators = [entry for entry in (checkpoint / "state").iterdir() if entry.name.isdigit()]
    except (FileNotFoundError, NotADirectoryError):
        return None
    for operator in sorted_paths(operators):
        stores = [_store(folder, done + 1) for folder in sorted_paths(store_folders(operator))]
        # All partitions commit each batch.
        needed = max((store.newest for store in stores), default=0)
        for store in stores:
            damage = next(_damages(store, needed), None)
            if damage is not None:
                return damage
    return None


def _store(folder: StoragePath, limit: int) -> _Store:
    store = _Store(folder, defaultdict(list), defaultdict(list))
    for file in folder.iterdir():
        match = STATE_FILE.fullmatch(file.name)
        if match is not None and int(match["version"]) <= limit:
            kind = store.snapshots if match["kind"] in _SNAPSHOTS else store.changes
            kind[int(match["version"])].append(file)
    return store


def _damages(store: _Store, needed: int) -> Iterator[StateDamage]:
    snapshot = max(store.snapshots, default=0)
    if snapshot:
        yield from _all_damaged(store.snapshots[snapshot])
    for version in range(snapshot + 1, needed + 1):
        if version not in store.changes:
            yield StateDamage(store.folder, f"version {version} of the state is missing")
            return
        yield from _all_damaged(store.changes[version])


def _all_damaged(files: list[StoragePath]) -> Iterator[StateDamage]:
    """The damage of a version all of whose files are damaged; a retried task leaves more than one."""
    damages = [StateDamage(file, reason) for file in files if (reason := _damage(file))]
    if len(damages) == len(files):
        yield damages[0]


def _damage(file: StoragePath) -> str | None:
    try:
        if file.stat().st_size == 0:
            return "the file is empty"
        if file.suffix == ".zip" and not zipfile.is_zipfile(io.BytesIO(file.read_bytes())):
            return "it is no longer a zip file"
        return _size_mismatch(file)
    except FileNotFoundError:
        # Spark has just deleted it, because a newer version exists.
        return None


def _size_mismatch(file: StoragePath) -> str | None:
    """What is wrong with the size of a file, by Spark's own checksum file next to it (since Spark 4.1)."""
    size = file.stat().st_size
    try:
        recorded = json.loads(file.with_name(f"{file.name}.crc").read_text(encoding="utf-8"))["mainFileSize"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return None if recorded == size else f"it has {size} bytes instead of {recorded}"
