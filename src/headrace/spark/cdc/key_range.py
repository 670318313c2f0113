"""Between which keys a batch lies: files of a table that hold no such keys are passed over, by their statistics.

Partitions are passed over by it as well, where a table is partitioned by columns of its key.
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
# Beyond, a text would make plans and logs long.
_LONGEST_TEXT = 256


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value of a column of a key.

    Args:
        kind: the type of the column, as Spark spells it.
        least: as :func:`bounds_of` asks for it: dates in days and times in microseconds since 1970, because Python
            knows others than Spark.
        greatest: the same.
    """

    kind: str
    least: int | str
    greatest: int | str

    def holds(self, column: Column) -> Column:
        """True for values that lie between them, in words by which Delta passes over files."""
        return (column >= _literal(self.kind, self.least)) & (column <= _literal(self.kind, self.greatest))


@dataclass(frozen=True)
class KeyRange:
    """The bounds of columns of a key; of columns that are not named it says nothing."""

    bounds: Mapping[str, Bounds] = field(default_factory=dict)

    def holds(self, column: Callable[[str], Column]) -> Column:
        """True for rows that lie in it, of which *column* gives the key's columns; NULL for rows without a key."""
        found = F.lit(True)
        for name, bounds in self.bounds.items():
            found = found & bounds.holds(column(name))
        return found


def bounds_of(kind: DataType, key: str, counted: Column | None = None) -> list[Column]:
    """Aggregates that :func:`key_range` understands.

    Args:
        kind: of the key, a struct.
        key: its column.
        counted: true for the rows that matter; NULL keys never do.
    """
    found = []
    for number, name, spelled in _bounded(kind):
        value = F.col(f"{key}.{quoted(name)}")
        value = value if counted is None else F.when(counted, value)
        found += [
            _for_python(spelled, F.min(value)).alias(f"least{number}"),
            _for_python(spelled, F.max(value)).alias(f"greatest{number}"),
        ]
    return found


def key_range(kind: DataType, found: Row) -> KeyRange:
    """The range that aggregates of :func:`bounds_of` have found; one without bounds where there are no keys."""
    said: dict[str, Any] = found.asDict()
    bounds = {
        name: Bounds(spelled, said[f"least{number}"], said[f"greatest{number}"])
        for number, name, spelled in _bounded(kind)
        if None not in (said[f"least{number}"], said[f"greatest{number}"])
    }
    return KeyRange(bounds)


def _bounded(kind: DataType) -> list[tuple[int, str, str]]:
    """The columns of a key whose values have an order which files know, too: number, name and type."""
    assert isinstance(kind, StructType)  # noqa: S101 - what a frame of events is
    known = {*_WHOLE, _DATE, _TIME, _TEXT}
    named = [(number, one.name, one.dataType.simpleString()) for number, one in enumerate(kind.fields)]
    return [(number, name, spelled) for number, name, spelled in named if spelled in known]


def _for_python(kind: str, value: Column) -> Column:
    """A bound as Python can have it; NULL for what cannot be brought there and back."""
    if kind == _TEXT:
        return F.when((F.length(value) <= _LONGEST_TEXT) & F.is_valid_utf8(value), value)
    return {_DATE: F.unix_date, _TIME: F.unix_micros}.get(kind, lambda whole: whole)(value)


def _literal(kind: str, bound: int | str) -> Column:
    return {_DATE: F.date_from_unix_date, _TIME: F.timestamp_micros}.get(kind, lambda whole: whole)(F.lit(bound))
