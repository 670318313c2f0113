"""Streaming queries as a script gets them: failures are noted once they were seen, and passing ones are retried."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from headrace.model.datasets import Flow, PythonQuery
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.runtime.ports import Failed
from headrace.runtime.retry import retryable
from headrace.settings.vendor_confs import RETRIES, RETRY_INTERVAL
from headrace.spark.errors.spark_errors import failed, first_line, innermost
from headrace.spark.jvm.causes import chain
from headrace.spark.notebook.notebook_session import NotebookSession, ready_for
from headrace.spark.notebook.user_exception import judged, raised_in

_DEFAULT_INTERVAL_MS = "2000"
_LOOK_EVERY_S = 0.1
_LONGEST_TOLD = 300
# How long a script that asks for progress waits for the first batch.
_FIRST_PROGRESS_S = 10.0


class ScriptQuery(StreamingQuery):
    """A streaming query of a script.

    ``seen`` is true once the script has been told that the query failed.
    """

    def __init__(self, query: StreamingQuery) -> None:
        super().__init__(query._jsq)  # noqa: SLF001 - Java's query, which PySpark's class wraps
        self.seen = False
        self.told: BaseException | None = None

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802 - Spark's name
        """Wait for the end of the query.

        Raises:
            StreamingQueryException: it failed.
        """
        try:
            return self._await(timeout)
        except StreamingQueryException as error:
            self.seen, self.told = True, error
            raise

    def processAllAvailable(self) -> None:  # noqa: N802 - Spark's name
        """Wait until all that is in the source has been worked on.

        Raises:
            StreamingQueryException: the query failed.
        """
        try:
            self._process_all()
        except StreamingQueryException as error:
            self.seen, self.told = True, error
            raise

    def exception(self) -> StreamingQueryException | None:
        """What the query failed with."""
        found = None if self.isActive else super().exception()
        self.seen = self.seen or found is not None
        return found

    @property
    def lastProgress(self) -> Any:  # noqa: N802 - Spark's name
        """What the last batch has told; right after the start the script waits for the first one, up to 10 seconds."""
        found = super().lastProgress
        if found is not None or ready_for(None) is None:
            return found
        ends_at = time.monotonic() + _FIRST_PROGRESS_S
        while found is None and self.isActive and time.monotonic() < ends_at:
            time.sleep(_LOOK_EVERY_S)
            found = super().lastProgress
        return found

    @property
    def status(self) -> dict[str, Any]:
        """What the query is doing, and which one it is: ``id``, ``runId`` and ``name`` beside Spark's own keys."""
        return {**super().status, "id": self.id, "runId": self.runId, "name": self.name}

    def failure(self) -> BaseException | None:
        """What it failed with, and why in Java, for a reader that is not the script; None while it runs."""
        if self.told is not None or self.isActive:
            return self.told
        try:
            self._jsq.awaitTermination()
        except StreamingQueryException as error:
            return error
        return None

    def start(self) -> ScriptQuery:
        """Nothing: what the vendor's documents call ``table(...).start()`` was started by ``table``."""
        return self

    def _await(self, timeout: int | None) -> bool | None:
        return super().awaitTermination(timeout)

    def _process_all(self) -> None:
        super().processAllAvailable()


class RetriedQuery(ScriptQuery):
    """A query that is started again after failures that may pass; to the script it is one that goes on.

    ``runs`` says how often it was started.
    """

    def __init__(
        self,
        start: Callable[[], StreamingQuery],
        limit: int,
        interval_s: float,
        passes: Callable[[BaseException], bool],
        say: Callable[[str], None],
    ) -> None:
        super().__init__(start())
        self._start, self._limit, self._interval_s, self._passes, self._say = start, limit, interval_s, passes, say
        self._over, self._stopping = threading.Event(), threading.Event()
        self.runs = 1
        threading.Thread(target=self._supervise, name="headrace-retries", daemon=True).start()

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """True while it runs, and while it waits to be started again."""
        return not self._over.is_set()

    @property
    def runs_now(self) -> bool:
        """False while it waits to be started again, and once it is over."""
        return bool(self._jsq.isActive())

    def decided(self, deadline: float | None = None) -> bool:
        """Wait until it runs or is over; False where the monotonic clock is past *deadline* before."""
        while self.isActive and not self.runs_now:
            if deadline is not None and time.monotonic() > deadline:
                return False
            self._over.wait(_LOOK_EVERY_S)
        return True

    def stop(self) -> None:
        """End it; it is not started again, also when it is being started at this moment."""
        self._stopping.set()
        while not self._over.wait(_LOOK_EVERY_S):
            super().stop()

    def _await(self, timeout: int | None) -> bool | None:
        if not self._over.wait(timeout):
            return False
        super()._await(None)
        return None if timeout is None else True

    def _process_all(self) -> None:
        while True:
            try:
                return super()._process_all()
            except StreamingQueryException:
                self.decided()
                if not self.isActive:
                    raise

    def _supervise(self) -> None:
        attempt = 0
        try:
            while (error := self._end()) is not None and not self._stopping.is_set():
                # Batches were done since it was started: its earlier failures are over.
                attempt = 0 if self._progressed() else attempt
                if attempt >= self._limit or not self._passes(error):
                    return
                attempt += 1
                self._say(f"a streaming query failed and is started again ({attempt} of {self._limit}): {_told(error)}")
                if self._stopping.wait(self._interval_s):
                    return
                self._jsq = self._start()._jsq  # noqa: SLF001 - as above
                self.runs += 1
                if self._stopping.is_set():
                    super().stop()
        finally:
            self._over.set()

    def _end(self) -> BaseException | None:
        try:
            self._jsq.awaitTermination()
        except Exception as error:  # noqa: BLE001 - of Spark's, or of what leads to it
            return error
        return None

    def _progressed(self) -> bool:
        return any(progress["durationMs"].get("commitOffsets") is not None for progress in self.recentProgress)


def retried(ready: NotebookSession, name: str, location: Location, start: Callable[[], StreamingQuery]) -> ScriptQuery:
    """The query that *start* starts, again and again if the session's settings say so."""
    limit = int(ready.session.conf.get(RETRIES, None) or 0)
    if limit <= 0:
        return ScriptQuery(start())
    interval_s = float(ready.session.conf.get(RETRY_INTERVAL, None) or _DEFAULT_INTERVAL_MS) / 1000
    return RetriedQuery(
        start, limit, interval_s, lambda error: _passes(failure_of(name, location, error), error), ready.remarks.say
    )


def _passes(report: Failed, error: BaseException) -> bool:
    return retryable(judged(report, raised_in(tuple(chain(error)))))


def failure_of(name: str, location: Location, error: BaseException) -> Failed:
    """What a streaming query of a script failed with, as that of a flow."""
    nothing: Callable[..., Any] = lambda: None  # noqa: E731 - a flow has a query, which nobody calls
    flow = Flow(name, QualifiedName(name), PythonQuery(nothing, Naming()), location)
    return failed(flow, error, Path(location.file).parent)


def _told(error: BaseException) -> str:
    """What a query has failed with, in a line: what its function raised, otherwise the innermost cause."""
    causes = tuple(chain(error))
    raised = raised_in(causes)
    said = first_line(innermost(causes).message) if raised is None else f"{raised.what}: {raised.reason}"
    return " ".join((said or str(error)).split())[:_LONGEST_TOLD]
