"""What one listing found below a folder of a bucket, and the questions about its objects that it answers."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.stores.object_store import PAGE_SIZE, Listing, ObjectMeta, ObjectStore


@dataclass(frozen=True)
class ListedArea:
    """The objects below a folder, as one listing found them.

    Attributes:
        folder: the folder.
        first: the key from which on the listing is complete; empty for all of the folder.
        objects: the objects by key, sorted.
        unlisted: matches the path of a folder below it whose objects are left out.
        skipped: the folders of this kind that exist.
    """

    folder: str
    first: str
    objects: Mapping[str, ObjectMeta]
    unlisted: re.Pattern[str] | None = None
    skipped: frozenset[str] = frozenset()
    _keys: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_keys", tuple(self.objects))

    def find(self, key: str) -> ObjectMeta | None:
        """What is known of an object.

        Raises:
            FileNotFoundError: it does not exist.
        """
        if not self._covers(key):
            return None
        found = self.objects.get(key)
        if found is None or self._has_below(key):
            # Hadoop marks a folder by an object of its name, which the client cannot tell from a file.
            raise FileNotFoundError(2, "it does not exist", key)
        return found if found.size_bytes else None

    def has(self, folder: str) -> bool | None:
        """Whether a folder exists; None if the listing does not show it."""
        if (
            folder in self.skipped
            or self._has_below(folder)
            or any(one.startswith(f"{folder}/") for one in self.skipped)
        ):
            return True
        # What looks like an empty file may be the mark of an empty folder.
        return None if folder in self.objects or not self._covers(f"{folder}/") else False

    def list_folder(self, folder: str) -> Listing | None:
        """What is directly in a folder; None if the listing does not show it."""
        prefix = f"{folder}/"
        if not self._covers(prefix):
            return None
        folders = {one[len(prefix) :].partition("/")[0] for one in self.skipped if one.startswith(prefix)}
        files = []
        number = bisect_left(self._keys, prefix)
        while number < len(self._keys) and self._keys[number].startswith(prefix):
            name, slash, _ = self._keys[number][len(prefix) :].partition("/")
            if slash:
                folders.add(name)
                # What follows a slash in the order of keys.
                number = bisect_left(self._keys, f"{prefix}{name}0")
            else:
                files.append(self.objects[self._keys[number]])
                number += 1
        files = [meta for meta in files if meta.name not in folders]
        if not all(meta.size_bytes for meta in files) or (not files and not folders and folder in self.objects):
            return None
        return Listing(tuple(sorted(folders)), tuple(files))

    def _covers(self, key: str) -> bool:
        """Whether the listing would have found an object of a key."""
        inside = key.startswith(f"{self.folder}/") and key > self.first
        return inside and _unlisted_folder(key, self.folder, self.unlisted) is None

    def _has_below(self, folder: str) -> bool:
        number = bisect_left(self._keys, f"{folder}/")
        return number < len(self._keys) and self._keys[number].startswith(f"{folder}/")


def list_area(store: ObjectStore, folder: str, unlisted: re.Pattern[str] | None = None) -> ListedArea:
    """List all objects below a folder: a request for 1,000 objects, and one for each large folder that is left out.

    Args:
        store: the bucket.
        folder: the folder.
        unlisted: see :class:`ListedArea`; matches a path from its start below the folder to a slash.
    """
    objects: dict[str, ObjectMeta] = {}
    skipped: set[str] = set()
    after: str | None = None
    while True:
        inside: str | None = None
        for page in store.list_pages(folder, after):
            for meta in page:
                inside = _unlisted_folder(meta.key, folder, unlisted)
                if inside is None:
                    objects[meta.key] = meta
                else:
                    skipped.add(inside)
            if inside is not None and len(page) >= PAGE_SIZE:
                # Passes over the rest of it, where names begin with letters and digits.
                after = max(f"{inside}/~", page[-1].key)
                break
        else:
            return ListedArea(folder, "", objects, unlisted, frozenset(skipped))


def _unlisted_folder(key: str, folder: str, unlisted: re.Pattern[str] | None) -> str | None:
    """The folder that is left out of the listing of another one, and that a key is in."""
    match = unlisted.match(key, len(folder) + 1) if unlisted is not None else None
    return None if match is None else key[: match.end()].rstrip("/")
