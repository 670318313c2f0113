"""The files that two versions of a table do not share, and some files of a version as a table that delta-rs reads.

A file that both versions have, with the same deletion vector, has the same rows in both. It need not be read.

Source: PROTOCOL.md of Delta, "Add File and Remove File", "Deletion Vectors".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from deltalake import DeltaTable

from headrace.delta_log.table_files import LiveFile, is_outside, live_adds, live_file
from headrace.stores.paths import storage_path

_DELETIONS = ["deletionVectors"]
_PROTOCOL = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": _DELETIONS, "writerFeatures": _DELETIONS}
_IDENTITY = ("storageType", "pathOrInlineDv", "offset")


@dataclass(frozen=True)
class VersionFiles:
    """The files of a version of a table.

    Attributes:
        path: of the table.
        files: all of them.
        adds: the actions ``add`` of those that the other version has not.
    """

    path: str
    files: tuple[LiveFile, ...]
    adds: tuple[Mapping[str, Any], ...]

    @property
    def differing(self) -> tuple[LiveFile, ...]:
        """The files that the other version has not."""
        return tuple(live_file(add, self.path) for add in self.adds)


def differing_files(path: str, first: int, second: int) -> tuple[VersionFiles, VersionFiles]:
    """The files of two versions of a table.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, if the log is incomplete.
    """
    adds = [{_identity(add): add for add in live_adds(path, version)} for version in (first, second)]
    one, other = (
        VersionFiles(
            path,
            tuple(live_file(add, path) for add in adds[side].values()),
            tuple(add for name, add in adds[side].items() if name not in adds[1 - side]),
        )
        for side in (0, 1)
    )
    return one, other


def rows_of(files: Iterable[LiveFile]) -> int | None:
    """The rows of files without deleted ones; None if the log does not say."""
    rows = 0
    for file in files:
        if file.rows is None:
            return None
        rows += file.rows - file.deleted_rows
    return rows


def are_within(files: Iterable[LiveFile]) -> bool:
    """Whether all files are in the folder of their table, as those of a clone are not."""
    names = [name for file in files for name in (file.path, file.vector) if name]
    return not any(is_outside(name) or ".." in PurePosixPath(name).parts for name in names)


@contextmanager
def table_of_files(version: VersionFiles, schema: str) -> Iterator[DeltaTable]:
    """A table whose rows are those of the files that the other version has not.

    The table has the files themselves by links, or copies of those in a bucket, and ends with the context. It is not
    partitioned, and its columns are found by their names.

    Args:
        version: has the files; they are within the folder of the table.
        schema: the columns, as JSON.

    Raises:
        DeltaError, OSError: a file is missing, or cannot be read.
    """
    with TemporaryDirectory(prefix="headrace-diff-") as folder:
        for file in version.differing:
            for name in filter(None, (file.path, file.vector)):
                _provide(version.path, name, Path(folder))
        log = Path(folder, "_delta_log")
        log.mkdir()
        added = [_added(add, file) for add, file in zip(version.adds, version.differing, strict=True)]
        actions = [{"protocol": _PROTOCOL}, {"metaData": _metadata(schema)}, *added]
        (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
        yield DeltaTable(folder)


def _identity(add: Mapping[str, Any]) -> tuple[Any, ...]:
    vector = add.get("deletionVector") or {}
    return (add["path"], *(vector.get(name) for name in _IDENTITY))


def _provide(table: str, name: str, folder: Path) -> None:
    source, target = storage_path(table) / name, folder / name
    if target.exists():
        # Deletion vectors of several files are in one.
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(source, Path):
        target.symlink_to(source.resolve(strict=True))
    else:
        target.write_bytes(source.read_bytes())


def _metadata(schema: str) -> dict[str, Any]:
    form = {"provider": "parquet", "options": {}}
    return {"id": "diff", "format": form, "schemaString": schema, "partitionColumns": [], "configuration": {}}


def _added(add: Mapping[str, Any], file: LiveFile) -> dict[str, Any]:
    # Without statistics, by which files could be left out.
    found = {"path": quote(file.path), "size": file.size, "partitionValues": {}}
    found |= {"modificationTime": 0, "dataChange": True}
    vector = {name: value for name, value in (add.get("deletionVector") or {}).items() if value is not None}
    return {"add": {**found, "deletionVector": vector} if vector else found}
