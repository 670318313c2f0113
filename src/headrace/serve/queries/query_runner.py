"""Runs queries and previews of one pipeline: as verbs of the command line, recorded before, a few at a time."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from headrace.errors import PipelineError, Problems
from headrace.events.upkeep import UserAction
from headrace.project.requests.request import Asker
from headrace.project.requests.user_actions import record_action
from headrace.project.requests.verb_call import VerbAnswer, VerbCall
from headrace.serve.pipelines import ServedPipeline

# Without a warm worker, Java starts before the time of the query begins.
_START_S = 60.0
_AT_A_TIME = 2
# How many rows a preview computes, and how long it may take.
_PREVIEW_ROWS, _PREVIEW_S = 50, 120.0
_MOST_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class QueryResult:
    """Rows, as JSON values.

    Attributes:
        columns: the names of the columns, in order; two may have one name.
        rows: a list of values for each row.
        is_truncated: there are more rows.
        duration_s: how long it took.
        notices: what qualifies the rows.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    is_truncated: bool
    duration_s: float
    notices: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The result for programs."""
        return {
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "is_truncated": self.is_truncated,
            "duration_s": round(self.duration_s, 3),
            "notices": list(self.notices),
        }


class QueryRunner:
    """Runs queries of one pipeline; used from several threads.

    Args:
        pipeline: the pipeline.
        call: runs its verbs.
        is_stopping: true once the server stops.
    """

    def __init__(self, pipeline: ServedPipeline, call: VerbCall, is_stopping: Callable[[], bool]) -> None:
        self._pipeline = pipeline
        self._call = call
        self._is_stopping = is_stopping
        self._places = threading.BoundedSemaphore(_AT_A_TIME)
        self._recording = threading.Lock()

    def warm(self) -> None:
        """Let the warm worker start, because a query may come. Returns at once."""
        if self._call.workers is not None:
            self._call.workers.wanted(self._call.folder)

    def sql(
        self, asker: Asker, query: str, rows: int, seconds: float, is_canceled: Callable[[], bool] = bool
    ) -> QueryResult:
        """The rows of a query, which may only read tables of the pipeline.

        Args:
            asker: who asks.
            query: one statement.
            rows: how many at most.
            seconds: how long the query may take.
            is_canceled: whether nobody waits for it any more.

        Raises:
            PipelineError, Problems: SQL.*; SERVE.QUERIES_BUSY, SERVE.QUERY_TOO_LARGE, SERVE.NO_ANSWER, SERVE.STORAGE.
        """
        # The query is no word of the command line, which all users of the machine can read.
        words = ["sql", "--restricted", "--as-table", f"--limit={rows + 1}", f"--timeout={seconds:g}", "--", "-"]
        with self._place():
            self._record(asker, "sql", (query,))
            answer = self._call.run(
                words, text=query, timeout_s=seconds + _START_S, is_canceled=self._ends(is_canceled)
            )
        return _result(answer, rows, seconds)

    def preview(self, asker: Asker, dataset: str, is_canceled: Callable[[], bool] = bool) -> QueryResult:
        """Some rows that a dataset would have now.

        Args:
            asker: who asks.
            dataset: its name.
            is_canceled: whether nobody waits for it any more.

        Raises:
            PipelineError, Problems: as :meth:`sql`, and whatever is wrong with the project.
        """
        words = ["preview", "--as-table", f"--rows={_PREVIEW_ROWS}", "--", dataset]
        with self._place():
            self._record(asker, "preview", (dataset,))
            answer = self._call.run(words, timeout_s=_PREVIEW_S, is_canceled=self._ends(is_canceled))
        return _result(answer, _PREVIEW_ROWS, _PREVIEW_S)

    def _ends(self, is_canceled: Callable[[], bool]) -> Callable[[], bool]:
        return lambda: is_canceled() or self._is_stopping()

    @contextmanager
    def _place(self) -> Iterator[None]:
        if not self._places.acquire(blocking=False):
            raise PipelineError("SERVE.QUERIES_BUSY", most=_AT_A_TIME)
        try:
            yield
        finally:
            self._places.release()

    def _record(self, asker: Asker, verb: str, arguments: tuple[str, ...]) -> None:
        """Write down who asks for rows, which may be personal data, before there are any."""
        done = UserAction(asker.user, asker.address, verb, arguments, f"{verb}-{uuid.uuid4().hex}")
        try:
            with self._recording:
                record_action(self._pipeline.settings, self._pipeline.redact, done)
        except OSError as error:
            raise PipelineError("SERVE.STORAGE", reason=error.strerror or type(error).__name__) from error


def query_call(call: VerbCall) -> VerbCall:
    """The same call for answers that are as long as a page can be."""
    return VerbCall(call.folder, call.profile, call.environ, call.workers, call.command, _MOST_BYTES)


def _result(answer: VerbAnswer, rows: int, seconds: float) -> QueryResult:
    if answer.is_late:
        raise PipelineError("SQL.TIMEOUT", seconds=f"{seconds:g}")
    if answer.is_too_long:
        raise PipelineError("SERVE.QUERY_TOO_LARGE", most=f"{_MOST_BYTES >> 20} MiB")
    if answer.problems:
        raise Problems([_error_of(one) for one in answer.problems])
    document = answer.document if isinstance(answer.document, Mapping) else {}
    if answer.code != 0 or "columns" not in document:
        last = answer.notices[-1] if answer.notices else f"It ended with code {answer.code}"
        raise PipelineError("SERVE.NO_ANSWER", reason=last.rstrip("."))
    found = document["rows"]
    return QueryResult(document["columns"], found[:rows], len(found) > rows, answer.duration_s, answer.notices)


def _error_of(problem: Mapping[str, Any]) -> PipelineError:
    """The error that a verb printed."""
    params = problem.get("params")
    try:
        return PipelineError(str(problem["code"]), **dict(params or {}))
    except (KeyError, TypeError, ValueError):
        return PipelineError("SERVE.NO_ANSWER", reason=str(problem.get("message", "")).rstrip("."))
