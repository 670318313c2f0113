"""What is wrong with a sink as it is declared, and with the rows that a flow would deliver to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.errors import PipelineError
from headrace.model.datasets import Dataset, Flow
from headrace.model.names import InvalidName, QualifiedName
from headrace.model.schema import Schema
from headrace.model.sinks import SinkDefinition
from headrace.sinks.database import UPSERTS
from headrace.sinks.formats import DELTA, HTTP, JDBC, KAFKA, TO_WRITER, format_of
from headrace.sources.jdbc_connection import database_of
from headrace.sources.option_reading import GivenOptions, Kind, SourceFormat, read_options

_BYTES_OR_TEXT = ("string", "binary")
_HEADERS = {"key": "string", "value": "binary"}


def options_of(sink: SinkDefinition) -> GivenOptions:
    """The options of a sink as values; those of a format that Spark has to know are not looked at."""
    found = format_of(sink.format)
    return GivenOptions(SourceFormat(sink.format, ())) if found is None else read_options(found.options, sink.options)


def table_of(sink: SinkDefinition) -> QualifiedName | None:
    """The table in the storage that a sink writes to by its name; None for any other place."""
    given = options_of(sink)
    named = sink.format.casefold() == DELTA and "tableName" in given.texts
    return sink.naming.canonical(given.texts["tableName"]) if named else None


def shown_options(sink: SinkDefinition) -> dict[str, str]:
    """The options of a sink for people: values that may be secret are three dots."""
    given = options_of(sink)
    known = {option.name.casefold(): option for option in given.format.options}
    return {
        name: text if name.casefold() in known and known[name.casefold()].kind is not Kind.SECRET else "..."
        for name, text in sink.options.items()
    }


def sink_problems(dataset: Dataset, names: Iterable[QualifiedName]) -> Iterator[PipelineError]:
    """What is wrong with a sink, *names* being those of the pipeline's own datasets."""
    sink = dataset.sink
    found = format_of(sink.format) if sink is not None else None
    if sink is None or found is None:
        return
    if sink.function is None and not sink.members and not found.declared_by_name:
        yield PipelineError("SINK.NO_SUCH_FORMAT", location=dataset.location, name=dataset.name, format=sink.format)
        return
    given = options_of(sink)
    for problem in given.problems:
        code = "SINK.OPTION_MISSING" if problem.code == "SOURCE.OPTION_MISSING" else problem.code
        yield PipelineError(code, location=dataset.location, **{**problem.params, "name": str(dataset.name)})
    if found.name == DELTA:
        yield from _delta_problems(dataset, sink, given, set(names))
    if found.name == HTTP and {"bearerToken", "header.authorization"} <= {*given.texts, *given.passed_on}:
        yield PipelineError("SINK.HTTP_TWO_LOGINS", location=dataset.location, name=dataset.name)
    if found.name == HTTP and "orderBy" in given.texts and "keys" not in given.texts:
        yield PipelineError("SINK.HTTP_ORDER", location=dataset.location, name=dataset.name)
    if found.name == JDBC and not given.problems:
        yield from _jdbc_problems(dataset, given)


def _delta_problems(
    dataset: Dataset, sink: SinkDefinition, given: GivenOptions, names: set[QualifiedName]
) -> Iterator[PipelineError]:
    said = [name for name in ("path", "tableName") if name in given.texts]
    if len(said) != 1:
        which = " and ".join(said) or "neither of them"
        yield PipelineError("SINK.DELTA_PLACE", location=dataset.location, name=dataset.name, given=which)
    if said != ["tableName"]:
        return
    text = given.texts["tableName"]
    try:
        table = sink.naming.canonical(text)
    except InvalidName as invalid:
        yield PipelineError("NAME.INVALID", location=dataset.location, name=text, reason=invalid)
        return
    if table in names or table == dataset.name or table.name.casefold().endswith("_quarantine"):
        yield PipelineError("SINK.OWN_TABLE", location=dataset.location, name=dataset.name, table=table)


def _jdbc_problems(dataset: Dataset, given: GivenOptions) -> Iterator[PipelineError]:
    upserts, keys = given.get("mode") == "upsert", columns_named(given, "keys")
    place, name = dataset.location, dataset.name
    if upserts != bool(keys):
        reason = "mode is upsert, but keys is missing" if upserts else "keys is set, but mode is not upsert"
        yield PipelineError("SINK.JDBC_KEYS", location=place, name=name, reason=reason)
    if "sequenceBy" in given.texts and not upserts:
        reason = "sequenceBy is set, but mode is not upsert"
        yield PipelineError("SINK.JDBC_KEYS", location=place, name=name, reason=reason)
    try:
        database = database_of(given.values["url"], given.get("user"), given.get("password"))
    except PipelineError as error:
        yield error.located(place)
        return
    if upserts and database.backend not in UPSERTS:
        known = ", ".join(UPSERTS)
        yield PipelineError("SINK.JDBC_NO_UPSERT", location=place, name=name, kind=database.backend, known=known)


def row_problems(dataset: Dataset, flow: Flow, rows: Schema) -> Iterator[PipelineError]:
    """What a sink cannot take of the rows that a flow delivers."""
    sink = dataset.sink
    kind = sink.format.casefold() if sink is not None else ""
    if sink is None or kind not in (KAFKA, JDBC, HTTP):
        return
    if kind in (JDBC, HTTP):
        given = options_of(sink)
        needed = [*columns_named(given, "keys"), *columns_named(given, "orderBy")]
        needed += [given.texts["sequenceBy"]] if "sequenceBy" in given.texts else []
        missing = ", ".join(f'"{column}"' for column in needed if rows.find(column) is None)
        if missing:
            place = flow.location
            yield PipelineError("SINK.LACKS_COLUMN", location=place, flow=flow.name, name=dataset.name, column=missing)
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
    """Columns of Kafka's records that are missing, or of a wrong type. Source: Spark's ``KafkaWriter``."""
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


def _are_headers(given: Any) -> bool:
    element = given.get("elementType") if isinstance(given, dict) and given.get("type") == "array" else None
    fields = element.get("fields", []) if isinstance(element, dict) else []
    return {field["name"]: field["type"] for field in fields} == _HEADERS


def writer_options(given: GivenOptions) -> dict[str, str]:
    """What a sink of files hands to Spark's writer."""
    return {name.removeprefix(TO_WRITER): text for name, text in given.passed_on.items()}


def columns_named(given: GivenOptions, option: str) -> tuple[str, ...]:
    """The columns that an option lists."""
    return tuple(name.strip() for name in str(given.get(option, "")).split(",") if name.strip())
