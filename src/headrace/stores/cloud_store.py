"""A bucket of an object store, through obstore.

Conditional writes decide between writers. The answer to one may get lost, and the client then sends it again, which
fails against the first. So each carries the id of its write, and a refusal by an own write counts as success.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.request import urlopen

import obstore
from obstore import exceptions

from headrace.stores.object_store import PAGE_SIZE, Listing, ObjectMeta, ObjectStore

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client
    from obstore.store import S3Store

# Azure takes letters and digits alone.
_WRITE_ID = "headracewrite"
# For the one request that the client cannot make itself.
_SIGNED_FOR = timedelta(minutes=5)
_CLOCK_TIMEOUT_S = 10
# The client raises either (seen in obstore 0.12.1).
_NOT_FOUND = (exceptions.NotFoundError, FileNotFoundError)


class CloudStore(ObjectStore):
    """A bucket.

    Args:
        root: the bucket's URI, such as ``s3a://bucket``.
        client: of the bucket.
    """

    def __init__(self, root: str, client: Client) -> None:
        super().__init__(root)
        self._client = client

    def get(self, key: str) -> tuple[bytes, str]:
        """See :class:`ObjectStore`."""
        with translating_errors(f"{self.root}/{key}"):
            found = obstore.get(self._client, key)
            return bytes(found.bytes()), str(found.meta["e_tag"])

    def head(self, key: str) -> ObjectMeta:
        """See :class:`ObjectStore`."""
        with translating_errors(f"{self.root}/{key}"):
            return _meta(obstore.head(self._client, key))

    def age_s(self, key: str) -> float | None:
        """See :class:`ObjectStore`.

        Compares two headers of one answer, ``Date`` and ``Last-Modified``, both in whole seconds.
        """
        # The client itself leaves the first one out. For Azure, it signs HEAD without a right to read.
        with translating_errors(f"{self.root}/{key}"):
            url = str(obstore.sign(cast("S3Store", self._client), "GET", key, _SIGNED_FOR))
        try:
            with urlopen(url, timeout=_CLOCK_TIMEOUT_S) as answer:  # noqa: S310 - the store's own URL
                now, then = (parsedate_to_datetime(answer.headers[name]) for name in ("Date", "Last-Modified"))
        except (OSError, TypeError, ValueError):
            return None
        return max((now - then).total_seconds(), 0.0)

    def put(self, key: str, content: bytes) -> str:
        """See :class:`ObjectStore`."""
        with translating_errors(f"{self.root}/{key}"):
            return str(obstore.put(self._client, key, content)["e_tag"])

    def put_if_absent(self, key: str, content: bytes, *, replaceable: bool = False) -> str | None:
        """See :class:`ObjectStore`."""
        del replaceable
        return self._put_conditionally(key, content, "create", exceptions.AlreadyExistsError)

    def put_if_tag(self, key: str, content: bytes, tag: str) -> str | None:
        """See :class:`ObjectStore`."""
        refused = (exceptions.PreconditionError, *_NOT_FOUND)
        return self._put_conditionally(key, content, {"e_tag": tag}, *refused)

    def _put_conditionally(self, key: str, content: bytes, mode: Any, *refused: type[Exception]) -> str | None:
        write_id = uuid.uuid4().hex
        with translating_errors(f"{self.root}/{key}"):
            try:
                written = obstore.put(self._client, key, content, mode=mode, attributes={_WRITE_ID: write_id})
            except refused:
                return _tag_of_write(self._client, key, write_id)
            return str(written["e_tag"])

    def list_folder(self, folder: str) -> Listing:
        """See :class:`ObjectStore`."""
        with translating_errors(f"{self.root}/{folder}"):
            found = obstore.list_with_delimiter(self._client, folder or None)
        folders = sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"])
        objects = sorted(map(_meta, found["objects"]), key=lambda meta: meta.key)
        return Listing(tuple(folders), tuple(objects))

    def list_pages(self, folder: str, after: str | None = None) -> Iterator[list[ObjectMeta]]:
        """See :class:`ObjectStore`; each page is one request."""
        with translating_errors(f"{self.root}/{folder}"):
            for chunk in obstore.list(self._client, folder or None, offset=after, chunk_size=PAGE_SIZE):
                yield list(map(_meta, chunk))

    def copy(self, source: str, target: str) -> None:
        """See :class:`ObjectStore`."""
        with translating_errors(f"{self.root}/{source}"):
            obstore.copy(self._client, source, target)

    def delete(self, *keys: str) -> None:
        """See :class:`ObjectStore`."""
        if keys:
            with translating_errors(f"{self.root}/{keys[0]}"), suppress(*_NOT_FOUND):
                obstore.delete(self._client, keys[0] if len(keys) == 1 else list(keys))


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
