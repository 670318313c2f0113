"""The streaming queries of a block: they read all input, are fed more, and stop; the block's text is not changed.

While a block runs, PySpark is patched in two ways: trigger intervals are ignored, to save time; and each started query
is recorded with its trigger, so that its failure is noticed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from types import FrameType
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

_POLL_INTERVAL_S = 0.1
# A block that stays at the same line for this long waits for something, probably for queries that never end.
_SAME_LINE_S = 1.0
_MAX_ROUNDS = 20
_TRIGGER = "_conformance_trigger"
_WAITING = ("awaitTermination", "awaitAnyTermination")


class TookTooLong(Exception):
    """A block exceeded its time limit."""


@dataclass
class Queries:
    """All queries started since tracking began.

    Attributes:
        session: their session.
        started: the queries.
        triggers: the trigger arguments of each query, by run id.
        stopped: names, or ids, of the queries that were stopped and would have run on.
    """

    session: SparkSession
    started: list[StreamingQuery] = field(default_factory=list)
    triggers: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    stopped: list[str] = field(default_factory=list)

    def drain(self) -> None:
        """Wait until all queries are idle, including those that read the output of others."""
        for _ in range(_MAX_ROUNDS):
            before = self._batches()
            for query in self._active():
                # `processAllAvailable` never returns in continuous processing.
                if "continuous" not in self.triggers.get(str(query.runId), {}):
                    with suppress(Exception):
                        query.processAllAvailable()
            if before == self._batches():
                return

    def stop(self) -> None:
        """Stop the active queries."""
        for query in self._active():
            self.stopped.append(query.name or str(query.id))
            with suppress(Exception):
                query.stop()

    def triggers_by_name(self) -> dict[str, dict[str, Any]]:
        """The triggers of the named queries."""
        named = [(query.name, self.triggers[str(query.runId)]) for query in self.started if query.name]
        return {name: dict(trigger) for name, trigger in named}

    def failures(self) -> list[str]:
        """The errors of failed queries."""
        found = [query.exception() for query in self.started if not query.isActive]
        return [str(error) for error in found if error is not None]

    def _active(self) -> list[StreamingQuery]:
        return list(self.session.streams.active)

    def _batches(self) -> list[object]:
        found = [(query.id, query.lastProgress) for query in self._active()]
        return [(id_, None if progress is None else progress["batchId"]) for id_, progress in found]


@contextmanager
def tracked_queries(session: SparkSession) -> Iterator[Queries]:
    """Record the queries that start in the ``with`` block, and stop them at its end."""
    found = Queries(session)
    original_start, original_trigger = DataStreamWriter._sq, DataStreamWriter.trigger  # noqa: SLF001 - where all queries come from

    def recorded_start(self: DataStreamWriter, query: Any) -> StreamingQuery:
        found.started.append(original_start(self, query))
        found.triggers[str(found.started[-1].runId)] = vars(self).get(_TRIGGER, {})
        return found.started[-1]

    @wraps(original_trigger)
    def trigger_without_interval(self: DataStreamWriter, **given: Any) -> DataStreamWriter:
        # Called with the original arguments, for Spark's validation.
        original_trigger(self, **given)
        vars(self)[_TRIGGER] = given
        return (
            original_trigger(self, **{**given, "processingTime": "0 seconds"}) if given.get("processingTime") else self
        )

    changed: Any = DataStreamWriter
    changed._sq, changed.trigger = recorded_start, trigger_without_interval  # noqa: SLF001 - as above
    try:
        yield found
    finally:
        changed._sq, changed.trigger = original_start, original_trigger  # noqa: SLF001 - as above
        found.stop()


def run_until_idle(
    run: Callable[[], None],
    feed: Callable[[], None],
    is_done: Callable[[], bool],
    queries: Queries,
    file: str,
    limit_s: float,
) -> None:
    """Run a block, and its queries until they are idle.

    Args:
        run: the block; it may wait for its queries, which are stopped once they are idle.
        feed: called once, when the queries are idle for the first time.
        is_done: returns true once queries that never become idle may stop.
        queries: the queries of the block.
        file: the file name in the block's stack frames.
        limit_s: the time limit.

    Raises:
        TookTooLong: the time limit was exceeded.
        Exception: any error of the block or of *feed*.
    """
    watcher = _Watcher(feed, is_done, queries, file, limit_s)
    watcher.thread.start()
    watcher.limit.start()
    try:
        run()
        watcher.finish()
    except KeyboardInterrupt:
        if not watcher.timed_out:
            raise
    finally:
        watcher.done.set()
        watcher.limit.cancel()
        watcher.thread.join()
    if watcher.timed_out:
        raise TookTooLong(f"it did not end within {limit_s:g} s")
    if watcher.failed is not None:
        raise watcher.failed


class _Watcher:
    def __init__(
        self, feed: Callable[[], None], is_done: Callable[[], bool], queries: Queries, file: str, limit_s: float
    ) -> None:
        self._feed, self._is_done, self._queries, self._file = feed, is_done, queries, file
        self._deadline = time.monotonic() + limit_s
        self._line, self._since = ("", 0), time.monotonic()
        self._main = threading.main_thread().ident or 0
        self._fed = False
        self.done = threading.Event()
        self.timed_out = False
        self.failed: BaseException | None = None
        self.thread = threading.Thread(target=self._watch, name="conformance-watch", daemon=True)
        # A separate thread: the other may wait for a query that never becomes idle.
        self.limit = threading.Timer(limit_s, self._time_out)

    def finish(self) -> None:
        """Let the queries read all input, feed them once, and stop them."""
        self._queries.drain()
        if not self._fed:
            self._fed = True
            try:
                self._feed()
            except Exception as error:  # noqa: BLE001 - raised again in the block's own thread
                self.failed = error
            self._queries.drain()
            self._wait()
        self._queries.stop()

    def _wait(self) -> None:
        try:
            while not self._is_done():
                if time.monotonic() > self._deadline:
                    raise TookTooLong("what it is to do until its end has not come")  # noqa: TRY301 - stored below
                time.sleep(_POLL_INTERVAL_S)
        except Exception as error:  # noqa: BLE001 - raised again in the block's own thread
            self.failed = self.failed or error

    def _watch(self) -> None:
        while not self.done.wait(_POLL_INTERVAL_S):
            if self._is_waiting() and self._queries.session.streams.active and self._is_waiting():
                self.finish()

    def _time_out(self) -> None:
        self.timed_out = True
        self._queries.stop()
        if not self.done.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    def _is_waiting(self) -> bool:
        frame: FrameType | None = sys._current_frames().get(self._main)  # noqa: SLF001 - Python's only API for this
        if frame is None:
            return False
        line = (frame.f_code.co_filename, frame.f_lineno)
        if line != self._line:
            self._line, self._since = line, time.monotonic()
        stands = line[0] == self._file and time.monotonic() - self._since >= _SAME_LINE_S
        while frame is not None:
            if frame.f_code.co_name in _WAITING:
                return True
            frame = frame.f_back
        return stands
