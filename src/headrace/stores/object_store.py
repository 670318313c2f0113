"""The objects of a bucket, by key: what each store of files can do, and no more.

What must be decided between writers is a conditional put. :class:`~headrace.stores.cloud_store.CloudStore` asks an
object store for it, :class:`~headrace.stores.hdfs_store.HdfsStore` makes it of what HDFS has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

# How many objects one request lists at most, by the protocol of S3.
PAGE_SIZE = 1000


@dataclass(frozen=True)
class ObjectMeta:
    """An object.

    Attributes:
        key: its key.
        size_bytes: its size.
        modified_at: when it was written, by the clock of the store.
        tag: changes with each write.
    """

    key: str
    size_bytes: int
    modified_at: datetime
    tag: str

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]


@dataclass(frozen=True)
class Listing:
    """What is directly in a folder: the names of folders, and objects. Both are sorted."""

    folders: tuple[str, ...]
    objects: tuple[ObjectMeta, ...]


class ObjectStore(ABC):
    """A bucket, or another tree of files. Keys have no slash at their ends.

    All methods raise OSError if the store refuses or does not answer: FileNotFoundError, PermissionError, or
    ConnectionError with the reason.

    Args:
        root: the bucket's URI, such as ``s3a://bucket``.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.root!r})"

    @abstractmethod
    def get(self, key: str) -> tuple[bytes, str]:
        """The content of an object and its tag."""

    @abstractmethod
    def head(self, key: str) -> ObjectMeta:
        """What is known of an object."""

    @abstractmethod
    def age_s(self, key: str) -> float | None:
        """How long ago an object was written, in seconds by the store's own clock; None if the store does not say."""

    @abstractmethod
    def put(self, key: str, content: bytes) -> str:
        """Write an object, in place of one that is there; returns its tag."""

    @abstractmethod
    def put_if_absent(self, key: str, content: bytes, *, replaceable: bool = False) -> str | None:
        """Write an object unless it exists; returns its tag, or None if it exists.

        Law: of all writers of one key, exactly one gets a tag.

        Args:
            key: the key.
            content: the content.
            replaceable: whether :meth:`put_if_tag` will replace it: not each store can do so with each object.
        """

    @abstractmethod
    def put_if_tag(self, key: str, content: bytes, tag: str) -> str | None:
        """Replace an object if it still has a tag; returns its new tag, or None if it has another one, or is gone.

        Law: of all writers that name one tag, at most one gets a new one.
        """

    @abstractmethod
    def list_folder(self, folder: str) -> Listing:
        """What is directly in a folder; nothing if it does not exist."""

    @abstractmethod
    def list_pages(self, folder: str, after: str | None = None) -> Iterator[list[ObjectMeta]]:
        """The objects below a folder in the order of their keys, in pages.

        Args:
            folder: the folder.
            after: leave out the keys up to this one.
        """

    def has_objects(self, folder: str) -> bool:
        """True if an object is below a folder, that is, if the folder exists."""
        return next(self.list_pages(folder), None) is not None

    @abstractmethod
    def copy(self, source: str, target: str) -> None:
        """Copy an object inside the store."""

    @abstractmethod
    def delete(self, *keys: str) -> None:
        """Delete objects; nothing happens for those that do not exist."""

    def delete_below(self, folder: str) -> None:
        """Delete all objects below a folder."""
        self.delete(*(meta.key for page in self.list_pages(folder) for meta in page))
