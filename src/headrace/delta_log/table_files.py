"""The files of a Delta table: those of its current version, those on disk, and those that a reader may still need."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from headrace.delta_log.log_files import checkpointed_adds, commit_versions, newest_checkpoint, read_actions
from headrace.delta_log.tables import commit_file
from headrace.errors import PipelineError
from headrace.model.local_path import local_path
from headrace.stores.object_path import ObjectPath
from headrace.stores.parallel import in_parallel
from headrace.stores.paths import StoragePath, storage_path

# Not the statistics as columns, which may have times that Python has not.
_COLUMNS = (
    "add.path",
    "add.size",
    "add.partitionValues",
    "add.stats",
    "add.deletionVector",
    "add.tags",
    "sidecar.path",
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_ROWS = re.compile(r'"numRecords"\s*:\s*(\d+)')
_CUBE = "ZCUBE_ID"
_CHANGE_DATA = "_change_data"
_LOG = "_delta_log"
# Anything else in the folder of a table is not Delta's.
_DATA_FILE = re.compile(r".*\.parquet|deletion_vector_[0-9a-f-]{36}\.bin")
# The alphabet of Z85, which writes 4 bytes as 5 letters.
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID_LETTERS = 20
# From so many files on, a bucket is listed, 1,000 objects a request, in place of a request for each file.
_LISTED_FROM = 1_000


@dataclass(frozen=True)
class LiveFile:
    """A file with rows of the current version of a table.

    Attributes:
        path: relative to the table, decoded.
        size: its bytes.
        partition: the partition that it belongs to, as columns and values.
        rows: its rows, deleted ones included; None if unknown.
        deleted_rows: rows that its deletion vector deletes.
        vector: the path of the file with its deletion vector; None without one.
        cube: the group of files that it was clustered with; None if it is not clustered.
    """

    path: str
    size: int
    partition: tuple[tuple[str, str | None], ...] = ()
    rows: int | None = None
    deleted_rows: int = 0
    vector: str | None = None
    cube: str | None = None


@dataclass(frozen=True)
class StoredFile:
    """A data file on disk, whether the table refers to it or not; ``path`` is relative to the table."""

    path: str
    size: int
    modified_s: float


def live_files(path: str, version: int) -> tuple[LiveFile, ...]:
    """The files of a version of a table, from its log.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, if the log is incomplete.
    """
    return tuple(live_file(add, path) for add in live_adds(path, version))


def live_adds(path: str, version: int) -> tuple[Mapping[str, Any], ...]:
    """The actions ``add`` of the files of a version of a table, with what the functions here read of them.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, if the log is incomplete.
    """
    table = storage_path(path)
    log = table / _LOG
    known, parts = newest_checkpoint(log, version)
    adds = {add["path"]: add for part in parts for add in checkpointed_adds(log, part, _COLUMNS)}
    for number in range(known + 1, version + 1):
        actions = _commit(table, number)
        # A file whose deletion vector changes is removed and added again.
        for action in actions:
            if "remove" in action:
                adds.pop(action["remove"]["path"], None)
        adds |= {action["add"]["path"]: action["add"] for action in actions if "add" in action}
    return tuple(adds.values())


def live_file(add: Mapping[str, Any], path: str) -> LiveFile:
    """The file of an action ``add`` of the table at a path."""
    table = storage_path(path)
    rows = _ROWS.search(add.get("stats") or "")
    return LiveFile(
        path=_relative(add["path"], table),
        size=int(add["size"]),
        partition=tuple(sorted(_pairs(add.get("partitionValues")))),
        rows=int(rows[1]) if rows else None,
        deleted_rows=int((add.get("deletionVector") or {}).get("cardinality") or 0),
        vector=_vector(add, table),
        cube=dict(_pairs(add.get("tags"))).get(_CUBE),
    )


def stored_files(path: str, partition_by: Iterable[str] = ()) -> tuple[StoredFile, ...]:
    """The data files, change data files and deletion vectors in the folder of a table.

    Those of another table whose folder is within this one are not among them.
    """
    table = storage_path(path)
    if isinstance(table, ObjectPath):
        return _stored_objects(table)
    found = []
    prefixes = tuple(f"{column}=" for column in partition_by)
    for folder, folders, files in os.walk(path):
        if folder != path and _LOG in (*folders, *files):
            folders.clear()
            continue
        folders[:] = [
            name for name in folders if name == _CHANGE_DATA or name.startswith(prefixes) or name[0] not in "._"
        ]
        for name in filter(_DATA_FILE.fullmatch, files):
            file = Path(folder, name)
            try:
                stat = file.stat()
            except FileNotFoundError:
                continue
            found.append(StoredFile(file.relative_to(path).as_posix(), stat.st_size, stat.st_mtime))
    return tuple(found)


def _stored_objects(table: ObjectPath) -> tuple[StoredFile, ...]:
    below = [
        (meta, meta.key.removeprefix(f"{table.key}/")) for page in table.store.list_pages(table.key) for meta in page
    ]
    others = {name.partition(f"/{_LOG}/")[0] + "/" for _, name in below if f"/{_LOG}/" in name}
    return tuple(
        StoredFile(name, meta.size_bytes, meta.modified_at.timestamp())
        for meta, name in below
        if not name.startswith((f"{_LOG}/", *others)) and _DATA_FILE.fullmatch(name.rpartition("/")[2])
    )


def added_files(add: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """The data file that an action ``add`` of a table names, and its deletion vector, relative to the table."""
    table = storage_path(path)
    vector = _vector(add, table)
    return (_relative(add["path"], table), *([vector] if vector else []))


def missing_files(path: str, names: Collection[str]) -> tuple[str, ...]:
    """Those of the files of a table that do not exist, sorted. Files in other stores are assumed to exist.

    Args:
        path: of the table.
        names: the files, as :attr:`LiveFile.path` and :attr:`LiveFile.vector` are.

    Raises:
        OSError: the store does not answer.
    """
    table = storage_path(path)
    if not isinstance(table, ObjectPath):
        # Many thousands of files: no Path objects.
        return tuple(
            sorted(n for n in names if _SCHEME.match(n) is None and not os.path.lexists(os.path.join(path, n)))  # noqa: PTH118
        )
    own = sorted(name for name in names if not is_outside(name))
    if len(own) >= _LISTED_FROM:
        known = {file.path for file in _stored_objects(table)}
        return tuple(name for name in own if name not in known)
    found = in_parallel(lambda name: (table / name).is_file(), own)
    return tuple(name for name, is_there in zip(own, found, strict=True) if not is_there)


def files_needed_since(path: str, version: int, first: int) -> frozenset[str]:
    """The files that readers of a table need, as paths relative to the table.

    Law: has every file of each version from *first* to *version*, and the change data files of their commits. A file of
    version *first* is either a file of *version*, or a later commit removed it.

    Args:
        path: of the table.
        version: the newest version.
        first: the oldest version that a reader needs.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, if the log has lost one of these commits.
    """
    table = storage_path(path)
    needed = {name for file in live_files(path, version) for name in (file.path, file.vector) if name}
    for number in range(max(first, 0), version + 1):
        for action in _commit(table, number):
            for kind in ("add", "remove", "cdc"):
                if kind in action:
                    needed.add(_relative(action[kind]["path"], table))
                    vector = _vector(action[kind], table)
                    needed |= {vector} if vector else set()
    return frozenset(needed)


def removed_files(path: str, version: int) -> frozenset[str]:
    """The files that the commit of a version removed, with their deletion vectors, as paths relative to the table.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, if the log has lost the commit.
    """
    table = storage_path(path)
    removed = [action["remove"] for action in _commit(table, version) if "remove" in action]
    names = [(_relative(action["path"], table), _vector(action, table)) for action in removed]
    return frozenset(name for pair in names for name in pair if name)


def first_version_since(path: str, version: int, since_s: float) -> int:
    """The oldest version that was committed at or after a time; the version after the newest if there is none."""
    table = storage_path(path)
    recent = (found for found in commit_versions(table / _LOG) if commit_file(table, found).stat().st_mtime >= since_s)
    return min(recent, default=version + 1)


def unordered_files(path: str, files: Iterable[LiveFile], columns: tuple[str, ...]) -> frozenset[str]:
    """The files of a table that were not written by a Z-ordering by these columns, as paths.

    If the log has lost the commit of a file, the file counts as ordered if the log has another such Z-ordering: the
    first one orders all files.
    """
    wanted = [column.casefold() for column in columns]
    table = storage_path(path)
    left = {file.path for file in files}
    unordered: set[str] = set()
    has_ordered = False
    for version in reversed(commit_versions(table / _LOG)):
        actions = _commit(table, version)
        is_ordered = [name.casefold() for name in _z_order(actions)] == wanted
        has_ordered = has_ordered or is_ordered
        added = {_relative(action["add"]["path"], table) for action in actions if "add" in action} & left
        left -= added
        unordered |= set() if is_ordered else added
        if not left:
            break
    return frozenset(unordered if has_ordered else unordered | left)


def _z_order(actions: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns of the Z-ordering that made a commit; empty for any other commit."""
    info: Mapping[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    text = info.get("operationParameters", {}).get("zOrderBy", "[]") if info.get("operation") == "OPTIMIZE" else "[]"
    return re.findall(r'"([^"]*)"', text)


def _commit(table: StoragePath, version: int) -> list[dict[str, Any]]:
    file = commit_file(table, version)
    try:
        return read_actions(file)
    except FileNotFoundError as error:
        raise PipelineError("STORAGE.TABLE_UNREADABLE", path=table, reason=f"{file.name} is missing") from error


def _pairs(found: Any) -> Iterator[tuple[str, Any]]:
    """The entries of a map, which is a list of pairs in Parquet."""
    yield from (found.items() if isinstance(found, Mapping) else found or ())


def is_outside(name: str) -> bool:
    """Whether the path of a file, as the functions here return it, is not within the table's folder."""
    return name.startswith(("/", "../")) or _SCHEME.match(name) is not None


def _relative(path: str, table: StoragePath) -> str:
    """A path of the log, relative to the table; files elsewhere, as those of a clone, keep their absolute path."""
    decoded = local_path(path) if path.startswith("file:") else unquote(path)
    if not is_outside(decoded):
        return os.path.normpath(decoded)
    if decoded.startswith(f"{table}/"):
        return decoded.removeprefix(f"{table}/")
    if not isinstance(table, Path):
        return decoded
    # The writer may have reached the storage through a link, or this process does.
    real, folder = os.path.realpath(decoded), os.path.realpath(table)
    return real.removeprefix(f"{folder}/") if decoded.startswith("/") else decoded


def _vector(action: Mapping[str, Any], table: StoragePath) -> str | None:
    """The file of a deletion vector.

    Source: PROTOCOL.md, "Deletion Vector Descriptor Schema".
    """
    found = action.get("deletionVector") or {}
    kind, text = found.get("storageType"), str(found.get("pathOrInlineDv", ""))
    if kind == "p":
        return _relative(text, table)
    if kind != "u":
        return None
    folder, name = text[:-_UUID_LETTERS], uuid.UUID(bytes=_from_z85(text[-_UUID_LETTERS:]))
    return f"{folder}/deletion_vector_{name}.bin" if folder else f"deletion_vector_{name}.bin"


def _from_z85(text: str) -> bytes:
    decoded = b""
    for start in range(0, len(text), 5):
        value = 0
        for letter in text[start : start + 5]:
            value = value * len(_Z85) + _Z85.index(letter)
        decoded += value.to_bytes(4, "big")
    return decoded
