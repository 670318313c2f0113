"""Failures of a script or its streaming queries: the user's part of the traceback, and one problem."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from headrace.errors import PipelineError, Problems
from headrace.model.location import Location
from headrace.spark.errors.spark_errors import first_line, innermost
from headrace.spark.jvm.causes import chain
from headrace.spark.notebook.notebook_session import StartedQuery
from headrace.spark.notebook.stream_retry import failure_of

# Marks an exception of a foreachBatch function, as it comes back from Java.
_CALLED_BACK = "Return Message: Traceback"
_FRAME = re.compile(r'^ +File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
# Conditions whose texts mention updates and their log apply to pipelines only.
_OF_FLOWS = ("FLOW.FAILED", "FLOW.USER_CODE", "FLOW.INPUT_REBUILT", "FLOW.STATE_CHANGED", "FLOW.JAVA_GONE")
_LONGEST = 600
_MOST_LINES = 4
_FOREIGN = {"site-packages", ".venv"}


def user_traceback(error: BaseException, root: Path) -> str:
    """The traceback as Python prints it, with only the lines of the user's own files."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_user_file(frame.filename, root)]
    # Spark's messages continue with plans and Java stack traces.
    most = 1 if isinstance(error, PySparkException) else _MOST_LINES
    lines = str(error).strip().splitlines()[:most]
    text = "\n".join(_short(line) for line in lines)
    shown = traceback.format_list(frames)
    return "".join(("Traceback (most recent call last):\n", *shown, f"{type(error).__name__}: {text}\n"))


def script_problem(error: BaseException, code_names: frozenset[str]) -> PipelineError:
    """The problem that ended a script."""
    if isinstance(error, Problems):
        error = error.errors[0]
    place = _error_location(error, code_names)
    if isinstance(error, PipelineError):
        return error.located(place)
    reason = _short(str(error)) if str(error).strip() else "it says nothing more"
    if isinstance(error, (PySparkException, Py4JError)):
        cause = innermost(tuple(chain(error)))
        message = first_line(cause.message) if cause.message else reason
        return PipelineError("SCRIPT.FAILED", location=place, what=cause.condition or cause.type_name, reason=message)
    return PipelineError("SCRIPT.FAILED", location=place, what=type(error).__name__, reason=reason)


def query_problem(started: StartedQuery, error: BaseException, root: Path) -> PipelineError:
    """The problem that a streaming query ended with."""
    causes = tuple(chain(error))
    raised = next((cause.message for cause in causes if _CALLED_BACK in cause.message), None)
    if raised is not None:
        return _foreach_batch_problem(started, raised, root)
    problem = failure_of(started.name, started.location, error).error
    if problem.code not in _OF_FLOWS:
        return problem.located(started.location)
    params = problem.params
    inner = innermost(causes)
    what = params.get("condition") or inner.condition or inner.type_name
    reason = params.get("reason") or params.get("changes") or first_line(inner.message or str(error))
    return PipelineError(
        "SCRIPT.QUERY_FAILED",
        location=problem.location or started.location,
        query=started.name,
        what=what,
        reason=reason,
    )


def _foreach_batch_problem(started: StartedQuery, text: str, root: Path) -> PipelineError:
    trace = text.split("Return Message: ", 1)[1]
    lines = [line for line in trace.splitlines() if line.strip() and not line.startswith((" ", "\t", "Traceback"))]
    locations = [
        Location(found["file"], int(found["line"]))
        for found in _FRAME.finditer(trace)
        if Path(found["file"]).is_absolute() and Path(found["file"]).is_relative_to(root)
    ]
    raised = lines[0] if lines else "an error"
    what, _, reason = raised.partition(": ")
    return PipelineError(
        "SCRIPT.QUERY_FAILED",
        location=locations[-1] if locations else started.location,
        query=started.name,
        what=what.rpartition(".")[2],
        reason=_short(reason) or "its function of foreachBatch raised it",
    )


def _error_location(error: BaseException, code_names: frozenset[str]) -> Location | None:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in code_names]
    return Location(frames[-1].filename, frames[-1].lineno or 0) if frames else None


def _is_user_file(file: str, root: Path) -> bool:
    path = Path(file)
    return path.is_absolute() and path.is_relative_to(root) and not _FOREIGN & set(path.parts)


def _short(text: str) -> str:
    text = text.strip().split("\n\tat ")[0].split("\n\nJVM stacktrace")[0]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
