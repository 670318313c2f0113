"""Spark's log without secrets: the JVM's output passes through this process before it reaches the file.

Spark logs errors of tasks and output of Python workers, which may contain secrets.
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
# A process that opens one project after the other keeps the redactors of the last ones only.
_MAX_REDACTORS = 16
# The log pattern is Spark's own. The settings are those of the whole JVM, so that they name no file.
LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""
# The process has one JVM, so that its redactors apply to the whole process.
_redactors: deque[Callable[[str], str]] = deque(maxlen=_MAX_REDACTORS)


def redact_log(redact: Callable[[str], str]) -> None:
    """Apply *redact* to all lines that the JVM prints from now on."""
    if redact not in _redactors:
        _redactors.append(redact)


@contextmanager
def log_pipe(file: Path) -> Iterator[int]:
    """A file descriptor for a child process's output; its lines are copied to *file* while the child lives."""
    reading, writing = os.pipe()
    copy_log(file, reading)
    try:
        yield writing
    finally:
        # The child has its own copy.
        os.close(writing)


def copy_log(file: Path, reading: int) -> None:
    """Copy what arrives at a file descriptor to *file*, in a thread, until the other end is closed."""
    LogWriter(file, os.fdopen(reading, "rb")).start()


class LogWriter:
    """Copies lines to a file with log rotation: a large file is renamed, and a few older ones are kept."""

    def __init__(self, file: Path, lines: IO[bytes], largest_bytes: int = _LARGEST_BYTES) -> None:
        self._file = file
        self._lines = lines
        self._largest_bytes = largest_bytes
        self._out: IO[bytes] | None = None

    def start(self) -> None:
        """Copy in a thread until the other end is closed."""
        threading.Thread(target=self.copy, name="headrace-spark-log", daemon=True).start()

    def copy(self) -> None:
        """Copy until the other end is closed; a full disk loses lines, but does not stop Spark."""
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
                self._rotate()
            self._out = self._file.open("ab", buffering=0)
        self._out.write(line)

    def _rotate(self) -> None:
        for number in range(_KEPT_FILES, 0, -1):
            older = self._file if number == 1 else self._file.with_name(f"{self._file.name}.{number - 1}")
            with suppress(FileNotFoundError):
                older.replace(self._file.with_name(f"{self._file.name}.{number}"))


def _redacted(line: bytes) -> bytes:
    text = line.decode("utf-8", "surrogateescape")
    for redact in tuple(_redactors):
        text = redact(text)
    return text.encode("utf-8", "surrogateescape")
