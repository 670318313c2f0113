"""The ledger of a stream of files: which were seen, in which order they are read, and what was committed.

A SQLite file, because it opens in the same time whatever it holds, is whole after a kill at any instruction, and lets
others read while it is written. A file gets a number when it is found; a stream's offset is the number up to which it
has read, beside the ledger's id, so that a batch that is made again has the same files, and the offset of a deleted
checkpoint can meet no ledger but its own.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from headrace.autoloader.ledger_connection import BUSY_S, check_whole, connected
from headrace.errors import PipelineError

SUFFIX = ".ledger"
# Notes: the number behind which the reading of files began.
FIRST_NUMBER = "first_number"
# Up to which number files were found where the project was before it was moved.
MOVED_UPTO = "moved_upto"
_SCHEMA = """
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
_CHANGED = """
create {} table if not exists changed (
  number integer primary key, size integer not null, mtime_ns integer not null, noticed_ms integer not null)
"""
_ID = "id"


@dataclass(frozen=True)
class SeenFile:
    """A file as it was when it was found: ``path`` whole, bytes, and nanoseconds of its last change."""

    number: int
    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Extent:
    """What lies between two numbers of a ledger."""

    files: int
    size: int


class Ledger:
    """One ledger, open; a process may have it open for writing while others read it."""

    def __init__(self, file: Path, connection: sqlite3.Connection) -> None:
        self.file = file
        self.id = file.name.removesuffix(SUFFIX)
        self.connection = connection
        # Each commit reaches the disk, because the offset that names its files does.
        self.connection.execute("pragma synchronous = full")

    @classmethod
    def create(cls, root: Path) -> Ledger:
        """A new one, with an id that no other has."""
        root.mkdir(parents=True, exist_ok=True)
        file = root / f"{uuid4().hex}{SUFFIX}"
        ledger = cls(file, connected(file, "rwc"))
        # It is written ahead, so that no reader is kept waiting.
        ledger.connection.execute("pragma journal_mode = wal")
        ledger.connection.executescript(_SCHEMA)
        ledger.connection.execute(_CHANGED.format(""))
        ledger.note(_ID, ledger.id)
        return ledger

    @classmethod
    def open(cls, root: Path, ledger_id: str, *, read_only: bool = False) -> Ledger:
        """The one that an offset names.

        Raises:
            PipelineError: ``AUTO_LOADER.LEDGER_MISSING`` when it is not below *root*; ``AUTO_LOADER.LEDGER_DAMAGED``,
                ``AUTO_LOADER.LEDGER_FAILS`` when it cannot be read; ``AUTO_LOADER.LEDGER_OF_ANOTHER`` when the file
                is a copy of another ledger.
        """
        file = root / f"{ledger_id}{SUFFIX}"
        if not file.is_file():
            raise PipelineError("AUTO_LOADER.LEDGER_MISSING", ledger=ledger_id, root=str(root))
        connection = connected(file, "ro" if read_only else "rw")
        try:
            names = check_whole(connection, file)
            ledger = cls(file, connection)
            if "changed" not in names:
                # One of version 0.1 lacks it; where nothing may be written, it is there for as long as it is open.
                connection.execute(_CHANGED.format("temp" if read_only else ""))
            ledger._check_id(writes=not read_only)
        except PipelineError:
            connection.close()
            raise
        return ledger

    def _check_id(self, *, writes: bool) -> None:
        """Refuse another ledger under this one's name. A ledger of version 0.1 has no id, and gets one."""
        said = self.about(_ID)
        if said is None and writes:
            self.note(_ID, self.id)
        elif said not in (None, self.id):
            raise PipelineError("AUTO_LOADER.LEDGER_OF_ANOTHER", file=self.file, ledger=said)

    def flush(self) -> None:
        """Bring what was written ahead into the file itself, so that a copy of that file alone has it.

        Nothing stays ahead that an older copy, put back beside it, would be read with. Readers are not waited for:
        while there are some, what is ahead stays for the next time.
        """
        self.connection.execute("pragma busy_timeout = 0").fetchone()
        self.connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        self.connection.execute(f"pragma busy_timeout = {int(BUSY_S * 1000)}").fetchone()

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()

    def remove(self) -> None:
        """Delete a ledger that no offset names."""
        self.close()
        for file in self.file.parent.glob(f"{self.file.name}*"):
            file.unlink(missing_ok=True)

    @property
    def last_number(self) -> int:
        """The highest number that a file ever had, 0 when there was none; one that is forgotten leaves its number."""
        row = self.connection.execute("select seq from sqlite_sequence where name = 'files'").fetchone()
        return 0 if row is None else int(row[0])

    def files(self, after: int, upto: int) -> list[SeenFile]:
        """The files with numbers above *after* and at most *upto*, in order."""
        rows = self.connection.execute(
            "select number, path, name, size, files.mtime_ns from files join folders on folders.id = folder"
            " where number > ? and number <= ? order by number",
            (after, upto),
        )
        return [SeenFile(number, joined(folder, name), size, mtime_ns) for number, folder, name, size, mtime_ns in rows]

    def end_of_batch(self, after: int, last: int, *, most_files: int | None, most_bytes: int | None) -> int:
        """The number at which a batch that begins behind *after* ends, at most *last*.

        It has at most *most_files* files, and at most *most_bytes* bytes and then one file.
        """
        if most_files is not None:
            row = self.connection.execute(
                "select max(number) from (select number from files where number > ? order by number limit ?)",
                (after, most_files),
            ).fetchone()
            last = min(last, row[0] if row[0] is not None else after)
        if most_bytes is not None:
            total = 0
            rows = self.connection.execute(
                "select number, size from files where number > ? and number <= ? order by number", (after, last)
            )
            for number, size in rows:
                total += size
                if total >= most_bytes:
                    return int(number)
        return last

    def extent(self, after: int) -> Extent:
        """How many files, and bytes, lie behind a number."""
        row = self.connection.execute(
            "select count(*), coalesce(sum(size), 0) from files where number > ?", (after,)
        ).fetchone()
        return Extent(*row)

    @property
    def first_number(self) -> int:
        """Files up to this number were there before and were left out."""
        return int(self.about(FIRST_NUMBER) or 0)

    def committed(self, upto: int, *, now_ms: int) -> None:
        """Note that everything up to a number is in the target.

        What a clock that was ahead has noted happened by now, so that it is cleaned up when its time has come.
        """
        self.connection.execute("update commits set committed_ms = ?1 where committed_ms > ?1", (now_ms,))
        self.connection.execute("insert or ignore into commits values (?, ?)", (upto, now_ms))

    def about(self, key: str) -> str | None:
        """A note about the whole, such as when everything was last listed."""
        row = self.connection.execute("select value from about where key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def note(self, key: str, value: str) -> None:
        """Keep a note about the whole."""
        self.connection.execute("insert or replace into about values (?, ?)", (key, value))


def joined(folder: str, name: str) -> str:
    """The path of a file."""
    return os.path.join(folder, name)  # noqa: PTH118 - a path of a local disk or a key of a store, kept as text
