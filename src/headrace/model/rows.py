"""The rows of a query's result, and their conversion to JSON."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

Value = Any


@dataclass(frozen=True)
class Rows:
    """A result in memory: the names of its columns, and one tuple of Python values per row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def to_json(self) -> list[dict[str, Any]]:
        """One object per row, as in the contract's ``sql --output json``.

        Every column is in every row. Repeated column names get a number, so that no value is lost.
        """
        names = _distinct(self.columns)
        return [dict(zip(names, map(json_value, row), strict=True)) for row in self.rows]

    def to_table_json(self) -> dict[str, Any]:
        """One object with the names of the columns, as they are, and one list of values per row."""
        return {"columns": list(self.columns), "rows": [list(map(json_value, row)) for row in self.rows]}


def json_value(value: Value) -> Any:
    """A value as JSON: null, booleans, integers and finite floats unchanged, structs and maps as objects.

    Decimals, dates, times and timestamps become text (ISO 8601), bytes base64, and non-finite floats ``"NaN"``,
    ``"Infinity"`` and ``"-Infinity"``, as in Spark.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _duration(value)
    return _composite(value)


def instant_text(value: datetime) -> str:
    """A time with a zone, or in that of this machine, as ISO 8601 in UTC; a fraction as long as it has digits."""
    text = value.astimezone(UTC).isoformat().removesuffix("+00:00")
    return f"{text.rstrip('0') if '.' in text else text}Z"


def _composite(value: Value) -> Any:
    # Spark's Row is a tuple with field names; its variants convert themselves to JSON.
    fields = getattr(value, "__fields__", None)
    if isinstance(value, tuple) and fields is not None:
        return dict(zip(_distinct(tuple(fields)), map(json_value, value), strict=True))
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else _key(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(item) for item in value]
    if hasattr(value, "toJson"):
        return json.loads(value.toJson())
    return format(value, "f") if hasattr(value, "as_tuple") else str(value)


def _key(key: Value) -> str:
    plain = json_value(key)
    return plain if isinstance(plain, str) else json.dumps(plain)


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _duration(value: timedelta) -> str:
    sign, span = ("-", -value) if value < timedelta(0) else ("", value)
    seconds = f"{span.seconds}.{span.microseconds:06d}" if span.microseconds else str(span.seconds)
    return f"{sign}P{span.days}DT{seconds}S"


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    found: list[str] = []
    taken = set(names)
    for name in names:
        unique, number = name, 2
        while unique in found or (unique != name and unique in taken):
            unique, number = f"{name}_{number}", number + 1
        found.append(unique)
    return tuple(found)
