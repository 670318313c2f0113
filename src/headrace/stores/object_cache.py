"""Contents of objects on this machine's disk, so that an object that did not change is not fetched again.

An entry is used only if a listing of its bucket shows the same tag, size and time as when it was kept. So an older
entry, or one of another storage, is never taken for the object that is there now. Whatever is wrong with the file costs
requests, never answers: it is removed and filled again.
"""

from __future__ import annotations

import logging
import sqlite3
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

_FORMAT = 1
_TABLE = """
CREATE TABLE IF NOT EXISTS objects (
  folder TEXT, name TEXT, stamp TEXT, checksum INTEGER, content BLOB, PRIMARY KEY (folder, name)
) WITHOUT ROWID
"""
# Of one object; a checkpoint of a table with millions of files is read where it is.
MAX_BYTES = 64 << 20
# How long another process may hold the file while it writes.
_BUSY_TIMEOUT_S = 2.0
_LOGGER = logging.getLogger(__name__)


class ObjectCache:
    """Contents by folder and name, each with the stamp of the object that it was.

    Changes are written by :meth:`close`, in one transaction. Not for several threads.

    Args:
        file: the database; None keeps nothing.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._known: dict[str, dict[str, tuple[str, int, bytes]]] = {}
        self._new: dict[tuple[str, str], tuple[str, bytes]] = {}
        self._gone: set[tuple[str, str]] = set()

    def content(self, folder: str, name: str, stamp: str) -> bytes | None:
        """The content that an object had with a stamp; None if it is not known."""
        if (folder, name) in self._new:
            kept, content = self._new[folder, name]
            return content if kept == stamp else None
        kept, checksum, content = self._entries(folder).get(name, ("", 0, b""))
        return content if kept == stamp and zlib.crc32(content) == checksum else None

    def names(self, folder: str) -> frozenset[str]:
        """The names in a folder of which something is kept."""
        known = {name for name in self._entries(folder) if (folder, name) not in self._gone}
        return frozenset(known | {name for of, name in self._new if of == folder})

    def keep(self, folder: str, name: str, stamp: str, content: bytes) -> None:
        """Keep the content of an object."""
        if self._file is not None and stamp and len(content) <= MAX_BYTES:
            self._new[folder, name] = (stamp, content)
            self._gone.discard((folder, name))

    def forget(self, folder: str, names: Iterable[str]) -> None:
        """Remove entries."""
        for name in names:
            self._new.pop((folder, name), None)
            self._gone.add((folder, name))

    def close(self) -> None:
        """Write what is new."""
        if self._new or self._gone:
            self._within(self._write)
        self._known.clear()
        self._new.clear()
        self._gone.clear()

    def _write(self, database: sqlite3.Connection) -> None:
        with database:
            database.executemany("DELETE FROM objects WHERE folder = ? AND name = ?", sorted(self._gone))
            rows = ((*key, stamp, zlib.crc32(content), content) for key, (stamp, content) in self._new.items())
            database.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", rows)

    def _entries(self, folder: str) -> dict[str, tuple[str, int, bytes]]:
        if folder not in self._known:
            self._known[folder] = {}
            if self._file is not None and self._file.exists():
                self._within(lambda database: self._load(database, folder))
        return self._known[folder]

    def _load(self, database: sqlite3.Connection, folder: str) -> None:
        rows = database.execute("SELECT name, stamp, checksum, content FROM objects WHERE folder = ?", (folder,))
        self._known[folder] = {name: (stamp, checksum, content) for name, stamp, checksum, content in rows}

    def _within(self, use: Callable[[sqlite3.Connection], None]) -> None:
        """Use the database. It is removed if it is damaged, or was made by another version."""
        if self._file is None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            # Logs of tables have values of their columns.
            self._file.touch(mode=0o600)
            with closing(sqlite3.connect(self._file, timeout=_BUSY_TIMEOUT_S)) as database:
                (version,) = database.execute("PRAGMA user_version").fetchone()
                if version in (0, _FORMAT):
                    database.execute(_TABLE)
                    database.execute(f"PRAGMA user_version = {_FORMAT}")
                    use(database)
                    return
            _LOGGER.info("the cache of objects %s has the format %s and is made again", self._file, version)
            self._remove()
        except sqlite3.OperationalError as error:
            # It is locked, or its disk is full or cannot be written.
            _LOGGER.info("the cache of objects %s was not used: %s", self._file, error)
        except (sqlite3.DatabaseError, OSError) as error:
            _LOGGER.info("the cache of objects %s is made again: %s", self._file, error)
            self._remove()

    def _remove(self) -> None:
        for ending in ("", "-journal"):
            try:
                Path(f"{self._file}{ending}").unlink(missing_ok=True)
            except OSError as error:
                _LOGGER.info("the cache of objects %s cannot be removed: %s", self._file, error)
