"""A connection to a ledger that says by name what is the matter with the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from headrace.errors import PipelineError

# Seconds for which a writer waits for another; the lease of an update makes that one a stopped process at most.
BUSY_S = 30.0
# How SQLite says that a file is none of its own, or none that a ledger was written into.
_NOT_A_LEDGER = ("no such table", "no such column", "not a database", "malformed", "file is encrypted")
# A file up to this size is looked through when it is opened, which takes some milliseconds.
_LOOKED_THROUGH_BYTES = 8 * 1024 * 1024


class _Cursor(sqlite3.Cursor):
    """Rows, read as they are asked for."""

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        return self._named(super().execute, sql, parameters)

    def executemany(self, sql: str, parameters: Any) -> Any:
        return self._named(super().executemany, sql, parameters)

    def executescript(self, sql: str) -> Any:
        return self._named(super().executescript, sql)

    def fetchone(self) -> Any:
        return self._named(super().fetchone)

    def __next__(self) -> Any:
        return self._named(super().__next__)

    def _named(self, call: Callable[..., Any], *arguments: Any) -> Any:
        with naming(cast("_Connection", self.connection).file):
            return call(*arguments)


class _Connection(sqlite3.Connection):
    """A connection whose errors name the file."""

    file: Path

    def cursor(self, factory: Any = _Cursor) -> Any:
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any) -> Any:
        return self.cursor().executemany(sql, parameters)

    def executescript(self, sql: str) -> Any:
        return self.cursor().executescript(sql)


def connected(file: Path, mode: str) -> sqlite3.Connection:
    """A connection to a ledger's file; *mode* is one of SQLite's: ``ro``, ``rw``, ``rwc``.

    All that is asked through it raises PipelineError: ``AUTO_LOADER.LEDGER_DAMAGED`` where the file is no ledger, or no
    whole one; ``AUTO_LOADER.LEDGER_FAILS`` where it cannot be had now.
    """
    address = f"{file.absolute().as_uri()}?mode={mode}"
    with naming(file):
        connection = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None, factory=_Connection)
    connection.file = file
    return connection


def check_whole(connection: sqlite3.Connection, file: Path) -> set[str]:
    """Look at a file that was there before; the names of its tables.

    Raises:
        PipelineError: ``AUTO_LOADER.LEDGER_DAMAGED``: it is empty, was cut off, or is something else.
    """
    # Reads the first page and compares its page count with the size of the file.
    names = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
    missing = {"about", "folders", "files", "commits"} - names
    if missing:
        raise damaged(file, f"it has no table {', '.join(sorted(missing))}")
    if file.stat().st_size <= _LOOKED_THROUGH_BYTES:
        found = [text for (text,) in connection.execute("pragma quick_check(1)")]
        if found != ["ok"]:
            raise damaged(file, found[0])
    return names


def damaged(file: Path, reason: str) -> PipelineError:
    """The problem of a file that is no whole ledger."""
    return PipelineError("AUTO_LOADER.LEDGER_DAMAGED", file=file, reason=reason)


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Raises what SQLite says as a problem of the ledger."""
    try:
        yield
    except sqlite3.Error as error:
        reason = str(error)
        if not isinstance(error, sqlite3.OperationalError) or any(text in reason for text in _NOT_A_LEDGER):
            raise damaged(file, reason) from error
        raise PipelineError("AUTO_LOADER.LEDGER_FAILS", file=file, reason=reason) from error
