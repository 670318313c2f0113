"""What of a storage in a bucket is listed for the verbs that read all of its flows and tables."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.settings.storage import MonitoringFile, StorageLayout
from headrace.stores.listings import ListedFolders
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath, snapshot_of, storage_path
from headrace.stores.snapshot import Snapshot
from headrace.stores.snapshots import asking_once, reading_snapshot
from headrace.stores.table_logs import LOG
from headrace.stores.uris import StoreUri

# In the folder of a flow, which is two or three names below: state has many files, Auto Loader writes meanwhile, in
# processes of its own, and dead letters and the spill queue have files of rows.
_UNLISTED = re.compile(r"(?:[^/]+/){3,4}(?:\d+/state|auto_loader|failing_rows|waiting)/")
# The files of a batch that a plan may read: of the newest batch, the one before, and the first two.
_BATCHES = ("offsets", "commits")
_FILES = frozenset({"flow.json", "metadata"})


@contextmanager
def reading_storage(layout: StorageLayout) -> Iterator[None]:
    """Read the storage from a snapshot: of its flows and the logs of its tables as they are when this begins.

    On a disk, files are read as always. See :mod:`headrace.stores.snapshots`.
    """
    root = storage_path(layout.root)
    if not isinstance(root, ObjectPath):
        yield
        return
    whole = tuple(f"{root.key}/{name}" for name in ("checkpoints", "system/views"))
    cache = Path(layout.monitoring(MonitoringFile.OBJECTS)) if layout.local_root else None
    with reading_snapshot(root.root, ListedFolders(root.key, whole, _UNLISTED, cache)):
        # What cannot be read is reported by what needs it.
        with suppress(OSError):
            _read_ahead(storage_path(layout.root), StoreUri.parse(layout.events).key)
        yield


@contextmanager
def planning_from_storage(layout: StorageLayout) -> Iterator[None]:
    """The same, and what no listing shows is asked for once, while a plan is made; nothing may be written meanwhile."""
    with reading_storage(layout), asking_once():
        yield


def _read_ahead(root: StoragePath, events: str) -> None:
    """Make the requests that the verb would make one after the other, several at a time."""
    snapshot = snapshot_of(root)
    if snapshot is None or not isinstance(root, ObjectPath) or not root.is_dir():
        return
    places = [f"{root.key}/tables", f"{root.key}/system/cdc"]
    tables = [table for place in places for schema in _folders(snapshot, place) for table in _folders(snapshot, schema)]
    snapshot.listings.list_logs(f"{table}/{LOG}" for table in (*tables, events))
    # In a catalog, tables are one folder deeper.
    schemas = [folder for folder in tables if not snapshot.listings.has(f"{folder}/{LOG}")]
    snapshot.listings.list_logs(f"{table}/{LOG}" for schema in schemas for table in _folders(snapshot, schema))
    area = snapshot.listings.area_of(f"{root.key}/checkpoints")
    snapshot.fetch(_read_by_plans(area.objects) if area is not None else ())


def _folders(snapshot: Snapshot, folder: str) -> list[str]:
    found = snapshot.listings.folder(folder)
    return [] if found is None else [f"{folder}/{name}" for name in found.folders]


def _read_by_plans(keys: Iterable[str]) -> Iterator[str]:
    """The keys of what a plan reads of each flow."""
    batches: dict[str, set[int]] = defaultdict(set)
    for key in keys:
        folder, _, name = key.rpartition("/")
        if name in _FILES:
            yield key
        elif name.isdigit() and folder.rpartition("/")[2] in _BATCHES:
            batches[folder].add(int(name))
    for folder, numbers in batches.items():
        newest = max(numbers)
        yield from (f"{folder}/{number}" for number in sorted({0, 1, newest - 1, newest} & numbers))
