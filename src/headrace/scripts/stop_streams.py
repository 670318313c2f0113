"""Stops the streams of a script: after a time, when they are idle, or on request."""

from __future__ import annotations

import _thread
import linecache
import re
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headrace.spark.notebook.notebook_session import NotebookSession

_POLL_INTERVAL_S = 0.2
_STOP_TIMEOUT_S = 10.0
_SAME_LINE_S = 2.0
_WAITING_CALLS = re.compile(r"sleep|wait|join|acquire|input")
_WAITING = frozenset(("awaitTermination", "awaitAnyTermination"))


class Stopped(KeyboardInterrupt):
    """SIGTERM: a service manager stops the script."""


@dataclass(frozen=True)
class Limits:
    """How long streams run: *for_s* seconds, or until all are idle, whichever comes first."""

    for_s: float | None = None
    until_idle: bool = False


@dataclass
class QueryStopper:
    """Stops the streaming queries of a script; its threads end with the process."""

    notebook_session: NotebookSession
    limits: Limits
    # True once it has stopped the queries, because the time was up or all were idle.
    has_stopped: bool = False
    _script_done: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Start watching; the time limit starts now."""
        for wanted, target in (
            (self.limits.for_s is not None, self._stop_after_time),
            (self.limits.until_idle, self._stop_when_idle),
        ):
            if wanted:
                threading.Thread(target=target, name="headrace-ending", daemon=True).start()

    def note_script_end(self) -> None:
        """Record that the script's own code is done, and only its queries run."""
        self._script_done.set()

    def wait(self) -> None:
        """Wait until no query runs."""
        while self.is_running:
            time.sleep(_POLL_INTERVAL_S)

    @property
    def is_running(self) -> bool:
        """True while a query runs."""
        return any(_is_active(started.query) for started in self.notebook_session.queries)

    def stop_all(self) -> None:
        """Stop all queries: batches that finish within the stop timeout commit, the others are interrupted."""
        stop_gracefully([started.query for started in self.notebook_session.queries], _STOP_TIMEOUT_S)

    def _stop_after_time(self) -> None:
        time.sleep(self.limits.for_s or 0.0)
        self.has_stopped = True
        self.stop_all()
        if not self._script_done.wait(_STOP_TIMEOUT_S):
            # The script waits for something other than its queries.
            _thread.interrupt_main()
        while True:
            self.stop_all()
            time.sleep(_POLL_INTERVAL_S)

    def _stop_when_idle(self) -> None:
        main = _MainThread(self._script_done)
        while True:
            time.sleep(_POLL_INTERVAL_S)
            queries = [started.query for started in self.notebook_session.queries if _is_active(started.query)]
            if queries and main.is_waiting() and _are_idle(queries) and main.is_waiting():
                self.has_stopped = True
                stop_gracefully(queries, _STOP_TIMEOUT_S)


def stop_gracefully(queries: Sequence[Any], stop_timeout_s: float) -> None:
    """Stop queries, each between two batches if its batch ends within *stop_timeout_s* seconds."""
    deadline = time.monotonic() + stop_timeout_s
    running = [query for query in queries if _is_active(query)]
    while running:
        for query in tuple(running):
            if time.monotonic() >= deadline or not query.status["isTriggerActive"]:
                with suppress(Exception):
                    query.stop()
            if not _is_active(query):
                running.remove(query)
        time.sleep(0.02)


def _are_idle(queries: Sequence[Any]) -> bool:
    """True if each query polled its sources once and none found new data meanwhile."""
    before = [_batches(query) for query in queries]
    for query in queries:
        try:
            query.processAllAvailable()
        except Exception:  # noqa: BLE001 - it has failed, or is of a kind that is never idle
            return False
    return before == [_batches(query) for query in queries]


def _batches(query: Any) -> tuple[Any, ...]:
    return tuple(progress["batchId"] for progress in query.recentProgress if progress["durationMs"].get("addBatch"))


def _is_active(query: Any) -> bool:
    with suppress(Exception):
        return bool(query.isActive)
    return False


@dataclass
class _MainThread:
    """Detects whether the script waits: for its queries, or at the same line of its own for a while."""

    script_done: threading.Event
    _line: tuple[str, int] = ("", 0)
    _since: float = field(default_factory=time.monotonic)

    def is_waiting(self) -> bool:
        """True if the script's own code is done, or only waits."""
        if self.script_done.is_set():
            return True
        frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001 - Python's own door
        if frame is None:
            return True
        line = (frame.f_code.co_filename, frame.f_lineno)
        if line != self._line:
            self._line, self._since = line, time.monotonic()
        while frame is not None:
            if frame.f_code.co_name in _WAITING:
                return True
            frame = frame.f_back
        return _is_waiting_line(*line) and time.monotonic() - self._since >= _SAME_LINE_S


def _is_waiting_line(file: str, number: int) -> bool:
    """True for a line that waits, such as ``time.sleep(60)``; False for one that works, such as a request."""
    text = linecache.getline(file, number)
    return "py4j" not in file and (not text or _WAITING_CALLS.search(text) is not None)
