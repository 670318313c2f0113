"""The only place that translates Spark's errors: the problem, its line in the user's code, its error condition.

A streaming failure always has the condition STREAM_FAILED and no Python cause (D17). The relevant condition is the
innermost one in the Java chain behind ``_origin``. Errors raised inside foreachBatch lose that chain in py4j, so that
the sinks keep the exception object itself.
"""

from __future__ import annotations

import json
import re
import shlex
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import ParseException, PySparkException

from headrace.autoloader.evolution import NewFields, parse_new_fields
from headrace.connectors.lock import connectors
from headrace.errors import PipelineError, Problems, spark_condition
from headrace.expectations.compile import FAILED_MARK
from headrace.model.datasets import Flow, SqlQuery
from headrace.model.expectations import Expectation
from headrace.model.location import Location, split_cell
from headrace.runtime.ports import Failed, SchemaEvolution
from headrace.sources.confluent import PAYLOAD_MARK, UNAVAILABLE_MARK
from headrace.sources.worker_errors import relayed_problem
from headrace.spark.errors.changed_sources import CHANGES, changed_input
from headrace.spark.errors.kafka_errors import kafka_problem
from headrace.spark.jvm.causes import Cause, chain, java_stack

_MAX_REASON_CHARACTERS = 600
_LINE = re.compile(r"\bline (\d+),? pos")
_STATE = re.compile(r" ?SQLSTATE: \w{5}")
_WORKER_FRAME = re.compile(r'^ +File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
# PySpark's text for the call that built the failed expression.
_CALLED_FROM = re.compile(r"was called from\s+(?P<file>\S[^\n]*):(?P<line>\d+)$", re.MULTILINE)
# Python's message for arguments that the vendor's functions have and PySpark's lack.
_VENDORS_AVRO = re.compile(
    r"(?P<function>(?:from|to)_avro)\(\) got an unexpected keyword argument '"
    r"(?P<argument>subject|schemaRegistryAddress)'"
)
# Spark's message for a format that no jar of the session has.
_NO_SOURCE = re.compile(r"Failed to find (?:the )?data source: `?(?P<format>\w+)`?")
# Delta's condition after it has stored the next schema version of a source with schema tracking.
_SCHEMA_EVOLUTIONS = {
    "DELTA_STREAMING_METADATA_EVOLUTION": SchemaEvolution(
        "FLOW.TRACKED_SCHEMA_CHANGED", "the tracked schema of its source has its next version"
    )
}
# The message of the package's own log store for a commit whose content was lost.
_EMPTY_COMMIT = re.compile(r'the Delta commit "(?P<file>[^"\n]+)" has 0 bytes')
# Errors of Spark and Delta that have no condition, by a part of their message.
_BY_MESSAGE = {
    "the Python worker to connect back": "FLOW.WORKER_LATE",
    "Cannot work with a non-pinned table snapshot": "FLOW.NO_SKIPPING",
}
_DEFAULT_ADVICE = "Correct the query; nothing was read or written."


def full_refresh(flow: Flow) -> str:
    """The command that computes the table of a flow again."""
    return f"headrace run --full-refresh {shlex.quote(str(flow.target))}"


def failure_report(
    flow: Flow,
    error: BaseException,
    root: Path,
    rules: Sequence[Expectation] = (),
    table_name: Callable[[str], str] = str,
    start_over: Callable[[Flow], str] = full_refresh,
) -> Failed:
    """The report of a flow that failed with *error*, located at the user's line if there is one.

    Args:
        flow: the failed flow.
        error: the error as caught.
        root: the project's folder.
        rules: the expectations of the flow's target.
        table_name: returns the name of the table at a path.
        start_over: returns the command after which a flow runs again whose input was rebuilt.
    """
    if isinstance(error, PipelineError):
        located = error.located(user_location(error, root) or flow.location)
        return Failed(flow.name, located, condition=error.code)
    if _lost_java(error):
        gone = PipelineError("FLOW.JAVA_GONE", location=flow.location, flow=flow.name)
        return Failed(flow.name, gone, condition=gone.code)
    if isinstance(error, Problems):
        # The failure is transient only if all problems are.
        permanent = next((problem for problem in error if problem.condition.retry is not True), error.errors[0])
        return Failed(flow.name, permanent, condition=permanent.code)
    causes = tuple(chain(error))
    ours = next((report for cause in causes if (report := _raised_by_us(flow, cause.message, rules))), None)
    report = ours or kafka_problem(causes, flow) or _without_condition(flow, causes)
    if report is not None:
        return report
    inner = innermost(causes)
    location = user_location(error, root) or flow.location
    worker = next((c.message for c in reversed(causes) if from_worker(c)), None)
    if worker is not None:
        location = _location_in_text(_WORKER_FRAME, worker, root) or location
        problem = PipelineError("FLOW.USER_CODE", location=location, flow=flow.name, reason=_raised_text(worker))
        return Failed(flow.name, problem, condition="FLOW.USER_CODE", sql_state="39000")
    if not isinstance(error, (PySparkException, Py4JJavaError)):
        reason = f"{type(error).__name__}: {error}"
        problem = PipelineError("FLOW.USER_CODE", location=location, flow=flow.name, reason=_shortened(reason))
        return Failed(flow.name, problem, condition=None, transient=isinstance(error, OSError))
    if isinstance(flow.query, SqlQuery):
        location = _line_within(flow.query, inner.message, location)
    known = _known_problem(flow, inner, location, table_name, start_over)
    if known is not None:
        return Failed(flow.name, known, inner.condition or known.code, inner.sql_state)
    problem = PipelineError(
        "FLOW.FAILED",
        location=_location_in_text(_CALLED_FROM, inner.message, root) or location,
        flow=flow.name,
        condition=inner.condition or inner.type_name,
        # The rest of the message repeats the location.
        reason=_shortened(_STATE.sub("", inner.message.split("\n== ")[0])),
    )
    transient, schema_evolution = inner.condition is None, _SCHEMA_EVOLUTIONS.get(inner.condition or "")
    return Failed(flow.name, problem, inner.condition, inner.sql_state, transient, schema_evolution=schema_evolution)


def _without_condition(flow: Flow, causes: Sequence[Cause]) -> Failed | None:
    """The report for an error that only its message tells apart."""
    code = next((code for part, code in _BY_MESSAGE.items() if any(part in cause.message for cause in causes)), None)
    if code is None:
        return None
    return Failed(flow.name, PipelineError(code, location=flow.location, flow=flow.name), condition=code)


def _known_problem(
    flow: Flow,
    inner: Cause,
    location: Location | None,
    table_name: Callable[[str], str],
    start_over: Callable[[Flow], str],
) -> PipelineError | None:
    """The problem for a condition of Spark or Delta; None for one without our own text."""
    changed = changed_input(flow, inner.message, location, table_name) if inner.condition in CHANGES else None
    if changed is not None:
        return changed
    if empty := _EMPTY_COMMIT.search(inner.message):
        return PipelineError("STORAGE.EMPTY_COMMIT", location=location, file=empty["file"])
    reason = first_line(inner.message) if inner.message else ""
    match spark_condition(inner.condition).means:
        case "FLOW.INPUT_REBUILT" as code:
            more = {"condition": inner.condition, "reason": reason, "command": start_over(flow)}
        case "FLOW.STATE_UNREADABLE" as code:
            more = {"reason": reason}
        case "FLOW.STATE_CHANGED" as code:
            more = {"changes": reason, "otherwise": ""}
        case _:
            return None
    return PipelineError(code, location=location, flow=flow.name, name=flow.target, **more)


def definition_problem(flow: Flow, error: BaseException, root: Path) -> PipelineError:
    """The problem of a query that cannot be resolved."""
    location = user_location(error, root) or flow.location
    without = _missing_connector(error)
    if without is not None:
        given, connector = without
        return PipelineError("CONNECTOR.NOT_NAMED", location=location, format=given, connector=connector)
    if isinstance(flow.query, SqlQuery):
        location = _line_within(flow.query, str(error), location)
    if isinstance(error, ParseException):
        return PipelineError("FLOW.SYNTAX", location=location, flow=flow.name, reason=first_line(str(error)))
    if isinstance(error, (PySparkException, Py4JJavaError)):
        causes = tuple(chain(error))
        relayed = next((found for cause in causes if (found := relayed_problem(cause.message))), None)
        if relayed is not None:
            return PipelineError(relayed[0], location=location, **relayed[1])
        inner = innermost(causes)
        condition = inner.condition or inner.type_name
        advice = spark_condition(condition).advice or _DEFAULT_ADVICE
        return PipelineError(
            "FLOW.ANALYSIS",
            location=location,
            flow=flow.name,
            condition=condition,
            reason=first_line(inner.message),
            advice=advice,
        )
    vendors = _VENDORS_AVRO.search(str(error)) if isinstance(error, TypeError) else None
    if vendors is not None:
        return PipelineError("CONFLUENT.VENDORS_FUNCTION", location=location, **vendors.groupdict())
    reason = f"{type(error).__name__}: {error}"
    return PipelineError("FLOW.RAISED", location=location, flow=flow.name, reason=_shortened(reason))


def _missing_connector(error: BaseException) -> tuple[str, str] | None:
    """The format that a query uses and the connector that provides it, if that is missing.

    Source: Spark's DATA_SOURCE_NOT_FOUND and AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE. PySpark's own ``from_avro`` fails
    with a missing class.
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


_JAVA_FRAME = "\tat org.apache.spark"


def full_text(error: BaseException) -> str:
    """The full text of an error: Python's traceback, the message of each cause in Java, and Java's stack traces."""
    causes = [f"caused by {cause.type_name}: {cause.message.strip()}\n" for cause in chain(error)]
    text = "".join((*traceback.format_exception(error), *causes))
    # Some errors have them in their message.
    return text if _JAVA_FRAME in text else text + java_stack(error)


def innermost(causes: tuple[Cause, ...]) -> Cause:
    """The innermost cause with its own condition, or else the innermost with a message."""
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


def _lost_java(error: BaseException) -> bool:
    """True when the JVM no longer answers, because it was killed or ran out of memory."""
    if isinstance(error, Py4JNetworkError):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, ConnectionError | EOFError) and any("/py4j/" in frame.filename for frame in frames)


def _violated_expectation(flow: Flow, message: str, rules: Sequence[Expectation]) -> PipelineError:
    failure: dict[str, Any] = {}
    text = message.split(FAILED_MARK, 1)[1]
    try:
        failure, _ = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError:
        failure = {"expectation": "?", "row": text}
    return PipelineError(
        "EXPECTATION.FAILED",
        location=next((rule.location for rule in rules if rule.name == failure.get("expectation")), flow.location),
        flow=flow.name,
        dataset=flow.target,
        name=failure.get("expectation"),
        row=_shortened(str(failure.get("row"))),
    )


def _raised_by_us(flow: Flow, message: str, rules: Sequence[Expectation]) -> Failed | None:
    """The report for an error that our own code raised inside Spark's tasks."""
    if FAILED_MARK in message:
        problem = _violated_expectation(flow, message, rules)
        return Failed(flow.name, problem, condition=problem.code)
    if UNAVAILABLE_MARK in message:
        reason = first_line(message.split(UNAVAILABLE_MARK, 1)[1])
        problem = PipelineError("CONFLUENT.UNREACHABLE", location=flow.location, reason=reason)
        return Failed(flow.name, problem, condition=problem.code)
    if PAYLOAD_MARK in message:
        reason = first_line(message.split(PAYLOAD_MARK, 1)[1])
        problem = PipelineError("CONFLUENT.PAYLOAD", location=flow.location, flow=flow.name, reason=reason)
        return Failed(flow.name, problem, condition=problem.code)
    relayed = relayed_problem(message)
    if relayed is not None:
        code, params = relayed
        problem = PipelineError(code, location=flow.location, **params)
        return Failed(flow.name, problem, condition=code)
    new = parse_new_fields(message)
    return None if new is None else _new_fields(flow, new)


def _new_fields(flow: Flow, new: NewFields) -> Failed:
    names = ", ".join(f'"{name}"' for name in new.names)
    code = "AUTO_LOADER.NEW_FIELDS_REFUSED" if new.version is None else "AUTO_LOADER.NEW_FIELDS"
    problem = PipelineError(
        code, location=flow.location, flow=flow.name, fields=names, file=new.file, version=new.version
    )
    message = f"version {new.version} of the schema of its files has {', '.join(new.names)}"
    schema_evolution = None if new.version is None else SchemaEvolution("AUTO_LOADER.SCHEMA_GREW", message)
    return Failed(flow.name, problem, condition=code, schema_evolution=schema_evolution)


def from_worker(cause: Cause) -> bool:
    """True for the traceback of a user function that a Python worker sent."""
    return cause.type_name == "PythonException" or cause.type_name.endswith("PythonUserException")


def _raised_text(worker: str) -> str:
    """The last line of a worker's traceback: the exception."""
    raised = [line for line in worker.splitlines() if line.strip() and not line.startswith((" ", "\t", "Traceback"))]
    return _shortened(raised[-1] if raised else worker)


def _location_in_text(pattern: re.Pattern[str], text: str, root: Path) -> Location | None:
    """The last location in the user's project that a text names."""
    found = None
    for match in pattern.finditer(text):
        # Modules are sent to the workers in an archive, with paths relative to the project.
        _, archived, inside = match["file"].partition(".zip/")
        file = root / inside if archived else Path(match["file"])
        if file.is_relative_to(root) and Path(split_cell(str(file))[0]).is_file():
            found = Location(str(file.relative_to(root)), int(match["line"]))
    return found


def _line_within(query: SqlQuery, message: str, location: Location) -> Location:
    """The line in the file for the line of the query that Spark names."""
    found = _LINE.search(message)
    return Location(location.file, query.line + int(found.group(1)) - 1) if found and query.line else location


def first_line(text: str) -> str:
    """The first line of a Spark error, without location and SQLSTATE."""
    return _shortened(text.strip().splitlines()[0].split(" SQLSTATE")[0].rstrip(".; "))


def _shortened(text: str) -> str:
    text = text.strip().split("\n\tat ")[0]
    return text if len(text) <= _MAX_REASON_CHARACTERS else text[:_MAX_REASON_CHARACTERS] + " ..."
