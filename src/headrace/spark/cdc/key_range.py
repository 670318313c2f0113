"""Between which keys a batch lies: files of a table that hold no such keys are passed over, by their statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, Row
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from headrace.model.names import quoted

# Of texts and dates Python knows others than Spark.
_BOUNDED = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class KeyRange:
    """The least and the greatest value of key columns; of columns that are not named it says nothing."""

    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def holds(self, column: Callable[[str], Column]) -> Column:
        """True for rows that lie in it, of which *column* gives the key's columns; NULL for rows without a key."""
        found = F.lit(True)
        for name, (least, greatest) in self.bounds.items():
            found = found & column(name).between(F.lit(least), F.lit(greatest))
        return found


def bounds_of(kind: DataType, key: str, counted: Column | None = None) -> list[Column]:
    """Aggregates that :func:`key_range` understands.

    Args:
        kind: of the key, a struct.
        key: its column.
        counted: true for the rows that matter; NULL keys never do.
    """
    found = []
    for number, name in _bounded(kind):
        value = F.col(f"{key}.{quoted(name)}")
        value = value if counted is None else F.when(counted, value)
        found += [F.min(value).alias(f"least{number}"), F.max(value).alias(f"greatest{number}")]
    return found


def key_range(kind: DataType, found: Row) -> KeyRange:
    """The range that aggregates of :func:`bounds_of` have found; one without bounds where there are no keys."""
    said: dict[str, Any] = found.asDict()
    bounds = {name: (said[f"least{number}"], said[f"greatest{number}"]) for number, name in _bounded(kind)}
    return KeyRange({name: pair for name, pair in bounds.items() if None not in pair})


def _bounded(kind: DataType) -> list[tuple[int, str]]:
    """The columns of a key whose values have an order which files know, too."""
    assert isinstance(kind, StructType)  # noqa: S101 - what a frame of events is
    return [(number, one.name) for number, one in enumerate(kind.fields) if one.dataType.simpleString() in _BOUNDED]
