"""Normalise paths as users write them, and find their stores."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache

from headrace.autoloader.stores.hdfs import SCHEME as HDFS
from headrace.autoloader.stores.hdfs import HdfsFileStore
from headrace.autoloader.stores.local import LocalStore
from headrace.autoloader.stores.objects import SCHEMES, ObjectStore
from headrace.autoloader.stores.store import Store
from headrace.errors import PipelineError

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_BUCKET = re.compile(r"[^@:\s]+")
_AUTHORITIES = {
    "abfs": re.compile(r"[^@:\s]+@[^@:\s]+"),
    "abfss": re.compile(r"[^@:\s]+@[^@:\s]+"),
    "hdfs": re.compile(r"[^@:\s]*(:\d+)?"),
}
# The vendor's file system (DBFS) as a scheme and as a mount point; its mounts can be written without it.
_DBFS = re.compile(r"^(dbfs:|/dbfs)(?=/|$)")
_DBFS_ROOT = re.compile(r"^dbfs:/+")
_MOUNT = re.compile(r"/mnt(?=/|$)")
_LOCAL = LocalStore()


def replace_prefix(path: str, paths: Mapping[str, str]) -> str:
    """Replace the prefix of a path by its mapping in *paths*: the longest matching prefix that ends at a slash.

    DBFS paths have several spellings. A mapping of one (``/mnt/x``) applies to all (``dbfs:/mnt/x``, ``/dbfs/mnt/x``);
    if several are mapped, the last one wins.
    """
    replacements = {
        spelling: replacement for prefix, replacement in paths.items() for spelling in _spellings(prefix.rstrip("/"))
    }
    normalized = _DBFS_ROOT.sub("dbfs:/", path)
    for spelling in sorted(replacements, key=len, reverse=True):
        if normalized == spelling or normalized.startswith(spelling + "/"):
            return replacements[spelling].rstrip("/") + normalized[len(spelling) :] or "/"
    return path


def _spellings(spelling: str) -> tuple[str, ...]:
    """All spellings of a prefix; a mount also has one without the file system's name."""
    below = _DBFS.sub("", _DBFS_ROOT.sub("dbfs:/", spelling))
    if below == spelling and not _MOUNT.match(spelling):
        return (spelling,)
    named = f"dbfs:{below}", f"/dbfs{below}"
    return (*named, below) if _MOUNT.match(below) else named


def normalize_path(path: str) -> str:
    """Normalise a path: absolute on a local disk, otherwise with its scheme; without a trailing slash.

    Raises:
        PipelineError: ``AUTO_LOADER.STORE``: the scheme is not supported; ``AUTO_LOADER.STORE_NAME``: no valid bucket
            follows it.
    """
    match = _SCHEME.match(path)
    scheme = match.group(1).casefold() if match else "file"
    if scheme == "file":
        plain = re.sub(r"^file:/*(?=/)", "", path, flags=re.IGNORECASE)
        return os.path.abspath(plain)  # noqa: PTH100 - text, with wildcards perhaps
    if scheme not in SCHEMES or not path[len(scheme) :].startswith("://"):
        raise PipelineError("AUTO_LOADER.STORE", path=path, schemes=", ".join(sorted(SCHEMES)))
    authority = path[len(scheme) + 3 :].partition("/")[0]
    if not _AUTHORITIES.get(SCHEMES[scheme], _BUCKET).fullmatch(authority):
        # It may contain a key, so the message does not repeat it.
        raise PipelineError("AUTO_LOADER.STORE_NAME", scheme=scheme)
    return SCHEMES[scheme] + path[len(scheme) :].rstrip("/")


def local_path(path: str, what: str) -> str:
    """As :func:`normalize_path`, for a path that must be on a local disk; *what* names it, such as an option's name.

    Raises:
        PipelineError: ``AUTO_LOADER.NOT_LOCAL``: the path is in another store.
    """
    normalized_path = normalize_path(path)
    if not normalized_path.startswith("/"):
        raise PipelineError("AUTO_LOADER.NOT_LOCAL", what=what, path=path)
    return normalized_path


def store_of(path: str) -> Store:
    """The store of a normalised path."""
    return _LOCAL if path.startswith("/") else _objects(root_of(path))


def root_of(path: str) -> str:
    """The scheme and the bucket or container of a normalised path; "" on a local disk."""
    return "" if path.startswith("/") else "/".join(path.split("/", 3)[:3])


@cache
def _objects(root: str) -> Store:
    return HdfsFileStore.at(root) if root.startswith(HDFS) else ObjectStore.at(root)
