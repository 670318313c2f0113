"""The objects of a bucket, by key: what an object store can do, and no more.

Conditional writes decide between writers. The answer to one may get lost, and the client then sends it again, which
fails against the first. So each carries the id of its write, and a refusal by an own write counts as success.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import obstore
from obstore import exceptions

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client
    from obstore.store import S3Store

_WRITE_ID = "headrace-write"
# For the one request that the client cannot make itself.
_SIGNED_FOR = timedelta(minutes=5)
# How many objects one request lists at most, by the protocol.
PAGE_SIZE = 1000
# The client raises either (seen in obstore 0.12.1).
_NOT_FOUND = (exceptions.NotFoundError, FileNotFoundError)


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


class ObjectStore:
    """A bucket. Keys have no slash at their ends.

    All methods raise OSError if the store refuses or does not answer: FileNotFoundError, PermissionError, or
    ConnectionError with the reason.

    Args:
        root: the bucket's URI, such as ``s3a://bucket``.
        client: of the bucket.
    """

    def __init__(self, root: str, client: Client) -> None:
        self.root = root
        self.client = client

    def __repr__(self) -> str:
        return f"ObjectStore({self.root!r})"

    def get(self, key: str) -> tuple[bytes, str]:
        """The content of an object and its tag."""
        with translating_errors(f"{self.root}/{key}"):
            found = obstore.get(self.client, key)
            return bytes(found.bytes()), str(found.meta["e_tag"])

    def head(self, key: str) -> ObjectMeta:
        """What is known of an object."""
        with translating_errors(f"{self.root}/{key}"):
            return _meta(obstore.head(self.client, key))

    def signed_url(self, method: str, key: str) -> str:
        """A URL for one request about an object, valid for some minutes."""
        with translating_errors(f"{self.root}/{key}"):
            return str(obstore.sign(cast("S3Store", self.client), cast("Any", method), key, _SIGNED_FOR))

    def put(self, key: str, content: bytes) -> str:
        """Write an object, in place of one that is there; returns its tag."""
        with translating_errors(f"{self.root}/{key}"):
            return str(obstore.put(self.client, key, content)["e_tag"])

    def put_if_absent(self, key: str, content: bytes) -> str | None:
        """Write an object unless it exists; returns its tag, or None if it exists.

        Law: of all writers of one key, exactly one gets a tag.
        """
        return self._put_conditionally(key, content, "create", exceptions.AlreadyExistsError)

    def put_if_tag(self, key: str, content: bytes, tag: str) -> str | None:
        """Replace an object if it still has a tag; returns its new tag, or None if it has another one, or is gone.

        Law: of all writers that name one tag, at most one gets a new one.
        """
        refused = (exceptions.PreconditionError, *_NOT_FOUND)
        return self._put_conditionally(key, content, {"e_tag": tag}, *refused)

    def _put_conditionally(self, key: str, content: bytes, mode: Any, *refused: type[Exception]) -> str | None:
        write_id = uuid.uuid4().hex
        with translating_errors(f"{self.root}/{key}"):
            try:
                written = obstore.put(self.client, key, content, mode=mode, attributes={_WRITE_ID: write_id})
            except refused:
                return _tag_of_write(self.client, key, write_id)
            return str(written["e_tag"])

    def list_folder(self, folder: str) -> Listing:
        """What is directly in a folder; nothing if it does not exist."""
        with translating_errors(f"{self.root}/{folder}"):
            found = obstore.list_with_delimiter(self.client, folder or None)
        folders = sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"])
        objects = sorted(map(_meta, found["objects"]), key=lambda meta: meta.key)
        return Listing(tuple(folders), tuple(objects))

    def list_pages(self, folder: str, after: str | None = None) -> Iterator[list[ObjectMeta]]:
        """The objects below a folder in the order of their keys, in pages; each page is one request.

        Args:
            folder: the folder.
            after: leave out the keys up to this one.
        """
        with translating_errors(f"{self.root}/{folder}"):
            for chunk in obstore.list(self.client, folder or None, offset=after, chunk_size=PAGE_SIZE):
                yield list(map(_meta, chunk))

    def has_objects(self, folder: str) -> bool:
        """True if an object is below a folder, that is, if the folder exists."""
        return next(self.list_pages(folder), None) is not None

    def copy(self, source: str, target: str) -> None:
        """Copy an object inside the store."""
        with translating_errors(f"{self.root}/{source}"):
            obstore.copy(self.client, source, target)

    def delete(self, *keys: str) -> None:
        """Delete objects; nothing happens for those that do not exist."""
        if keys:
            with translating_errors(f"{self.root}/{keys[0]}"), suppress(*_NOT_FOUND):
                obstore.delete(self.client, keys[0] if len(keys) == 1 else list(keys))

    def delete_below(self, folder: str) -> None:
        """Delete all objects below a folder."""
        self.delete(*(meta.key for page in self.list_pages(folder) for meta in page))


@contextmanager
def translating_errors(place: str) -> Iterator[None]:
    """Translate the client's errors into OSError."""
    try:
        yield
    except _NOT_FOUND as error:
        raise FileNotFoundError(2, "it does not exist", place) from error
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise PermissionError(13, "access is denied", place) from error
    except exceptions.BaseError as error:
        raise ConnectionError(5, _reason(error), place) from error


def _tag_of_write(client: Client, key: str, write_id: str) -> str | None:
    """The tag of an object if the write with an id made it."""
    try:
        found = obstore.get(client, key)
    except _NOT_FOUND:
        return None
    return str(found.meta["e_tag"]) if found.attributes.get(_WRITE_ID) == write_id else None


def _meta(found: Any) -> ObjectMeta:
    return ObjectMeta(found["path"], found["size"], found["last_modified"], str(found["e_tag"]))


def _reason(error: BaseException) -> str:
    """The server's own words, or else the first line of the client; the lines after it show the client's settings."""
    code, message = (re.search(f"<{tag}>([^<]*)</{tag}>", str(error)) for tag in ("Code", "Message"))
    if code is not None:
        return f"the store answered {code[1]}" + (f": {message[1]}" if message is not None else "")
    return str(error).partition("\n")[0].strip() or type(error).__name__
