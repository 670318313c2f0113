"""Addresses of folders and files in object stores and HDFS: one canonical URI for each place, which libraries spell."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

# Hadoop's name of S3 is `s3a`; the others are what users write for the same objects. The canonical scheme is Hadoop's,
# because Spark stores it: in the log of a table, and in the metadata of a checkpoint.
_CANONICAL = {
    "s3": "s3a",
    "s3a": "s3a",
    "s3n": "s3a",
    "hdfs": "hdfs",
    "abfs": "abfss",
    "abfss": "abfss",
    "gs": "gs",
}
SCHEMES = frozenset(_CANONICAL)
S3, HDFS, AZURE, GOOGLE = "s3a", "hdfs", "abfss", "gs"
# Where files are read, and no storage was ever run.
UNTRIED_SCHEMES = frozenset({"abfs", "abfss", "gs"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# A NameNode with its port, or a name service.
_NAME_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(:\d{1,5})?")
# A container, and an account with the domain of its service.
_CONTAINER = re.compile(
    r"(?P<container>[a-z0-9$][a-z0-9-]{1,62})@(?P<account>[a-z0-9]{3,24})\.(?P<domain>dfs\.[a-z0-9.-]+)"
)
# What every library takes for itself; a percent sign is decoded by some of them and not by others.
_KEY = re.compile(r"[^\x00-\x1f\x7f%?#*\[\]{}\\^`\"<>|~]*")


@dataclass(frozen=True)
class StoreUri:
    """A place in an object store.

    Attributes:
        scheme: the canonical scheme, such as ``s3a``.
        bucket: the bucket; of Azure, the container and the account, such as ``lake@account.dfs.core.windows.net``;
            of HDFS, the NameNode with its port, or the name service.
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
        _check_bucket(scheme, parts.netloc)
        key = "/".join(part for part in parts.path.split("/") if part)
        if parts.query or parts.fragment or not _KEY.fullmatch(key):
            raise ValueError("it contains a character that not all libraries read in the same way")
        if any(part in (".", "..") for part in key.split("/")):
            raise ValueError('a folder is named "." or ".."')
        return cls(scheme, parts.netloc, key)


@dataclass(frozen=True)
class AzureContainer:
    """A container of Azure.

    Attributes:
        name: its name.
        account: the storage account.
        domain: of the account's service for data lakes, such as ``dfs.core.windows.net``.
    """

    name: str
    account: str
    domain: str

    @classmethod
    def of(cls, bucket: str) -> AzureContainer:
        """The container that the bucket of a URI names.

        Raises:
            ValueError: it names none.
        """
        match = _CONTAINER.fullmatch(bucket)
        if match is None:
            raise ValueError("it names no container and account, as in abfss://lake@account.dfs.core.windows.net")
        return cls(match["container"], match["account"], match["domain"])


def _check_bucket(scheme: str, bucket: str) -> None:
    """Raise ValueError if a URI cannot have the bucket."""
    if scheme == AZURE and ":" not in bucket:
        AzureContainer.of(bucket)
    elif "@" in bucket:
        raise ValueError("it contains a user or a key; credentials do not belong in a URI")
    elif scheme == HDFS and not _NAME_NODE.fullmatch(bucket):
        raise ValueError("it names no NameNode and no name service, as in hdfs://namenode:8020/folder")
    elif scheme != HDFS and not _BUCKET.fullmatch(bucket):
        raise ValueError(f'"{bucket}" is not the name of a bucket')


def is_store_uri(text: str) -> bool:
    """True for a URI of an object store in any spelling, whether or not it is valid."""
    match = _SCHEME.match(text)
    return match is not None and match.group(1).lower() in SCHEMES
