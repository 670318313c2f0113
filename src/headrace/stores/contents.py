"""Contents of listed objects: each is read once, and kept in the cache of this machine."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path

from headrace.stores.listed_area import ListedArea
from headrace.stores.object_cache import ObjectCache
from headrace.stores.object_store import ObjectMeta, ObjectStore
from headrace.stores.parallel import in_parallel

# The folder of the cache with what is no object's content; no key has such a part.
_ANSWERS = "?"


class Contents:
    """The contents of objects of a bucket as a listing found them.

    Args:
        store: the bucket.
        place: tells the bucket from others of its name.
        cache: the file that keeps contents between processes; None to keep none.
    """

    def __init__(self, store: ObjectStore, place: str, cache: Path | None) -> None:
        self._store = store
        self._place = place
        self._cache = ObjectCache(cache)
        self._known: dict[str, tuple[bytes, str]] = {}

    def of(self, key: str) -> tuple[bytes, str]:
        """The content and the tag of an object that was fetched."""
        return self._known[key]

    def fetch(self, objects: Iterable[tuple[ListedArea, ObjectMeta]]) -> None:
        """Read objects, several at a time, unless they are known.

        Raises:
            FileNotFoundError: one does not exist any more.
        """
        wanted: dict[str, tuple[ListedArea, ObjectMeta]] = {}
        for area, meta in objects:
            if meta.key not in self._known:
                kept = self._cache.content(*self._entry(area, meta))
                if kept is None:
                    wanted[meta.key] = (area, meta)
                else:
                    self._known[meta.key] = (kept, meta.tag)
        for key, found in zip(wanted, in_parallel(self._store.get, tuple(wanted)), strict=True):
            self._known[key] = found
            # Otherwise it was replaced after it was listed.
            if found[1] == wanted[key][1].tag:
                self._cache.keep(*self._entry(*wanted[key]), found[0])

    def names(self, folder: str) -> frozenset[str]:
        """The names in a folder whose contents the cache has; of which time, only a listing shows."""
        return self._cache.names(self._folder(folder))

    def retain(self, folder: str, names: AbstractSet[str]) -> None:
        """Remove what the cache has of a folder besides some names."""
        self._cache.forget(self._folder(folder), self.names(folder) - names)

    def kept_answer(self, name: str) -> bytes | None:
        """What was kept under a name; whoever kept it knows whether it is still right."""
        return self._cache.content(self._folder(_ANSWERS), name, _ANSWERS)

    def keep_answer(self, name: str, answer: bytes) -> None:
        """Keep what was computed from objects, for later processes."""
        self._cache.keep(self._folder(_ANSWERS), name, _ANSWERS, answer)

    def close(self) -> None:
        """Write the cache."""
        self._cache.close()

    def _folder(self, folder: str) -> str:
        return f"{self._place}/{folder}"

    def _entry(self, area: ListedArea, meta: ObjectMeta) -> tuple[str, str, str]:
        """Folder, name and stamp of an object in the cache."""
        has_tag = meta.tag not in ("", "None")
        stamp = f"{meta.tag} {meta.size_bytes} {meta.modified_at.isoformat()}" if has_tag else ""
        return self._folder(area.folder), meta.key[len(area.folder) + 1 :], stamp
