"""Addresses of folders and files in object stores: one canonical URI for each place, spelled for each library."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

# Hadoop's name of S3 is `s3a`; the others are what users write for the same objects. The canonical scheme is Hadoop's,
# because Spark stores it: in the log of a table, and in the metadata of a checkpoint.
_CANONICAL = {"s3": "s3a", "s3a": "s3a", "s3n": "s3a"}
SCHEMES = frozenset(_CANONICAL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# What every library takes for itself; a percent sign is decoded by some of them and not by others.
_KEY = re.compile(r"[^\x00-\x1f\x7f%?#*\[\]{}\\^`\"<>|~]*")


@dataclass(frozen=True)
class StoreUri:
    """A place in an object store.

    Attributes:
        scheme: the canonical scheme, such as ``s3a``.
        bucket: the bucket or container.
        key: the path in it, without slashes at its ends; empty for all of the bucket.
    """

    scheme: str
    bucket: str
    key: str

    @property
    def root(self) -> str:
        """The bucket as a URI, without a slash at its end."""
        return f"{self.scheme}://{self.bucket}"

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root

    @classmethod
    def parse(cls, text: str) -> StoreUri:
        """Parse a URI in any spelling, with any key: that of a file that exists, or of a pattern.

        Raises:
            ValueError: it has another scheme.
        """
        scheme, _, rest = text.partition("://")
        if scheme.lower() not in SCHEMES:
            raise ValueError(f'"{scheme}" is not the scheme of an object store')
        bucket, _, key = rest.partition("/")
        return cls(_CANONICAL[scheme.lower()], bucket, "/".join(part for part in key.split("/") if part))

    @classmethod
    def checked(cls, text: str) -> StoreUri:
        """Parse the URI of a place for a storage, which all libraries must read in the same way.

        Raises:
            ValueError: it is not such a URI; the text says why.
        """
        parts = urlsplit(text)
        scheme = _CANONICAL.get(parts.scheme.lower())
        if scheme is None:
            raise ValueError(f'"{parts.scheme}" is not the scheme of an object store')
        if "@" in parts.netloc:
            raise ValueError("it contains a user or a key; credentials do not belong in a URI")
        if not _BUCKET.fullmatch(parts.netloc):
            raise ValueError(f'"{parts.netloc}" is not the name of a bucket')
        key = "/".join(part for part in parts.path.split("/") if part)
        if parts.query or parts.fragment or not _KEY.fullmatch(key):
            raise ValueError("it contains a character that not all libraries read in the same way")
        if any(part in (".", "..") for part in key.split("/")):
            raise ValueError('a folder is named "." or ".."')
        return cls(scheme, parts.netloc, key)


def is_store_uri(text: str) -> bool:
    """True for a URI of an object store in any spelling, whether or not it is valid."""
    match = _SCHEME.match(text)
    return match is not None and match.group(1).lower() in SCHEMES
