"""Spark's log, without secrets: what the JVM prints goes through this process before it reaches the file.

Spark logs what tasks raise and what Python workers print, both of which may hold a secret.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_LARGEST_BYTES = 64 * 1024 * 1024
_KEPT_FILES = 3
_LONGEST_LINE_BYTES = 1024 * 1024
# A process that opens one project after the other does not remember the secrets of all of them.
_REMEMBERED = 16
# By pattern as Spark's own; the settings of a JVM, so that they name no file.
LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""
# The JVM is one for the process, and so is what it must not show.
_redactors: deque[Callable[[str], str]] = deque(maxlen=_REMEMBERED)


def keep_out(redact: Callable[[str], str]) -> None:
    """Take what *redact* replaces out of the lines that the JVM prints from now on."""
    if redact not in _redactors:
        _redactors.append(redact)


@contextmanager
def printed_to(file: Path) -> Iterator[int]:
    """A descriptor for a child process to print to; its lines reach *file* for as long as the child lives."""
    reading, writing = os.pipe()
    LogWriter(file, os.fdopen(reading, "rb")).start()
    try:
        yield writing
    finally:
        # The child has its own.
        os.close(writing)


class LogWriter:
    """Copies lines to a file, which is renamed when it becomes large; a few older ones are kept beside it."""

    def __init__(self, file: Path, lines: IO[bytes], largest_bytes: int = _LARGEST_BYTES) -> None:
        self._file = file
        self._lines = lines
        self._largest_bytes = largest_bytes
        self._out: IO[bytes] | None = None

    def start(self) -> None:
        """Copy in a thread until the other side is closed."""
        threading.Thread(target=self.copy, name="headrace-spark-log", daemon=True).start()

    def copy(self) -> None:
        """Copy until the other side is closed; a full disk loses lines, but does not stop Spark."""
        with self._lines as lines:
            while line := lines.readline(_LONGEST_LINE_BYTES):
                with suppress(OSError):
                    self._write(_redacted(line))
        if self._out is not None:
            self._out.close()

    def _write(self, line: bytes) -> None:
        if self._out is None or self._out.tell() >= self._largest_bytes:
            if self._out is not None:
                self._out.close()
                self._out = None
                self._make_room()
            self._out = self._file.open("ab", buffering=0)
        self._out.write(line)

    def _make_room(self) -> None:
        for number in range(_KEPT_FILES, 0, -1):
            older = self._file if number == 1 else self._file.with_name(f"{self._file.name}.{number - 1}")
            with suppress(FileNotFoundError):
                older.replace(self._file.with_name(f"{self._file.name}.{number}"))


def _redacted(line: bytes) -> bytes:
    text = line.decode("utf-8", "surrogateescape")
    for redact in tuple(_redactors):
        text = redact(text)
    return text.encode("utf-8", "surrogateescape")
