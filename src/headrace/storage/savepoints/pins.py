"""The files of a table version, kept by links: VACUUM and log clean-up then delete names, and not the files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from headrace.delta_log.log_files import newest_checkpoint
from headrace.delta_log.table_files import is_outside, live_files
from headrace.delta_log.tables import commit_file
from headrace.stores.copies import Copied, copy_objects, link_files, sync_folder
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import on_disk, sorted_paths, storage_path

_LOG = "_delta_log"
_LINKING = "linking files"


def version_files(path: str, version: int) -> frozenset[str]:
    """The data files and deletion vectors of a table version, relative to the table.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, if the log no longer has the version.
    """
    return frozenset(name for file in live_files(path, version) for name in (file.path, file.vector) if name)


def log_files(path: str, version: int) -> frozenset[str]:
    """The files of a table's log from which a version can be read, relative to the table."""
    table = storage_path(path)
    log = table / _LOG
    known, parts = newest_checkpoint(log, version)
    found = {f"{_LOG}/{part.name}" for part in parts}
    if parts:
        found |= {f"{_LOG}/_sidecars/{file.name}" for file in sorted_paths((log / "_sidecars").glob("*.parquet"))}
    for number in range(max(known, 0), version + 1):
        name = commit_file(table, number).name
        found |= {f"{_LOG}/{name}"} if (log / name).is_file() else set()
    return frozenset(found)


def pin(path: str, version: int, folder: Path) -> Copied | None:
    """Link all files of a table version below a folder; None if that is not possible.

    That is so for files outside of the table's folder, which a shallow clone has, and on file systems without links.

    Args:
        path: of the table, on a disk.
        version: of the table, which cannot change meanwhile.
        folder: the folder of the links, which is created.

    Raises:
        FileNotFoundError: the table has lost a file.
        PipelineError: STORAGE.TABLE_UNREADABLE.
    """
    data = version_files(path, version)
    if any(map(is_outside, data)):
        return None
    try:
        table = on_disk(storage_path(path), _LINKING)
        copied = _link(table, folder, data)
        _link(table, folder, log_files(path, version))
    except FileNotFoundError:
        raise
    except OSError:
        return None
    return copied


def adopt_version(path: str, version: int, target: str) -> None:
    """Link the data files and deletion vectors of a table version into the folder of another table, under their names.

    In an object store, they are copied. Those that are there stay: the names are unique. Safe to repeat after a crash.

    Raises:
        FileNotFoundError: the table has lost a file.
        OSError: the file system has no hard links, or the store does not answer.
        PipelineError: STORAGE.TABLE_UNREADABLE.
    """
    names, source, folder = version_files(path, version), storage_path(path), storage_path(target)
    if isinstance(source, ObjectPath) and isinstance(folder, ObjectPath):
        copy_objects(source, folder, names)
    else:
        _link(on_disk(source, _LINKING), on_disk(folder, _LINKING), names)


def pinned_files(folder: Path) -> Iterator[str]:
    """The pinned files, relative to the table."""
    for parent, _, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(f"{parent}/{name}", folder)


def put_back(folder: Path, path: str) -> int:
    """Put files of a pinned version back that the table has lost; returns their number. Safe to repeat."""
    missing = [name for name in pinned_files(folder) if not os.path.lexists(f"{path}/{name}")]
    # The log last: without it, nobody takes the folder for a table.
    by_log = sorted(missing, key=lambda name: name.startswith(f"{_LOG}/"))
    for part in ([name for name in by_log if not name.startswith(_LOG)], [n for n in by_log if n.startswith(_LOG)]):
        _link(folder, on_disk(storage_path(path), _LINKING), part)
    return len(missing)


def _link(source: Path, target: Path, names: Iterable[str]) -> Copied:
    wanted = [*names]
    folders = {os.path.dirname(name) for name in wanted}  # noqa: PTH120 - thousands of names
    for folder in sorted(folders):
        (target / folder).mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        return _synced(link_files(source, target, wanted), target, folders)
    # A crash has left some of them.
    left = [name for name in wanted if not os.path.lexists(target / name)]
    return _synced(link_files(source, target, left), target, folders)


def _synced(copied: Copied, target: Path, folders: Iterable[str]) -> Copied:
    for folder in folders:
        sync_folder(target / folder)
    return copied
