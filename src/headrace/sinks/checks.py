"""Checks the declaration of a sink, and the schema of the rows that a flow would deliver to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.errors import PipelineError
from headrace.model.datasets import Dataset, Flow
from headrace.model.names import InvalidName, QualifiedName
from headrace.model.schema import Schema
from headrace.model.sinks import SinkDefinition
from headrace.options.option import Kind, OptionTable
from headrace.options.parse import ParsedOptions, parse_options
from headrace.sinks.database import UPSERT_BACKENDS
from headrace.sinks.formats import DELTA, HTTP, JDBC, KAFKA, WRITER_PREFIX, format_of
from headrace.sources.jdbc_connection import database_of

_BYTES_OR_TEXT = ("string", "binary")
_HEADERS = {"key": "string", "value": "binary"}


def options_of(sink: SinkDefinition) -> ParsedOptions:
    """The parsed options of a sink; those of a format that only Spark may know are not checked."""
    sink_format = format_of(sink.format)
    return (
        ParsedOptions(OptionTable(sink.format, ()))
        if sink_format is None
        else parse_options(sink_format.options, sink.options)
    )


def table_of(sink: SinkDefinition) -> QualifiedName | None:
    """The table in the pipeline's storage that a sink writes to by name; None for any other target."""
    parsed = options_of(sink)
    named = sink.format.casefold() == DELTA and "tableName" in parsed.texts
    return sink.naming.canonical(parsed.texts["tableName"]) if named else None


def redacted_options(sink: SinkDefinition) -> dict[str, str]:
    """The options of a sink for people; values that may be secret are replaced by three dots."""
    parsed = options_of(sink)
    known = {option.name.casefold(): option for option in parsed.table.options}
    return {
        name: text if name.casefold() in known and known[name.casefold()].kind is not Kind.SECRET else "..."
        for name, text in sink.options.items()
    }


def sink_problems(dataset: Dataset, names: Iterable[QualifiedName]) -> Iterator[PipelineError]:
    """The problems of a sink's declaration; *names* are the pipeline's own datasets."""
    sink = dataset.sink
    sink_format = format_of(sink.format) if sink is not None else None
    if sink is None or sink_format is None:
        return
    if sink.function is None and not sink.members and not sink_format.declared_by_name:
        yield PipelineError("SINK.NO_SUCH_FORMAT", location=dataset.location, name=dataset.name, format=sink.format)
        return
    parsed = options_of(sink)
    for problem in parsed.problems:
        code = "SINK.OPTION_MISSING" if problem.code == "SOURCE.OPTION_MISSING" else problem.code
        yield PipelineError(code, location=dataset.location, **{**problem.params, "name": str(dataset.name)})
    if sink_format.name == DELTA:
        yield from _delta_problems(dataset, sink, parsed, set(names))
    if sink_format.name == HTTP and {"bearerToken", "header.authorization"} <= {*parsed.texts, *parsed.passed_on}:
        yield PipelineError("SINK.HTTP_TWO_LOGINS", location=dataset.location, name=dataset.name)
    if sink_format.name == HTTP and "orderBy" in parsed.texts and "keys" not in parsed.texts:
        yield PipelineError("SINK.HTTP_ORDER", location=dataset.location, name=dataset.name)
    if sink_format.name == JDBC and not parsed.problems:
        yield from _jdbc_problems(dataset, parsed)


def _delta_problems(
    dataset: Dataset, sink: SinkDefinition, parsed: ParsedOptions, names: set[QualifiedName]
) -> Iterator[PipelineError]:
    targets = [name for name in ("path", "tableName") if name in parsed.texts]
    if len(targets) != 1:
        given_targets = " and ".join(targets) or "neither of them"
        yield PipelineError("SINK.DELTA_PLACE", location=dataset.location, name=dataset.name, given=given_targets)
    if targets != ["tableName"]:
        return
    text = parsed.texts["tableName"]
    try:
        table = sink.naming.canonical(text)
    except InvalidName as invalid:
        yield PipelineError("NAME.INVALID", location=dataset.location, name=text, reason=invalid)
        return
    if table in names or table == dataset.name or table.name.casefold().endswith("_quarantine"):
        yield PipelineError("SINK.OWN_TABLE", location=dataset.location, name=dataset.name, table=table)


def _jdbc_problems(dataset: Dataset, parsed: ParsedOptions) -> Iterator[PipelineError]:
    upserts, keys = parsed.get("mode") == "upsert", named_columns(parsed, "keys")
    location, name = dataset.location, dataset.name
    if upserts != bool(keys):
        reason = "mode is upsert, but keys is missing" if upserts else "keys is set, but mode is not upsert"
        yield PipelineError("SINK.JDBC_KEYS", location=location, name=name, reason=reason)
    if "sequenceBy" in parsed.texts and not upserts:
        reason = "sequenceBy is set, but mode is not upsert"
        yield PipelineError("SINK.JDBC_KEYS", location=location, name=name, reason=reason)
    try:
        database = database_of(parsed.values["url"], parsed.get("user"), parsed.get("password"))
    except PipelineError as error:
        yield error.located(location)
        return
    if upserts and database.backend not in UPSERT_BACKENDS:
        known = ", ".join(UPSERT_BACKENDS)
        yield PipelineError("SINK.JDBC_NO_UPSERT", location=location, name=name, kind=database.backend, known=known)


def row_problems(dataset: Dataset, flow: Flow, rows: Schema) -> Iterator[PipelineError]:
    """Why a sink cannot accept the rows of a flow."""
    sink = dataset.sink
    kind = sink.format.casefold() if sink is not None else ""
    if sink is None or kind not in (KAFKA, JDBC, HTTP):
        return
    if kind in (JDBC, HTTP):
        parsed = options_of(sink)
        needed = [*named_columns(parsed, "keys"), *named_columns(parsed, "orderBy")]
        needed += [parsed.texts["sequenceBy"]] if "sequenceBy" in parsed.texts else []
        missing = ", ".join(f'"{column}"' for column in needed if rows.find(column) is None)
        if missing:
            location = flow.location
            yield PipelineError(
                "SINK.LACKS_COLUMN", location=location, flow=flow.name, name=dataset.name, column=missing
            )
        return
    for column, reason in _record_problems(rows, has_topic="topic" in options_of(sink).texts):
        yield PipelineError(
            "SINK.KAFKA_COLUMN",
            location=flow.location,
            flow=flow.name,
            name=dataset.name,
            column=column,
            reason=reason,
        )


def _record_problems(rows: Schema, *, has_topic: bool) -> Iterator[tuple[str, str]]:
    """Columns of Kafka records that are missing or have a wrong type. Source: Spark's ``KafkaWriter``."""
    types = {column.name.casefold(): json.loads(column.json_type) for column in rows.columns}
    if "value" not in types:
        yield "value", "it is missing"
    for column in ("value", "key"):
        if types.get(column, "binary") not in _BYTES_OR_TEXT:
            yield column, "it is neither STRING nor BINARY"
    if "topic" not in types and not has_topic:
        yield "topic", "it is missing, and the option topic is not set"
    if types.get("topic", "string") != "string":
        yield "topic", "it is not STRING"
    if types.get("partition", "integer") != "integer":
        yield "partition", "it is not INT"
    if "headers" in types and not _are_headers(types["headers"]):
        yield "headers", "it is not ARRAY<STRUCT<key: STRING, value: BINARY>>"


def _are_headers(json_type: Any) -> bool:
    is_array = isinstance(json_type, dict) and json_type.get("type") == "array"
    element = json_type.get("elementType") if is_array else None
    fields = element.get("fields", []) if isinstance(element, dict) else []
    return {field["name"]: field["type"] for field in fields} == _HEADERS


def writer_options(parsed: ParsedOptions) -> dict[str, str]:
    """The options of a file sink for Spark's writer."""
    return {name.removeprefix(WRITER_PREFIX): text for name, text in parsed.passed_on.items()}


def named_columns(parsed: ParsedOptions, option: str) -> tuple[str, ...]:
    """The columns that an option lists."""
    return tuple(name.strip() for name in str(parsed.get(option, "")).split(",") if name.strip())
