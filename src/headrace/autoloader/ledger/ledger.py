"""The ledger of a file stream: which files were seen, in which order they are read, and what was committed.

The ledger is a SQLite file: it opens in constant time, survives a kill at any instruction, and can be read while it is
written. Each file gets a number when it is found. A stream's offset is the ledger's id and the number up to which the
stream has read. So a repeated batch has the same files, and the offset of a deleted checkpoint matches only its own
ledger.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from headrace.autoloader.ledger.connection import BUSY_S, check_integrity, connect
from headrace.errors import PipelineError

SUFFIX = ".ledger"
# Note: the number after which the stream began to read.
FIRST_NUMBER = "first_number"
# Note: the number up to which files were found before the project was moved.
MOVED_UPTO = "moved_upto"
SCHEMA = """
create table if not exists about (key text primary key, value) without rowid;
create table if not exists folders (
  id integer primary key, path text not null unique, mtime_ns integer not null);
create table if not exists files (
  number integer primary key autoincrement, folder integer not null, name text not null,
  size integer not null, mtime_ns integer not null, found_ms integer not null);
create index if not exists files_by_name on files (folder, name);
create table if not exists commits (number integer primary key, committed_ms integer not null);
create table if not exists cleaned (
  number integer primary key, cleaned_ms integer not null, moved_to text) without rowid;
"""
CHANGED = """
create {} table if not exists changed (
  number integer primary key, size integer not null, mtime_ns integer not null, noticed_ms integer not null)
"""
ID = "id"


@dataclass(frozen=True)
class SeenFile:
    """A file as it was when it was found: full path, size in bytes, modification time in nanoseconds."""

    number: int
    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Backlog:
    """The files after a number of a ledger, their bytes, and when the first was found; None without files."""

    files: int
    size: int
    oldest_found_ms: int | None = None


class Ledger:
    """An open ledger. One process can write while others read."""

    def __init__(self, file: Path, connection: sqlite3.Connection, place: str = "") -> None:
        """``place`` is where the ledger is, if the file is a copy of it."""
        self.file = file
        self.place = place or str(file)
        self.id = file.name.removesuffix(SUFFIX)
        self.connection = connection
        # Each commit must reach the disk, because the offset that names its files does.
        self.connection.execute("pragma synchronous = full")

    @classmethod
    def create(cls, root: Path) -> Ledger:
        """Create a ledger with a unique id."""
        root.mkdir(parents=True, exist_ok=True)
        file = root / f"{uuid4().hex}{SUFFIX}"
        ledger = cls(file, connect(file, "rwc"))
        # With a write-ahead log, readers never wait.
        ledger.connection.execute("pragma journal_mode = wal")
        ledger.connection.executescript(SCHEMA)
        ledger.connection.execute(CHANGED.format(""))
        ledger.set_note(ID, ledger.id)
        return ledger

    @classmethod
    def open(cls, root: Path, ledger_id: str, *, read_only: bool = False) -> Ledger:
        """Open the ledger that an offset names.

        Raises:
            PipelineError: ``AUTO_LOADER.LEDGER_MISSING``: it is not below *root*; ``AUTO_LOADER.LEDGER_DAMAGED``,
                ``AUTO_LOADER.LEDGER_FAILS``: it cannot be read; ``AUTO_LOADER.LEDGER_OF_ANOTHER``: the file is a copy
                of another ledger.
        """
        file = root / f"{ledger_id}{SUFFIX}"
        if not file.is_file():
            raise PipelineError("AUTO_LOADER.LEDGER_MISSING", ledger=ledger_id, root=str(root))
        connection = connect(file, "ro" if read_only else "rw")
        try:
            names = check_integrity(connection, file)
            ledger = cls(file, connection)
            if "changed" not in names:
                # A ledger of version 0.1 has no such table; if it is read-only, a temporary one is used.
                connection.execute(CHANGED.format("temp" if read_only else ""))
            ledger._check_id(can_write=not read_only)
        except PipelineError:
            connection.close()
            raise
        return ledger

    def _check_id(self, *, can_write: bool) -> None:
        """Refuse another ledger under this name. A ledger of version 0.1 has no id, and gets one."""
        stored_id = self.get_note(ID)
        if stored_id is None and can_write:
            self.set_note(ID, self.id)
        elif stored_id not in (None, self.id):
            raise PipelineError("AUTO_LOADER.LEDGER_OF_ANOTHER", file=self.file, ledger=stored_id)

    def flush(self) -> None:
        """Move the write-ahead log into the ledger's file, so that a copy of that file is complete.

        An older copy that is restored then meets no newer log. This does not wait for readers: while there are some,
        the log stays until the next flush.
        """
        self.connection.execute("pragma busy_timeout = 0").fetchone()
        self.connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        self.connection.execute(f"pragma busy_timeout = {int(BUSY_S * 1000)}").fetchone()

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def remove(self) -> None:
        """Delete a ledger that no offset names."""
        self.close()
        for file in self.file.parent.glob(f"{self.file.name}*"):
            file.unlink(missing_ok=True)

    @property
    def last_number(self) -> int:
        """The highest number ever given to a file, 0 if none; pruned files keep their numbers used."""
        row = self.connection.execute("select seq from sqlite_sequence where name = 'files'").fetchone()
        return 0 if row is None else int(row[0])

    def files(self, after: int, upto: int) -> list[SeenFile]:
        """The files with numbers above *after* and at most *upto*, in order."""
        rows = self.connection.execute(
            "select number, path, name, size, files.mtime_ns from files join folders on folders.id = folder"
            " where number > ? and number <= ? order by number",
            (after, upto),
        )
        return [
            SeenFile(number, join_path(folder, name), size, mtime_ns) for number, folder, name, size, mtime_ns in rows
        ]

    def end_of_batch(self, after: int, last: int, *, max_files: int | None, max_bytes: int | None) -> int:
        """The last number of the batch that begins after *after*, at most *last*.

        The batch has at most *max_files* files. It ends with the file that reaches *max_bytes*.
        """
        if max_files is not None:
            row = self.connection.execute(
                "select max(number) from (select number from files where number > ? order by number limit ?)",
                (after, max_files),
            ).fetchone()
            last = min(last, row[0] if row[0] is not None else after)
        if max_bytes is not None:
            total = 0
            rows = self.connection.execute(
                "select number, size from files where number > ? and number <= ? order by number", (after, last)
            )
            for number, size in rows:
                total += size
                if total >= max_bytes:
                    return int(number)
        return last

    def backlog(self, after: int) -> Backlog:
        """Count the files, and their bytes, after a number, and find the oldest."""
        row = self.connection.execute(
            "select count(*), coalesce(sum(size), 0), min(found_ms) from files where number > ?", (after,)
        ).fetchone()
        return Backlog(*row)

    @property
    def first_number(self) -> int:
        """Files up to this number existed at the start and are excluded."""
        return int(self.get_note(FIRST_NUMBER) or 0)

    def record_commit(self, upto: int, *, now_ms: int) -> None:
        """Record that all files up to a number are in the target.

        Commit times in the future, from a clock that was ahead, become now, so that these files are cleaned up in time.
        """
        self.connection.execute("update commits set committed_ms = ?1 where committed_ms > ?1", (now_ms,))
        self.connection.execute("insert or ignore into commits values (?, ?)", (upto, now_ms))

    def get_note(self, key: str) -> str | None:
        """A note of the ledger, such as the time of the last full listing; None if it is not set."""
        row = self.connection.execute("select value from about where key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def set_note(self, key: str, value: str) -> None:
        """Set a note of the ledger."""
        self.connection.execute("insert or replace into about values (?, ?)", (key, value))


def join_path(folder: str, name: str) -> str:
    """The path of a file."""
    return os.path.join(folder, name)  # noqa: PTH118 - a path of a local disk or a key of a store, kept as text
