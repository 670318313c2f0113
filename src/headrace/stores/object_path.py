"""Paths in an object store, with the methods of :class:`pathlib.Path` that a storage needs.

A folder exists while an object is below it; so ``mkdir`` does nothing, and an empty folder does not exist.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from headrace.stores.object_store import ObjectStore

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True)
class ObjectStat:
    """What is known of an object, under the names of :class:`os.stat_result`."""

    st_size: int
    st_mtime: float


@dataclass(frozen=True)
class PureObjectPath:
    """The path of an object or a folder, as text.

    Attributes:
        root: the bucket's URI.
        key: the key; empty for all of the bucket.
    """

    root: str
    key: str

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root

    @property
    def name(self) -> str:
        """The last part of the key."""
        return PurePosixPath(self.key).name

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return PurePosixPath(self.key).stem

    @property
    def suffix(self) -> str:
        """The ending of the name, with its period."""
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> Self:
        """The folder that it is in; the bucket is in itself."""
        return replace(self, key=self.key.rpartition("/")[0])

    @property
    def parents(self) -> tuple[Self, ...]:
        """The folders that it is in, the nearest first."""
        return (self.parent, *self.parent.parents) if self.key else ()

    def __truediv__(self, other: str) -> Self:
        return replace(self, key="/".join(part for part in (self.key, *other.split("/")) if part))

    def with_name(self, name: str) -> Self:
        """Its sibling of another name."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> Self:
        """Its sibling of another suffix."""
        return self.parent / PurePosixPath(self.name).with_suffix(suffix).name

    def resolve(self) -> Self:
        """Itself: an object store has no links."""
        return self

    def is_symlink(self) -> bool:
        """False, for the same reason."""
        return False


@dataclass(frozen=True)
class ObjectPath(PureObjectPath):
    """An object or a folder.

    Attributes:
        store: the bucket.
    """

    store: ObjectStore = field(compare=False, repr=False)

    def is_file(self) -> bool:
        """True for an object."""
        try:
            self.store.head(self.key)
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """True for a folder."""
        return self.store.has_objects(self.key)

    def exists(self) -> bool:
        """True for an object and for a folder."""
        return bool(self.key and self.is_file()) or self.is_dir()

    def stat(self) -> ObjectStat:
        """The size and time of an object."""
        meta = self.store.head(self.key)
        return ObjectStat(meta.size_bytes, meta.modified_at.timestamp())

    def read_bytes(self) -> bytes:
        """The content of an object."""
        return self.store.get(self.key)[0]

    def read_text(self, encoding: str = "utf-8") -> str:
        """The content of an object as text."""
        return self.read_bytes().decode(encoding)

    def write_bytes(self, content: bytes) -> int:
        """Write an object, in place of one that is there; readers see all of it or nothing."""
        self.store.put(self.key, content)
        return len(content)

    def iterdir(self) -> Iterator[ObjectPath]:
        """What is directly in a folder.

        Raises:
            FileNotFoundError: nothing is.
        """
        listing = self.store.list_folder(self.key)
        if not (listing.folders or listing.objects):
            raise FileNotFoundError(2, "it does not exist", str(self))
        yield from (self / name for name in listing.folders)
        yield from (replace(self, key=meta.key) for meta in listing.objects)

    def rglob(self, pattern: str) -> Iterator[ObjectPath]:
        """The objects below a folder whose names match a pattern; unlike on a disk, no folders."""
        for meta in chain.from_iterable(self.store.list_pages(self.key)):
            if fnmatch.fnmatchcase(meta.name, pattern):
                yield replace(self, key=meta.key)

    def glob(self, pattern: str) -> Iterator[ObjectPath]:
        """The objects and folders that match a pattern, whose parts are names or have wildcards; not ``**``."""
        first, _, rest = pattern.partition("/")
        if any(character in first for character in "*?["):
            listing = self.store.list_folder(self.key)
            names = (*listing.folders, *(meta.name for meta in listing.objects))
            found = [self / name for name in sorted(names) if fnmatch.fnmatchcase(name, first)]
        else:
            found = [self / first] if rest or (self / first).exists() else []
        for path in found:
            yield from path.glob(rest) if rest else (path,)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:  # noqa: FBT001, FBT002 - as pathlib
        """Do nothing: a folder exists while something is in it."""

    def unlink(self, missing_ok: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - as pathlib
        """Delete an object; unlike on a disk, nothing happens if it does not exist."""
        self.store.delete(self.key)
