"""When a script with streams ends: after a time, once they have nothing to do, or when somebody asks."""

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

_LOOK_EVERY_S = 0.2
_GRACE_S = 10.0
_SAME_LINE_S = 2.0
_WAITS = re.compile(r"sleep|wait|join|acquire|input")
_WAITING = frozenset(("awaitTermination", "awaitAnyTermination"))


class Stopped(KeyboardInterrupt):
    """SIGTERM: a service manager ends what goes on."""


@dataclass(frozen=True)
class Limits:
    """How long streams go on: *for_s* seconds, or until none has anything to do, or whichever comes first."""

    for_s: float | None = None
    until_idle: bool = False


@dataclass
class Ending:
    """Ends the streaming queries of a script; its threads end with the process."""

    ready: NotebookSession
    limits: Limits
    # True once the time was up, or nothing was left to do, and queries were told to end.
    ended: bool = False
    _over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Begin to watch; the time begins now."""
        for wanted, target in ((self.limits.for_s is not None, self._time), (self.limits.until_idle, self._idle)):
            if wanted:
                threading.Thread(target=target, name="headrace-ending", daemon=True).start()

    def script_ended(self) -> None:
        """Note that the script's own code is done, and that only its queries go on."""
        self._over.set()

    def wait(self) -> None:
        """Wait until no query runs."""
        while self.goes_on:
            time.sleep(_LOOK_EVERY_S)

    @property
    def goes_on(self) -> bool:
        """True while a query runs."""
        return any(_active(started.query) for started in self.ready.queries)

    def stop_all(self) -> None:
        """End all queries: batches that end within the grace time commit, the others are interrupted."""
        stop_gracefully([started.query for started in self.ready.queries], _GRACE_S)

    def _time(self) -> None:
        time.sleep(self.limits.for_s or 0.0)
        self.ended = True
        self.stop_all()
        if not self._over.wait(_GRACE_S):
            # A script that waits for something else than its queries.
            _thread.interrupt_main()
        while True:
            self.stop_all()
            time.sleep(_LOOK_EVERY_S)

    def _idle(self) -> None:
        main = _MainThread(self._over)
        while True:
            time.sleep(_LOOK_EVERY_S)
            queries = [started.query for started in self.ready.queries if _active(started.query)]
            if queries and main.waits() and _nothing_left(queries) and main.waits():
                self.ended = True
                stop_gracefully(queries, _GRACE_S)


def stop_gracefully(queries: Sequence[Any], stop_timeout_s: float) -> None:
    """End queries, each between two batches if one ends within *stop_timeout_s* seconds."""
    until = time.monotonic() + stop_timeout_s
    left = [query for query in queries if _active(query)]
    while left:
        for query in tuple(left):
            if time.monotonic() >= until or not query.status["isTriggerActive"]:
                with suppress(Exception):
                    query.stop()
            if not _active(query):
                left.remove(query)
        time.sleep(0.02)


def _nothing_left(queries: Sequence[Any]) -> bool:
    """True when each query has looked at its sources once and none has found anything meanwhile."""
    before = [_batches(query) for query in queries]
    for query in queries:
        try:
            query.processAllAvailable()
        except Exception:  # noqa: BLE001 - it has failed, or it is of a kind that never has nothing to do
            return False
    return before == [_batches(query) for query in queries]


def _batches(query: Any) -> tuple[Any, ...]:
    return tuple(progress["batchId"] for progress in query.recentProgress if progress["durationMs"].get("addBatch"))


def _active(query: Any) -> bool:
    with suppress(Exception):
        return bool(query.isActive)
    return False


@dataclass
class _MainThread:
    """Tells whether the script waits: for its queries, or at the same line of its own for a while."""

    over: threading.Event
    _line: tuple[str, int] = ("", 0)
    _since: float = field(default_factory=time.monotonic)

    def waits(self) -> bool:
        """True when the script's own code is done, or does nothing but wait."""
        if self.over.is_set():
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
        return _waits_at(*line) and time.monotonic() - self._since >= _SAME_LINE_S


def _waits_at(file: str, number: int) -> bool:
    """True for a line that waits, such as ``time.sleep(60)``; false for one that is at work, such as a request."""
    text = linecache.getline(file, number)
    return "py4j" not in file and (not text or _WAITS.search(text) is not None)
