"""The one door through which errors of Spark come in: what went wrong, where in the user's code, how to say it.

A streaming failure always says STREAM_FAILED and has no Python cause (D17); the condition that matters is the innermost
one down the Java chain behind ``_origin``. Errors raised inside foreachBatch lose that chain on their way through py4j,
so the sinks keep the exception object itself.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import ParseException, PySparkException

from headrace.autoloader.evolution import NewFields, new_fields_told
from headrace.connectors.lock import connectors
from headrace.errors import PipelineError, Problems, spark_condition
from headrace.expectations.compile import FAILED_MARK
from headrace.model.datasets import Flow, SqlQuery
from headrace.model.expectations import Expectation
from headrace.model.location import Location, split_cell
from headrace.runtime.ports import Failed, Growth
from headrace.sources.confluent import DOWN_MARK, PAYLOAD_MARK
from headrace.sources.worker_errors import problem_told
from headrace.spark.errors.changed_sources import CHANGES, changed_input
from headrace.spark.errors.kafka_errors import kafka_problem
from headrace.spark.jvm.causes import Cause, chain

_MAX_REASON_CHARACTERS = 600
_LINE = re.compile(r"\bline (\d+),? pos")
_STATE = re.compile(r" ?SQLSTATE: \w{5}")
_WORKER_FRAME = re.compile(r'^ +File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
# How PySpark says which call made the expression that failed.
_CALLED_FROM = re.compile(r"was called from\s+(?P<file>\S[^\n]*):(?P<line>\d+)$", re.MULTILINE)
# How Python says that PySpark's functions lack what the vendor's have.
_VENDORS_AVRO = re.compile(
    r"(?P<function>(?:from|to)_avro)\(\) got an unexpected keyword argument '"
    r"(?P<argument>subject|schemaRegistryAddress)'"
)
# How Spark says that no jar of the session has a format.
_NO_SOURCE = re.compile(r"Failed to find (?:the )?data source: `?(?P<format>\w+)`?")
# What Delta says once it has stored the next version of the schema of a source that is tracked.
_GROWTHS = {
    "DELTA_STREAMING_METADATA_EVOLUTION": Growth(
        "FLOW.TRACKED_SCHEMA_CHANGED", "the tracked schema of its source has its next version"
    )
}
# How the package's own log store says that a commit's content was lost.
_EMPTY_COMMIT = re.compile(r'the Delta commit "(?P<file>[^"\n]+)" has 0 bytes')
_OTHER_ADVICE = "Correct the query; nothing was read or written."


def failed(
    flow: Flow,
    error: BaseException,
    root: Path,
    rules: Sequence[Expectation] = (),
    named: Callable[[str], str] = str,
) -> Failed:
    """The report of a flow that ended with *error*; the user's line comes first where there is one.

    Args:
        flow: what has failed.
        error: as it was caught.
        root: the project's folder.
        rules: those of the flow's target.
        named: what a table at a path is called.
    """
    if isinstance(error, PipelineError):
        placed = error.located(user_location(error, root) or flow.location)
        return Failed(flow.name, placed, condition=error.code)
    if _without_java(error):
        gone = PipelineError("FLOW.JAVA_GONE", location=flow.location, flow=flow.name)
        return Failed(flow.name, gone, condition=gone.code)
    if isinstance(error, Problems):
        # It passes by itself when all of them do.
        lasting = next((problem for problem in error if problem.condition.retry is not True), error.errors[0])
        return Failed(flow.name, lasting, condition=lasting.code)
    causes = tuple(chain(error))
    ours = next((report for cause in causes if (report := _raised_by_us(flow, cause.message, rules))), None)
    told = ours or kafka_problem(causes, flow)
    if told is not None:
        return told
    inner = innermost(causes)
    place = user_location(error, root) or flow.location
    worker = next((c.message for c in reversed(causes) if from_worker(c)), None)
    if worker is not None:
        place = _place_in_text(_WORKER_FRAME, worker, root) or place
        problem = PipelineError("FLOW.USER_CODE", location=place, flow=flow.name, reason=_raised_text(worker))
        return Failed(flow.name, problem, condition="FLOW.USER_CODE", sql_state="39000")
    if not isinstance(error, (PySparkException, Py4JJavaError)):
        reason = f"{type(error).__name__}: {error}"
        problem = PipelineError("FLOW.USER_CODE", location=place, flow=flow.name, reason=_shortened(reason))
        return Failed(flow.name, problem, condition=None, transient=isinstance(error, OSError))
    if isinstance(flow.query, SqlQuery):
        place = _line_within(flow.query, inner.message, place)
    known = _known_problem(flow, inner, place, named)
    if known is not None:
        return Failed(flow.name, known, inner.condition or known.code, inner.sql_state)
    problem = PipelineError(
        "FLOW.FAILED",
        location=_place_in_text(_CALLED_FROM, inner.message, root) or place,
        flow=flow.name,
        condition=inner.condition or inner.type_name,
        # What follows points at the place, which the location does.
        reason=_shortened(_STATE.sub("", inner.message.split("\n== ")[0])),
    )
    transient, growth = inner.condition is None, _GROWTHS.get(inner.condition or "")
    return Failed(flow.name, problem, inner.condition, inner.sql_state, transient, growth=growth)


def _known_problem(
    flow: Flow, inner: Cause, place: Location | None, named: Callable[[str], str]
) -> PipelineError | None:
    """The problem that a condition of Spark or Delta stands for; None for one without a text of ours."""
    changed = changed_input(flow, inner.message, place, named) if inner.condition in CHANGES else None
    if changed is not None:
        return changed
    if empty := _EMPTY_COMMIT.search(inner.message):
        return PipelineError("STORAGE.EMPTY_COMMIT", location=place, file=empty["file"])
    said = first_line(inner.message) if inner.message else ""
    match spark_condition(inner.condition).means:
        case "FLOW.INPUT_REBUILT" as code:
            more = {"condition": inner.condition, "reason": said}
        case "FLOW.STATE_UNREADABLE" as code:
            more = {"reason": said}
        case "FLOW.STATE_CHANGED" as code:
            more = {"changes": said, "otherwise": ""}
        case _:
            return None
    return PipelineError(code, location=place, flow=flow.name, name=flow.target, **more)


def definition_problem(flow: Flow, error: BaseException, root: Path) -> PipelineError:
    """The problem of a query that cannot be resolved."""
    place = user_location(error, root) or flow.location
    without = _without_connector(error)
    if without is not None:
        given, connector = without
        return PipelineError("CONNECTOR.NOT_NAMED", location=place, format=given, connector=connector)
    if isinstance(flow.query, SqlQuery):
        place = _line_within(flow.query, str(error), place)
    if isinstance(error, ParseException):
        return PipelineError("FLOW.SYNTAX", location=place, flow=flow.name, reason=first_line(str(error)))
    if isinstance(error, (PySparkException, Py4JJavaError)):
        causes = tuple(chain(error))
        told = next((told for cause in causes if (told := problem_told(cause.message))), None)
        if told is not None:
            return PipelineError(told[0], location=place, **told[1])
        inner = innermost(causes)
        condition = inner.condition or inner.type_name
        advice = spark_condition(condition).advice or _OTHER_ADVICE
        return PipelineError(
            "FLOW.ANALYSIS",
            location=place,
            flow=flow.name,
            condition=condition,
            reason=first_line(inner.message),
            advice=advice,
        )
    vendors = _VENDORS_AVRO.search(str(error)) if isinstance(error, TypeError) else None
    if vendors is not None:
        return PipelineError("CONFLUENT.VENDORS_FUNCTION", location=place, **vendors.groupdict())
    reason = f"{type(error).__name__}: {error}"
    return PipelineError("FLOW.RAISED", location=place, flow=flow.name, reason=_shortened(reason))


def _without_connector(error: BaseException) -> tuple[str, str] | None:
    """What a query has asked for that a connector brings, and the connector, if that is what is missing.

    Source: Spark's DATA_SOURCE_NOT_FOUND and AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE. PySpark's own ``from_avro`` ends
    in a class that is not there.
    """
    text = str(error)
    found = _NO_SOURCE.search(text)
    if found is not None and found["format"].casefold() in connectors():
        return found["format"], found["format"].casefold()
    condition = error.getCondition() or "" if isinstance(error, PySparkException) else ""
    avro = condition.startswith("AVRO_NOT_LOADED") or ("org.apache.spark.sql.avro" in text and "from_avro" in text)
    calls = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    if avro or (isinstance(error, TypeError) and "JavaPackage" in text and {"from_avro", "to_avro"} & set(calls)):
        return "avro", "avro"
    return None


def whole_text(error: BaseException) -> str:
    """Everything that is known about an error: Python's traceback, and what each cause in Java says."""
    causes = [f"caused by {cause.type_name}: {cause.message.strip()}\n" for cause in chain(error)]
    return "".join((*traceback.format_exception(error), *causes))


def innermost(causes: tuple[Cause, ...]) -> Cause:
    """The innermost cause that carries a condition of its own, otherwise the innermost with a message."""
    with_condition = [c for c in causes if c.condition and not spark_condition(c.condition).wraps]
    if with_condition:
        return with_condition[-1]
    return next((c for c in reversed(causes) if c.message), causes[-1])


def user_location(error: BaseException, root: Path) -> Location | None:
    """The innermost line of the user's project in the traceback of *error*."""
    found = None
    for frame in traceback.extract_tb(error.__traceback__):
        file = Path(frame.filename)
        if file.is_absolute() and file.is_relative_to(root) and ".venv" not in file.parts:
            found = Location(str(file.relative_to(root)), frame.lineno or 0)
    return found


def _without_java(error: BaseException) -> bool:
    """True when Java does not answer: the JVM was killed, or ran out of memory and ended."""
    if isinstance(error, Py4JNetworkError):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, ConnectionError | EOFError) and any("/py4j/" in frame.filename for frame in frames)


def _broken_expectation(flow: Flow, message: str, rules: Sequence[Expectation]) -> PipelineError:
    said: dict[str, Any] = {}
    text = message.split(FAILED_MARK, 1)[1]
    try:
        said, _ = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError:
        said = {"expectation": "?", "row": text}
    return PipelineError(
        "EXPECTATION.FAILED",
        location=next((rule.location for rule in rules if rule.name == said.get("expectation")), flow.location),
        flow=flow.name,
        dataset=flow.target,
        name=said.get("expectation"),
        row=_shortened(str(said.get("row"))),
    )


def _raised_by_us(flow: Flow, message: str, rules: Sequence[Expectation]) -> Failed | None:
    """The report of what our own code has raised inside of Spark's tasks."""
    if FAILED_MARK in message:
        problem = _broken_expectation(flow, message, rules)
        return Failed(flow.name, problem, condition=problem.code)
    if DOWN_MARK in message:
        reason = first_line(message.split(DOWN_MARK, 1)[1])
        problem = PipelineError("CONFLUENT.UNREACHABLE", location=flow.location, reason=reason)
        return Failed(flow.name, problem, condition=problem.code)
    if PAYLOAD_MARK in message:
        reason = first_line(message.split(PAYLOAD_MARK, 1)[1])
        problem = PipelineError("CONFLUENT.PAYLOAD", location=flow.location, flow=flow.name, reason=reason)
        return Failed(flow.name, problem, condition=problem.code)
    told = problem_told(message)
    if told is not None:
        code, params = told
        problem = PipelineError(code, location=flow.location, **params)
        return Failed(flow.name, problem, condition=code)
    new = new_fields_told(message)
    return None if new is None else _new_fields(flow, new)


def _new_fields(flow: Flow, new: NewFields) -> Failed:
    names = ", ".join(f'"{name}"' for name in new.names)
    code = "AUTO_LOADER.NEW_FIELDS_REFUSED" if new.version is None else "AUTO_LOADER.NEW_FIELDS"
    problem = PipelineError(
        code, location=flow.location, flow=flow.name, fields=names, file=new.file, version=new.version
    )
    said = f"version {new.version} of the schema of its files has {', '.join(new.names)}"
    growth = None if new.version is None else Growth("AUTO_LOADER.SCHEMA_GREW", said)
    return Failed(flow.name, problem, condition=code, growth=growth)


def from_worker(cause: Cause) -> bool:
    """True for what a Python worker sent: the traceback of the user's function."""
    return cause.type_name == "PythonException" or cause.type_name.endswith("PythonUserException")


def _raised_text(worker: str) -> str:
    """The last line of a worker's traceback: what was raised."""
    raised = [line for line in worker.splitlines() if line.strip() and not line.startswith((" ", "\t", "Traceback"))]
    return _shortened(raised[-1] if raised else worker)


def _place_in_text(pattern: re.Pattern[str], text: str, root: Path) -> Location | None:
    """The last line of the user's project that a text names."""
    found = None
    for match in pattern.finditer(text):
        # Modules reach the workers in an archive, with paths as below the project.
        _, archived, inside = match["file"].partition(".zip/")
        file = root / inside if archived else Path(match["file"])
        if file.is_relative_to(root) and Path(split_cell(str(file))[0]).is_file():
            found = Location(str(file.relative_to(root)), int(match["line"]))
    return found


def _line_within(query: SqlQuery, message: str, place: Location) -> Location:
    """The line of the file that Spark names by its line of the query."""
    found = _LINE.search(message)
    return Location(place.file, query.line + int(found.group(1)) - 1) if found and query.line else place


def first_line(text: str) -> str:
    """What an error of Spark says, without its place and state."""
    return _shortened(text.strip().splitlines()[0].split(" SQLSTATE")[0].rstrip(".; "))


def _shortened(text: str) -> str:
    text = text.strip().split("\n\tat ")[0]
    return text if len(text) <= _MAX_REASON_CHARACTERS else text[:_MAX_REASON_CHARACTERS] + " ..."
