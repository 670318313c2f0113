"""A bucket that answers from a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import TypeVar

from headrace.stores.object_path import ObjectPath
from headrace.stores.object_store import Listing, ObjectMeta, ObjectStore
from headrace.stores.snapshot import Snapshot

_Answer = TypeVar("_Answer")


class SnapshotStore(ObjectStore):
    """A bucket whose snapshot answers questions until :meth:`end`, or until something is written.

    Args:
        snapshot: of the bucket.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot.store.root)
        # The bucket itself.
        self.bucket = snapshot.store
        # None once it has ended.
        self.snapshot: Snapshot | None = snapshot
        # While a plan is made, what no listing shows is also asked for once.
        self.asks_once = False

    def end(self) -> None:
        """Answer no more questions from the snapshot."""
        if self.snapshot is not None:
            self.snapshot.close()
            self.snapshot = None

    def get(self, key: str) -> tuple[bytes, str]:
        """See :class:`ObjectStore`."""
        found = None if self.snapshot is None else self.snapshot.content(key)
        return found or self._asked(("get", key), lambda: self.bucket.get(key))

    def head(self, key: str) -> ObjectMeta:
        """See :class:`ObjectStore`."""
        area = None if self.snapshot is None else self.snapshot.listings.area_of(key)
        found = None if area is None else area.find(key)
        return found or self._asked(("head", key), lambda: self.bucket.head(key))

    def age_s(self, key: str) -> float | None:
        """See :class:`ObjectStore`."""
        return self.bucket.age_s(key)

    def list_folder(self, folder: str) -> Listing:
        """See :class:`ObjectStore`."""
        found = None if self.snapshot is None else self.snapshot.listings.folder(folder)
        return found or self._asked(("list", folder), lambda: self.bucket.list_folder(folder))

    def has_objects(self, folder: str) -> bool:
        """See :class:`ObjectStore`."""
        if self.snapshot is not None:
            found = self.snapshot.listings.has(folder)
            if found is not None:
                return found
        return self._asked(("has", folder), lambda: self.bucket.has_objects(folder))

    def list_pages(self, folder: str, after: str | None = None) -> Iterator[list[ObjectMeta]]:
        """See :class:`ObjectStore`."""
        return self.bucket.list_pages(folder, after)

    def put(self, key: str, content: bytes) -> str:
        """See :class:`ObjectStore`."""
        self.end()
        return self.bucket.put(key, content)

    def put_if_absent(self, key: str, content: bytes, *, replaceable: bool = False) -> str | None:
        """See :class:`ObjectStore`."""
        self.end()
        return self.bucket.put_if_absent(key, content, replaceable=replaceable)

    def put_if_tag(self, key: str, content: bytes, tag: str) -> str | None:
        """See :class:`ObjectStore`."""
        self.end()
        return self.bucket.put_if_tag(key, content, tag)

    def copy(self, source: str, target: str) -> None:
        """See :class:`ObjectStore`."""
        self.end()
        self.bucket.copy(source, target)

    def delete(self, *keys: str) -> None:
        """See :class:`ObjectStore`."""
        self.end()
        self.bucket.delete(*keys)

    def delete_below(self, folder: str) -> None:
        """See :class:`ObjectStore`."""
        self.end()
        self.bucket.delete_below(folder)

    def _asked(self, question: Hashable, ask: Callable[[], _Answer]) -> _Answer:
        return self.snapshot.once(question, ask) if self.snapshot is not None and self.asks_once else ask()


def uncached(path: ObjectPath) -> ObjectPath:
    """The path, with a request for each read, also where a snapshot answers."""
    return replace(path, store=path.store.bucket) if isinstance(path.store, SnapshotStore) else path
