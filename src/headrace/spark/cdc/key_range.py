"""The range of the keys of a batch: Delta skips files without such keys by their statistics.

If the table is partitioned by columns of its key, it skips partitions too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, Row
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from headrace.model.names import quoted

_WHOLE = frozenset(("tinyint", "smallint", "int", "bigint"))
_DATE, _TIME, _TEXT = "date", "timestamp", "string"
# Longer texts would bloat plans and logs.
_LONGEST_TEXT = 256


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value of a key column.

    Args:
        kind: the type of the column, as Spark formats it.
        least: as :func:`bounds_of` returns it: dates in days and times in microseconds since 1970, because Python's
            range of dates differs from Spark's.
        greatest: the same.
    """

    kind: str
    least: int | str
    greatest: int | str

    def contains(self, column: Column) -> Column:
        """True for values within the bounds, in a form that Delta's data skipping supports."""
        return (column >= _literal(self.kind, self.least)) & (column <= _literal(self.kind, self.greatest))


@dataclass(frozen=True)
class KeyRange:
    """The bounds of key columns; columns without bounds are unrestricted."""

    bounds: Mapping[str, Bounds] = field(default_factory=dict)

    def contains(self, column: Callable[[str], Column]) -> Column:
        """True for rows within the range; NULL for rows without a key. *column* returns a key column by name."""
        found = F.lit(True)
        for name, bounds in self.bounds.items():
            found = found & bounds.contains(column(name))
        return found


def bounds_of(kind: DataType, key: str, counted: Column | None = None) -> list[Column]:
    """Aggregates from which :func:`key_range` builds a range.

    Args:
        kind: the type of the key, a struct.
        key: the column of the key.
        counted: true for the rows to include; NULL keys are never included.
    """
    found = []
    for number, name, type_name in _bounded(kind):
        value = F.col(f"{key}.{quoted(name)}")
        value = value if counted is None else F.when(counted, value)
        found += [
            _for_python(type_name, F.min(value)).alias(f"least{number}"),
            _for_python(type_name, F.max(value)).alias(f"greatest{number}"),
        ]
    return found


def key_range(kind: DataType, found: Row) -> KeyRange:
    """The range from the results of :func:`bounds_of`; unbounded if there are no keys."""
    values: dict[str, Any] = found.asDict()
    bounds = {
        name: Bounds(type_name, values[f"least{number}"], values[f"greatest{number}"])
        for number, name, type_name in _bounded(kind)
        if None not in (values[f"least{number}"], values[f"greatest{number}"])
    }
    return KeyRange(bounds)


def _bounded(kind: DataType) -> list[tuple[int, str, str]]:
    """The key columns for which Delta's statistics work: number, name and type."""
    assert isinstance(kind, StructType)  # noqa: S101 - the key of an event
    supported = {*_WHOLE, _DATE, _TIME, _TEXT}
    columns = [(number, one.name, one.dataType.simpleString()) for number, one in enumerate(kind.fields)]
    return [(number, name, type_name) for number, name, type_name in columns if type_name in supported]


def _for_python(kind: str, value: Column) -> Column:
    """A bound as a type that Python supports; NULL for values that do not survive the round trip."""
    if kind == _TEXT:
        return F.when((F.length(value) <= _LONGEST_TEXT) & F.is_valid_utf8(value), value)
    return {_DATE: F.unix_date, _TIME: F.unix_micros}.get(kind, lambda whole: whole)(value)


def _literal(kind: str, bound: int | str) -> Column:
    return {_DATE: F.date_from_unix_date, _TIME: F.timestamp_micros}.get(kind, lambda whole: whole)(F.lit(bound))
