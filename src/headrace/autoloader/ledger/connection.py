"""A connection to a ledger that translates SQLite's errors into ones that name the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from headrace.errors import PipelineError

# Seconds a writer waits for another. Because of the update's lease, that can only be a stopped process.
BUSY_S = 30.0
# Parts of SQLite's messages for a file that is not a database, or not a ledger.
_NOT_A_LEDGER = ("no such table", "no such column", "not a database", "malformed", "file is encrypted")
# A file up to this size is checked completely when it is opened, which takes some milliseconds.
_INTEGRITY_CHECK_BYTES = 8 * 1024 * 1024


class _Cursor(sqlite3.Cursor):
    """A cursor whose errors name the file."""

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        return self._translated(super().execute, sql, parameters)

    def executemany(self, sql: str, parameters: Any) -> Any:
        return self._translated(super().executemany, sql, parameters)

    def executescript(self, sql: str) -> Any:
        return self._translated(super().executescript, sql)

    def fetchone(self) -> Any:
        return self._translated(super().fetchone)

    def __next__(self) -> Any:
        return self._translated(super().__next__)

    def _translated(self, call: Callable[..., Any], *arguments: Any) -> Any:
        with translating_errors(cast("_Connection", self.connection).file):
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


def connect(file: Path, mode: str) -> sqlite3.Connection:
    """Connect to a ledger's file; *mode* is one of SQLite's: ``ro``, ``rw``, ``rwc``.

    All calls on the connection raise PipelineError: ``AUTO_LOADER.LEDGER_DAMAGED`` if the file is not a complete
    ledger, ``AUTO_LOADER.LEDGER_FAILS`` if it cannot be accessed now.
    """
    address = f"{file.absolute().as_uri()}?mode={mode}"
    with translating_errors(file):
        connection = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None, factory=_Connection)
    connection.file = file
    return connection


def check_integrity(connection: sqlite3.Connection, file: Path) -> set[str]:
    """Check an existing ledger and return the names of its tables.

    Raises:
        PipelineError: ``AUTO_LOADER.LEDGER_DAMAGED``: it is empty, truncated or not a ledger.
    """
    # Reads the first page and compares its page count with the size of the file.
    names = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
    missing = {"about", "folders", "files", "commits"} - names
    if missing:
        raise damaged_error(file, f"it has no table {', '.join(sorted(missing))}")
    if file.stat().st_size <= _INTEGRITY_CHECK_BYTES:
        found = [text for (text,) in connection.execute("pragma quick_check(1)")]
        if found != ["ok"]:
            raise damaged_error(file, found[0])
    return names


def damaged_error(file: object, reason: str) -> PipelineError:
    """The error for a file that is not a complete ledger."""
    return PipelineError("AUTO_LOADER.LEDGER_DAMAGED", file=file, reason=reason)


@contextmanager
def translating_errors(file: Path) -> Iterator[None]:
    """Translate SQLite's errors into errors of the ledger."""
    try:
        yield
    except sqlite3.Error as error:
        reason = str(error)
        if not isinstance(error, sqlite3.OperationalError) or any(text in reason for text in _NOT_A_LEDGER):
            raise damaged_error(file, reason) from error
        raise PipelineError("AUTO_LOADER.LEDGER_FAILS", file=file, reason=reason) from error
