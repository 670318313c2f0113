"""The seen files of a ledger: which files are new, and which folders are already known."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from headrace.autoloader.ledger.ledger import Ledger
from headrace.autoloader.stores.store import FoundFile

_RECORD = """
insert into files (folder, name, size, mtime_ns, found_ms) select ?1, ?2, ?3, ?4, ?5
  where not exists (select 1 from files where folder = ?1 and name = ?2)
"""
_RECORD_VERSION = """
insert into files (folder, name, size, mtime_ns, found_ms) select ?1, ?2, ?3, ?4, ?5
  where not exists (select 1 from files where folder = ?1 and name = ?2 and size = ?3 and mtime_ns = ?4)
"""
_NAMES_AT_ONCE = 20_000

T = TypeVar("T")


class SeenFiles:
    """The files and folders of one ledger, for discovery."""

    def __init__(self, ledger: Ledger) -> None:
        self._db: sqlite3.Connection = ledger.connection

    def folders(self) -> dict[str, int]:
        """Each listed folder, with the modification time (ns) up to which its entries are known; 0 if none."""
        return dict(self._db.execute("select path, mtime_ns from folders order by id"))

    def unknown(self, folder: str, names: Iterable[str]) -> Iterator[str]:
        """Yield those of *names* that were not seen in *folder*."""
        folder_id = self._folder_id(folder)
        for chunk in _batched(names, _NAMES_AT_ONCE):
            rows = self._db.execute(
                "select value from json_each(?) where not exists"
                " (select 1 from files where folder = ? and name = value)",
                (json.dumps(chunk), folder_id),
            )
            yield from [name for (name,) in rows]

    def unknown_or_changed(self, folder: str, found: Iterable[FoundFile]) -> Iterator[FoundFile]:
        """Yield those of *found* that were not seen with this size and time."""
        folder_id = self._folder_id(folder)
        for chunk in _batched(found, _NAMES_AT_ONCE):
            rows = self._db.execute(
                "select key from json_each(?) as given where not exists (select 1 from files where folder = ?"
                " and name = json_extract(given.value, '$[0]') and size = json_extract(given.value, '$[1]')"
                " and mtime_ns = json_extract(given.value, '$[2]'))",
                (json.dumps([(file.name, file.size, file.mtime_ns) for file in chunk]), folder_id),
            )
            yield from [chunk[index] for (index,) in rows]

    def record(
        self,
        found: Sequence[tuple[str, FoundFile]],
        listed: dict[str, int],
        *,
        now_ms: int,
        allow_overwrites: bool,
    ) -> int:
        """Number files (pairs of folder and file) in the given order, and record the times of listed folders.

        A file that another process has recorded meanwhile keeps its number. A ledger has each identity once: the path,
        or with *allow_overwrites* the path, size and time.

        Returns:
            The number of new files.
        """
        self._db.execute("begin immediate")
        try:
            ids = {folder: self._create_folder(folder) for folder in {f for f, _ in found} | listed.keys()}
            before = self._db.total_changes
            self._db.executemany(
                _RECORD_VERSION if allow_overwrites else _RECORD,
                [(ids[folder], file.name, file.size, file.mtime_ns, now_ms) for folder, file in found],
            )
            new = self._db.total_changes - before
            self._db.executemany(
                "update folders set mtime_ns = ? where id = ?",
                [(mtime_ns, ids[folder]) for folder, mtime_ns in listed.items()],
            )
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")
        return new

    def _folder_id(self, folder: str) -> int | None:
        row = self._db.execute("select id from folders where path = ?", (folder,)).fetchone()
        return None if row is None else int(row[0])

    def _create_folder(self, folder: str) -> int:
        self._db.execute("insert or ignore into folders (path, mtime_ns) values (?, 0)", (folder,))
        return int(self._db.execute("select id from folders where path = ?", (folder,)).fetchone()[0])


def _batched(entries: Iterable[T], chunk_size: int) -> Iterator[list[T]]:
    batch: list[T] = []
    for entry in entries:
        batch.append(entry)
        if len(batch) == chunk_size:
            yield batch
            batch = []
    if batch:
        yield batch
