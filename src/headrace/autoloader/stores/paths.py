"""What people write for a place, and the store behind it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache

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
# The vendor's file system as it is named, and where it is mounted; its mounts go without it.
_DBFS = re.compile(r"^(dbfs:|/dbfs)(?=/|$)")
_DBFS_ROOT = re.compile(r"^dbfs:/+")
_MOUNT = re.compile(r"/mnt(?=/|$)")
_LOCAL = LocalStore()


def mapped(path: str, paths: Mapping[str, str]) -> str:
    """A path with its beginning replaced, where *paths* says by what: the longest that ends at a slash counts.

    The vendor's file system has several spellings; what is said of one (``/mnt/x``) holds for all of them
    (``dbfs:/mnt/x``, ``/dbfs/mnt/x``), the last one said if there are several.
    """
    places = {begin: place for prefix, place in paths.items() for begin in _spellings(prefix.rstrip("/"))}
    spelled = _DBFS_ROOT.sub("dbfs:/", path)
    for begin in sorted(places, key=len, reverse=True):
        if spelled == begin or spelled.startswith(begin + "/"):
            return places[begin].rstrip("/") + spelled[len(begin) :] or "/"
    return path


def _spellings(begin: str) -> tuple[str, ...]:
    """All spellings of a beginning; a mount has one without the file system's name."""
    below = _DBFS.sub("", _DBFS_ROOT.sub("dbfs:/", begin))
    if below == begin and not _MOUNT.match(begin):
        return (begin,)
    named = f"dbfs:{below}", f"/dbfs{below}"
    return (*named, below) if _MOUNT.match(below) else named


def whole_path(path: str) -> str:
    """A path with its scheme where it is none of a local disk, absolute where it is, without a slash at its end.

    Raises:
        PipelineError: ``AUTO_LOADER.STORE``, ``AUTO_LOADER.STORE_NAME``: nothing here reads the scheme, or what stands
            behind it names no bucket.
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
        # It may hold a key, and is not repeated.
        raise PipelineError("AUTO_LOADER.STORE_NAME", scheme=scheme)
    return SCHEMES[scheme] + path[len(scheme) :].rstrip("/")


def local_path(path: str, what: str) -> str:
    """As :func:`whole_path`, of what has to be on a local disk: *what*, such as an option's name.

    Raises:
        PipelineError: ``AUTO_LOADER.NOT_LOCAL``: it is in another store.
    """
    whole = whole_path(path)
    if not whole.startswith("/"):
        raise PipelineError("AUTO_LOADER.NOT_LOCAL", what=what, path=path)
    return whole


def store_of(path: str) -> Store:
    """The store that a whole path lies in."""
    return _LOCAL if path.startswith("/") else _objects(root_of(path))


def root_of(path: str) -> str:
    """The scheme and the bucket or container of a whole path; "" on a local disk."""
    return "" if path.startswith("/") else "/".join(path.split("/", 3)[:3])


@cache
def _objects(root: str) -> ObjectStore:
    return ObjectStore.at(root)
