"""Within these contexts, this thread reads buckets from a snapshot, which is taken when it is first needed.

What changes after it was taken is found by the next snapshot. So a context is as short as a verb that only reads, or as
the making of a plan; and whatever is decided by a conditional write asks the bucket itself, outside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from headrace.stores.listings import ListedFolders
from headrace.stores.object_store import ObjectStore
from headrace.stores.snapshot import Snapshot
from headrace.stores.snapshot_store import SnapshotStore


@dataclass
class _Snapshots:
    """The snapshots of a context by bucket."""

    root: str
    listed: ListedFolders | None
    asks_once: bool = False
    stores: dict[str, SnapshotStore] = field(default_factory=dict)

    def end(self) -> None:
        """A path that was made in the context may still be used."""
        for store in self.stores.values():
            store.end()


# For this thread alone: what runs in others must see what it has just written.
_CURRENT: ContextVar[_Snapshots | None] = ContextVar("snapshots", default=None)


@contextmanager
def reading_snapshot(root: str = "", listed: ListedFolders | None = None) -> Iterator[None]:
    """Read from one snapshot of each bucket; within such a context, from the snapshots of the outer one.

    Args:
        root: the URI of the bucket that a storage is in; empty for a storage on a disk.
        listed: what is listed there.
    """
    if _CURRENT.get() is not None:
        yield
        return
    snapshots = _Snapshots(root, listed)
    token = _CURRENT.set(snapshots)
    try:
        yield
    finally:
        _CURRENT.reset(token)
        snapshots.end()


@contextmanager
def asking_once() -> Iterator[None]:
    """Ask a bucket once for what no listing shows, while a plan is made; nothing may be written meanwhile."""
    snapshots = _CURRENT.get()
    if snapshots is None or snapshots.asks_once:
        yield
        return
    snapshots.asks_once = True
    try:
        yield
    finally:
        snapshots.asks_once = False


@contextmanager
def reading_afresh() -> Iterator[None]:
    """Ask buckets themselves, also within :func:`reading_snapshot`."""
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def is_reading_snapshot() -> bool:
    """Whether paths that are made now read from a snapshot."""
    return _CURRENT.get() is not None


def store_to_read(store: ObjectStore, place: Callable[[], str]) -> ObjectStore:
    """The store, or one that reads from the snapshot of the context.

    Args:
        store: the bucket.
        place: tells the bucket from others of its name.
    """
    snapshots = _CURRENT.get()
    if snapshots is None:
        return store
    if store.root not in snapshots.stores:
        listed = snapshots.listed if store.root == snapshots.root else None
        snapshots.stores[store.root] = SnapshotStore(Snapshot(store, listed, place()))
    found = snapshots.stores[store.root]
    found.asks_once = snapshots.asks_once
    return found
