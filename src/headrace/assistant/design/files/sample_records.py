"""Sample rows as the records of their source: messages with a payload, change events, or plain rows."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.assistant.design.blueprint import Blueprint, DatasetKind
from headrace.assistant.design.files.sample_rows import (
    GROUPS,
    Row,
    SampleColumns,
    sample_columns,
    sample_rows,
    time_text,
)
from headrace.assistant.design.requirements import Column, ErrorPolicy, Source, SourceKind
from headrace.assistant.design.source_defaults import facts_of, format_of

# A payload that no schema fits.
UNREADABLE = "{no record"
# Milliseconds of 2025-01-01, as Debezium writes times.
_START_MS = 1_735_689_600_000


def sample_files(blueprint: Blueprint) -> dict[str, str]:
    """The sample files of all sources, and of the history, by path."""
    found: dict[str, str] = {}
    for source in blueprint.requirements.sources:
        datasets = [dataset for dataset in blueprint.datasets if dataset.source is source]
        if not datasets:
            continue
        columns = sample_columns(source, blueprint)
        if any(dataset.kind is DatasetKind.REFERENCE for dataset in datasets):
            found[f"sample/{source.name}/0001.json"] = _lines(_reference_rows(columns))
            if all(dataset.kind is DatasetKind.REFERENCE for dataset in datasets):
                continue
        lines = list(_source_lines(columns, blueprint))
        half = len(lines) // 2
        for number, part in enumerate((lines[:half], lines[half:]), 1):
            found[f"sample/{source.name}/{number:04}.json"] = "".join(f"{line}\n" for line in part)
    history = blueprint.requirements.history
    if history is not None and history.path is not None:
        first = sample_columns(blueprint.requirements.sources[0], blueprint)
        rows = [first.row(number - 1000) for number in range(6)]
        found[f"sample/{first.source.name}_history/0001.json"] = _lines(rows)
    return found


def has_wrong_records(source: Source, blueprint: Blueprint) -> bool:
    """Whether the sample of a source has records that are wrong: not if one of them would fail the flow."""
    policy = blueprint.requirements.on_error
    return policy is not ErrorPolicy.FAIL and not source.is_debezium and source.kind is not SourceKind.RATE


def can_be_unreadable(source: Source) -> bool:
    """Whether a record of a source can be unreadable: it is text, not typed columns."""
    return bool(facts_of(source).payload) or source.kind is SourceKind.FILES


def record_lines(source: Source, rows: Iterable[Row | str], first: int = 0) -> list[str]:
    """Rows as lines of a sample file; a text is a payload that cannot be read."""
    if not facts_of(source).payload:
        return [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    return [json.dumps(_message(source, row, number), ensure_ascii=False) for number, row in enumerate(rows, first)]


def record_schema(source: Source) -> str:
    """The columns of the sample file of a source, as DDL; binary columns are text there."""
    facts = facts_of(source)
    if not facts.payload:
        return ", ".join(column.ddl for column in source.columns)
    key = {"kafka": "key STRING, ", "eventhubs": "partitionKey STRING, ", "kinesis": "partitionKey STRING, "}[
        facts.reader
    ]
    return f"{key}{facts.payload} STRING, " + ", ".join(f"{name} {kind}" for name, kind in facts.origin.items())


def change_event(source: Source, row: Row, number: int, operation: str = "c") -> str:
    """A row as Debezium's envelope; operation c, u or d."""
    encoded = {column.name: _debezium_value(column, row.get(column.name)) for column in source.columns}
    before = encoded if operation == "d" else None
    after = None if operation == "d" else encoded
    at_ms = _START_MS + number * 1000
    position = {"lsn": 1000 + number, "ts_ms": at_ms, "connector": "postgresql"}
    return json.dumps({"before": before, "after": after, "op": operation, "ts_ms": at_ms, "source": position})


def _source_lines(columns: SampleColumns, blueprint: Blueprint) -> list[str]:
    source = columns.source
    if source.is_debezium:
        events = [change_event(source, row, number, op) for number, (row, op) in enumerate(_changes(columns))]
        return record_lines(source, events)
    repeats = bool(source.duplicate_share) or any(
        dataset.source is source for dataset in blueprint.of(DatasetKind.DEDUP)
    )
    late_by_s = (blueprint.requirements.lateness.within_s or 0.0) / 2
    rows: list[Row | str] = list(sample_rows(columns, repeats=repeats, late_by_s=late_by_s))
    if has_wrong_records(source, blueprint):
        if can_be_unreadable(source):
            rows.insert(3, UNREADABLE)
        if source.keys:
            rows.insert(9, columns.row(9, **{source.keys[0]: None}))
    return record_lines(source, rows)


def _changes(columns: SampleColumns) -> list[tuple[Row, str]]:
    """Inserts, updates and a delete of a few rows."""
    inserts = [(columns.row(number), "c") for number in range(4)]
    keys = columns.source.keys
    updates = [
        ({**columns.row(number + 4), **{key: columns.row(number)[key] for key in keys}}, "u") for number in range(4)
    ]
    return [*inserts, *updates, (columns.row(3), "d")]


def _message(source: Source, row: Row | str, number: int) -> dict[str, Any]:
    facts = facts_of(source)
    text = row if isinstance(row, str) else _payload(source, row)
    identity = row.get(source.keys[0]) if isinstance(row, Mapping) and source.keys else None
    key = None if identity is None else str(identity)
    values: dict[str, Any] = {"key" if facts.reader == "kafka" else "partitionKey": key, facts.payload: text}
    place = {
        "topic": source.options.get("subscribe", source.name),
        "partition": 0 if facts.reader == "kafka" else "0",
        "offset": number,
        "timestamp": time_text(number),
        "sequenceNumber": number if facts.reader == "eventhubs" else f"{number:020}",
        "enqueuedTime": time_text(number),
        "shardId": "shardId-000000000000",
        "approximateArrivalTimestamp": time_text(number),
    }
    return {**values, **{name: place[name] for name in facts.origin}}


def _payload(source: Source, row: Row) -> str:
    if format_of(source) == "csv":
        return ",".join("" if value is None else str(value) for value in row.values())
    return json.dumps(row, ensure_ascii=False)


def _debezium_value(column: Column, value: Any) -> Any:
    if value is None:
        return None
    if str(column.type).startswith("decimal"):
        scale = int(str(column.type).removesuffix(")").rpartition(",")[2])
        unscaled = round(float(value) * 10**scale)
        return base64.b64encode(unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)).decode()
    return value


def _reference_rows(columns: SampleColumns) -> list[Row]:
    # The last group has no row, as happens with real reference data.
    return [columns.row(number) for number in range(GROUPS - 1)]


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
