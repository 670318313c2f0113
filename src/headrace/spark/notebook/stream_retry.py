"""The streaming queries of a script: records whether it has seen a failure, and retries transient ones."""

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
from headrace.spark.errors.spark_errors import failure_report, first_line, innermost
from headrace.spark.jvm.causes import chain
from headrace.spark.notebook.notebook_session import NotebookSession, notebook_for
from headrace.spark.notebook.user_exception import find_user_exception, with_user_exception

_DEFAULT_INTERVAL_MS = "2000"
_POLL_INTERVAL_S = 0.1
_MAX_TEXT_CHARACTERS = 300
# How long a script that asks for progress waits for the first batch: while it runs, and while there is no input.
_FIRST_BATCH_S, _FIRST_INPUT_S = 60.0, 10.0
_WAITING = "Waiting"


class ScriptQuery(StreamingQuery):
    """A streaming query of a script.

    ``failure_seen`` is true once the script has seen that the query failed.
    """

    def __init__(self, query: StreamingQuery) -> None:
        super().__init__(query._jsq)  # noqa: SLF001 - Java's query, which PySpark's class wraps
        self.failure_seen = False
        self.reported_error: BaseException | None = None

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802 - Spark's name
        """Wait for the end of the query.

        Raises:
            StreamingQueryException: the query failed.
        """
        try:
            return self._await(timeout)
        except StreamingQueryException as error:
            self.failure_seen, self.reported_error = True, error
            raise

    def processAllAvailable(self) -> None:  # noqa: N802 - Spark's name
        """Wait until all available data has been processed.

        Raises:
            StreamingQueryException: the query failed.
        """
        try:
            self._process_all()
        except StreamingQueryException as error:
            self.failure_seen, self.reported_error = True, error
            raise

    def exception(self) -> StreamingQueryException | None:
        """The error of the query, or None."""
        found = None if self.isActive else super().exception()
        self.failure_seen = self.failure_seen or found is not None
        return found

    @property
    def lastProgress(self) -> Any:  # noqa: N802 - Spark's name
        """The progress of the last batch; right after the start, waits for the first one.

        Waits up to a minute while the query starts or runs the batch, and up to 10 seconds while it has no input.
        """
        found = super().lastProgress
        if found is not None or notebook_for(None) is None:
            return found
        started_at = time.monotonic()
        while found is None and self.isActive:
            has_input = not str(super().status["message"]).startswith(_WAITING)
            if time.monotonic() - started_at >= (_FIRST_BATCH_S if has_input else _FIRST_INPUT_S):
                break
            time.sleep(_POLL_INTERVAL_S)
            found = super().lastProgress
        return found

    @property
    def status(self) -> dict[str, Any]:
        """Spark's status of the query, and its ``id``, ``runId`` and ``name``."""
        return {**super().status, "id": self.id, "runId": self.runId, "name": self.name}

    def failure(self) -> BaseException | None:
        """The error of the query with its causes in Java, for readers other than the script; None while it runs."""
        if self.reported_error is not None or self.isActive:
            return self.reported_error
        try:
            self._jsq.awaitTermination()
        except StreamingQueryException as error:
            return error
        return None

    def start(self) -> ScriptQuery:
        """Do nothing: for the vendor's ``table(...).start()``, ``table`` has already started the query."""
        return self

    def _await(self, timeout: int | None) -> bool | None:
        return super().awaitTermination(timeout)

    def _process_all(self) -> None:
        super().processAllAvailable()


class RetriedQuery(ScriptQuery):
    """A query that is restarted after transient failures; the script sees one continuous query.

    ``runs`` is the number of starts.
    """

    def __init__(
        self,
        start: Callable[[], StreamingQuery],
        limit: int,
        interval_s: float,
        is_transient: Callable[[BaseException], bool],
        say: Callable[[str], None],
    ) -> None:
        super().__init__(start())
        self._start, self._limit, self._interval_s = start, limit, interval_s
        self._is_transient, self._say = is_transient, say
        self._ended, self._stopping = threading.Event(), threading.Event()
        self.runs = 1
        threading.Thread(target=self._supervise, name="headrace-retries", daemon=True).start()

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """True while it runs or waits for a restart."""
        return not self._ended.is_set()

    @property
    def is_running(self) -> bool:
        """False while it waits for a restart, and once it has ended."""
        return bool(self._jsq.isActive())

    def wait_until_decided(self, deadline: float | None = None) -> bool:
        """Wait until it runs or has ended; False if the monotonic clock passes *deadline* first."""
        while self.isActive and not self.is_running:
            if deadline is not None and time.monotonic() > deadline:
                return False
            self._ended.wait(_POLL_INTERVAL_S)
        return True

    def stop(self) -> None:
        """Stop it for good, even if it is restarting at this moment."""
        self._stopping.set()
        while not self._ended.wait(_POLL_INTERVAL_S):
            super().stop()

    def _await(self, timeout: int | None) -> bool | None:
        if not self._ended.wait(timeout):
            return False
        super()._await(None)
        return None if timeout is None else True

    def _process_all(self) -> None:
        while True:
            try:
                return super()._process_all()
            except StreamingQueryException:
                self.wait_until_decided()
                if not self.isActive:
                    raise

    def _supervise(self) -> None:
        attempt = 0
        try:
            while (error := self._await_end()) is not None and not self._stopping.is_set():
                # Batches were completed since its start, so that earlier failures no longer count.
                attempt = 0 if self._progressed() else attempt
                if attempt >= self._limit or not self._is_transient(error):
                    return
                attempt += 1
                self._say(
                    f"a streaming query failed and is started again ({attempt} of {self._limit}): {_cause_text(error)}"
                )
                if self._stopping.wait(self._interval_s):
                    return
                self._jsq = self._start()._jsq  # noqa: SLF001 - as above
                self.runs += 1
                if self._stopping.is_set():
                    super().stop()
        finally:
            self._ended.set()

    def _await_end(self) -> BaseException | None:
        try:
            self._jsq.awaitTermination()
        except Exception as error:  # noqa: BLE001 - of Spark's, or of what leads to it
            return error
        return None

    def _progressed(self) -> bool:
        return any(progress["durationMs"].get("commitOffsets") is not None for progress in self.recentProgress)


def retried(
    notebook: NotebookSession, name: str, location: Location, start: Callable[[], StreamingQuery]
) -> ScriptQuery:
    """The query that *start* starts, with retries if the session's settings ask for them."""
    limit = int(notebook.session.conf.get(RETRIES, None) or 0)
    if limit <= 0:
        return ScriptQuery(start())
    interval_s = float(notebook.session.conf.get(RETRY_INTERVAL, None) or _DEFAULT_INTERVAL_MS) / 1000
    return RetriedQuery(
        start,
        limit,
        interval_s,
        lambda error: _is_transient(failure_of(name, location, error), error),
        notebook.notices.say,
    )


def _is_transient(report: Failed, error: BaseException) -> bool:
    return retryable(with_user_exception(report, find_user_exception(tuple(chain(error)))))


def failure_of(name: str, location: Location, error: BaseException) -> Failed:
    """The failure of a script's streaming query, as the report of a flow."""
    nothing: Callable[..., Any] = lambda: None  # noqa: E731 - a flow needs a query, which is never called
    flow = Flow(name, QualifiedName(name), PythonQuery(nothing, Naming()), location)
    return failure_report(flow, error, Path(location.file).parent)


def _cause_text(error: BaseException) -> str:
    """The failure of a query in one line: the user function's exception, or else the innermost cause."""
    causes = tuple(chain(error))
    raised = find_user_exception(causes)
    text = first_line(innermost(causes).message) if raised is None else f"{raised.what}: {raised.reason}"
    return " ".join((text or str(error)).split())[:_MAX_TEXT_CHARACTERS]
