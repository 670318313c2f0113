"""Sample rows of a source: seeded, the same each time, with late and repeated ones where the design handles them.

The events span the time that the design's results need, so that some windows and sessions are complete.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from headrace.assistant.design.blueprint import Blueprint, DatasetKind
from headrace.assistant.design.files.hints import Hint, hints_of
from headrace.assistant.design.requirements import Column, Source
from headrace.model.ddl import JsonType

# The time of the first sample event.
START = datetime(2025, 1, 1, tzinfo=UTC)
EVENTS = 24
# Number of distinct values of a column that groups events.
GROUPS = 4
_LEAST_SPAN_S = 1200.0
_GROUPING = (
    DatasetKind.WINDOWS,
    DatasetKind.SESSIONS,
    DatasetKind.JOIN,
    DatasetKind.ENRICH,
    DatasetKind.SCD1,
    DatasetKind.SCD2,
)
_WORDS = ("amber", "blue", "coral", "dune")

Row = dict[str, Any]


@dataclass(frozen=True)
class SampleColumns:
    """How the columns of a source are filled.

    Attributes:
        source: the source.
        grouping: columns whose values several events share, in lower case.
        unique: columns with another value in each event, in lower case.
        hints: what conditions say of columns.
        step_s: the time between two events.
    """

    source: Source
    grouping: frozenset[str]
    unique: frozenset[str]
    hints: Mapping[str, Hint]
    step_s: float

    def row(self, number: int, /, **values: Any) -> Row:
        """The event with a number; *values* replace those of columns."""
        row = {column.name: self._value(column, number) for column in self.source.columns}
        return {**row, **values}

    def time(self, number: float) -> str:
        """The event time of an event, as text."""
        return time_text(number * self.step_s)

    def _value(self, column: Column, number: int) -> Any:
        folded = column.name.casefold()
        if self.source.event_time and folded == self.source.event_time.casefold():
            return self.time(number)
        hint = self.hints.get(folded, Hint())
        if folded in self.grouping:
            return _identity(column, number % GROUPS + 1, hint)
        if folded in self.unique:
            return _identity(column, number + 1, hint)
        return value_of(column.type, folded, number, hint)


def time_text(seconds: float) -> str:
    """A time that many seconds after the first sample event, in ISO 8601."""
    time = START + timedelta(seconds=seconds)
    return time.isoformat(timespec="milliseconds" if seconds % 1 else "seconds").replace("+00:00", "Z")


def sample_columns(source: Source, blueprint: Blueprint) -> SampleColumns:
    """How the sample rows of a source are made in a design."""
    grouping: set[str] = set()
    unique = {key.casefold() for key in source.keys}
    for dataset in blueprint.datasets:
        keys = {key.casefold() for key in dataset.keys}
        if dataset.kind in _GROUPING and _concerns(source.name, dataset.reads, blueprint):
            grouping |= keys
        if dataset.kind is DatasetKind.DEDUP and dataset.source is source:
            unique |= keys
            grouping -= keys
    if any(dataset.source is source for dataset in blueprint.of(DatasetKind.REFERENCE)):
        # Reference data has a row for each value of its key.
        unique, grouping = unique | grouping, set()
    conditions = [text for output in blueprint.requirements.outputs for text in (*output.rules.values(), output.where)]
    hints = hints_of(text for text in conditions if text)
    return SampleColumns(source, frozenset(grouping), frozenset(unique - grouping), hints, span_s(blueprint) / EVENTS)


def span_s(blueprint: Blueprint) -> float:
    """The time that sample events span: three times what the longest result waits for."""
    delay = blueprint.requirements.lateness.within_s or 0.0
    lengths = [
        length + delay
        for output in blueprint.requirements.outputs
        for length in (output.size_s, output.gap_s, output.within_s)
        if length
    ]
    return max(3 * max([*lengths, delay]), _LEAST_SPAN_S)


def sample_rows(columns: SampleColumns, *, repeats: bool, late_by_s: float) -> list[Row]:
    """The sample events in order of arrival: some late, some repeated."""
    rows = []
    late_steps = late_by_s / columns.step_s if columns.step_s else 0.0
    for number in range(EVENTS):
        row = columns.row(number)
        if number % 7 == 6 and columns.source.event_time and late_steps:
            row[columns.source.event_time] = columns.time(max(number - late_steps, 0.0))
        rows.append(row)
        if repeats and number % 8 == 5:
            rows.append(row)
    return rows


def value_of(kind: JsonType | None, name: str, number: int, hint: Hint) -> Any:
    """A value of a type, as JSON has it; it depends on the name and the number alone. None for other types."""
    if isinstance(kind, dict):
        return _nested_value(kind, name, number)
    if kind == "string":
        pool = hint.texts or [f"{name}-{word}" for word in _WORDS]
        return pool[_draw(name, number, len(pool))]
    if str(kind).startswith("decimal"):
        return _decimal(str(kind), name, number, hint)
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return _time_value(str(kind), number)
    return _simple_value(str(kind), name, number, hint)


def _time_value(kind: str, number: int) -> str:
    text = time_text(60.0 * number)
    return {"date": (START + timedelta(days=number)).date().isoformat(), "timestamp": text}.get(
        kind, text.removesuffix("Z")
    )


def _simple_value(kind: str, name: str, number: int, hint: Hint) -> Any:
    match kind:
        case "byte" | "short" | "integer" | "long":
            return int(_within(_draw(name, number, 100), hint))
        case "float" | "double":
            return float(_within(_draw(name, number, 10_000) / 100, hint))
        case "boolean":
            return bool(_draw(name, number, 2))
        case "binary":
            return base64.b64encode(f"{name}-{number}".encode()).decode()
        case _:
            return None


def _nested_value(kind: dict[str, Any], name: str, number: int) -> Any:
    if kind["type"] == "array":
        return [value_of(kind["elementType"], name, number, Hint())]
    if kind["type"] == "map":
        return {str(value_of("string", "key", number, Hint())): value_of(kind["valueType"], name, number, Hint())}
    return {field["name"]: value_of(field["type"], field["name"], number, Hint()) for field in kind["fields"]}


def _identity(column: Column, number: int, hint: Hint) -> Any:
    # Each source has the same values of a key, so that its rows find each other.
    number += max(math.ceil(hint.least or 0), 0)
    if column.type in ("byte", "short", "integer", "long") or str(column.type).startswith("decimal"):
        return number
    if column.type in ("float", "double"):
        return float(number)
    if column.is_time or column.type == "date":
        return value_of(column.type, column.name.casefold(), number, hint)
    return f"{column.name}-{number}"


def _decimal(kind: str, name: str, number: int, hint: Hint) -> Any:
    digits, scale = (int(part) for part in kind.removeprefix("decimal(").removesuffix(")").split(","))
    whole = min(digits - scale, 4)
    drawn = _draw(name, number, 10**whole) if whole else 0
    value = _within(float(drawn), hint)
    return (
        int(value) if not scale else round(value + _draw(f"{name}.", number, 10 ** min(scale, 2)) / 100, min(scale, 2))
    )


def _within(value: float, hint: Hint) -> float:
    least, most = hint.least, hint.most
    if least is not None and value <= least:
        value = least + 1 + value % 7 if most is None else (least + most) / 2
    if most is not None and value >= most:
        value = most - 1 if least is None else (least + most) / 2
    return value


def _draw(name: str, number: int, below: int) -> int:
    """A number from 0, drawn by name and number: the same on each machine and in each version of Python."""
    digest = blake2b(f"{name} {number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % below


def _concerns(name: str, reads: Iterable[str], blueprint: Blueprint) -> bool:
    """Whether datasets are made of a source."""
    waiting = list(reads)
    while waiting:
        dataset = blueprint.dataset(waiting.pop())
        if dataset.source.name == name:
            return True
        waiting.extend(dataset.reads)
    return False
