"""Compares the rows of two frames, as multisets or by a key.

First, equal rows of the two sides cancel out, each with one of the other side. What is left is matched by the key.

Law: if both sides get the same rows in addition, the result stays the same. So rows that they are known to share, such
as those of shared files, need not be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.model.comparable_types import ComparedColumn
from headrace.model.differing_rows import DifferingRows
from headrace.model.field_pairs import Field
from headrace.model.table_diff import Example, ExampleKind
from headrace.spark.comparison.comparable_values import comparable_column, displayed

_JSON = {"ignoreNullFields": "false"}


class RowComparison:
    """The comparison of two frames.

    Args:
        columns: what to compare; at least one.
        key: the positions of the key's columns; empty to compare whole rows.
        examples: the maximum number of examples of each kind.
    """

    def __init__(self, columns: Sequence[ComparedColumn], key: Sequence[int], examples: int) -> None:
        self._columns = columns
        self._key = tuple(key)
        self._values = tuple(number for number in range(len(columns)) if number not in key)
        self._examples = examples

    def compare(
        self, first: DataFrame, second: DataFrame, fields: tuple[Sequence[Field], Sequence[Field]]
    ) -> DifferingRows:
        """Compare two frames; *fields* are their schemas."""
        sides = [
            frame.select(
                *(comparable_column(column, side, fields[side]).alias(_c(n)) for n, column in enumerate(self._columns)),
                F.lit(side).alias("side"),
            )
            for side, frame in enumerate((first, second))
        ]
        left = _uncancelled(sides[0].union(sides[1]), len(self._columns))
        found = (self._by_key(left) if self._key else left).persist()
        try:
            return self._keyed(found) if self._key else self._unkeyed(found)
        finally:
            found.unpersist()

    def _unkeyed(self, left: DataFrame) -> DifferingRows:
        only_first, only_second = left.agg(_total("n0"), _total("n1")).first() or (0, 0)
        frames = [
            self._shown(left.filter(F.col(f"n{side}") > 0), kind, range(len(self._columns)), self._row)
            for side, kind in enumerate((ExampleKind.ONLY_FIRST, ExampleKind.ONLY_SECOND))
        ]
        return DifferingRows(0, only_first, only_second, 0, {}, tuple(self._collected(frames)))

    def _by_key(self, left: DataFrame) -> DataFrame:
        """For each key, the number of its differing rows on each side, and the values of one of them."""
        values = F.struct(F.lit(0).alias("none"), *(F.col(_c(number)) for number in self._values))
        return left.groupBy(*(_c(number) for number in self._key)).agg(
            *(F.sum(f"n{side}").alias(f"n{side}") for side in (0, 1)),
            *(F.first(F.when(F.col(f"n{side}") > 0, values), ignorenulls=True).alias(f"v{side}") for side in (0, 1)),
        )

    def _keyed(self, keys: DataFrame) -> DifferingRows:
        is_changed = (F.col("n0") == 1) & (F.col("n1") == 1)
        is_repeated = (F.col("n0") > 1) | (F.col("n1") > 1)
        counts = keys.agg(
            _count(is_changed),
            _total("n0"),
            _total("n1"),
            _count(is_repeated),
            *(_count(is_changed & self._differs(number)) for number in self._values),
        ).first()
        changed, rows_first, rows_second, repeated, *columns = counts or (0,) * (4 + len(self._values))
        frames = [
            self._shown(keys.filter(is_changed), ExampleKind.CHANGED, self._key, self._changed_cells),
            *(
                self._shown(
                    keys.filter((F.col(f"n{side}") == 1) & (F.col(f"n{1 - side}") == 0)), kind, self._key, self._value
                )
                for side, kind in enumerate((ExampleKind.ONLY_FIRST, ExampleKind.ONLY_SECOND))
            ),
            self._shown(keys.filter(is_repeated), ExampleKind.REPEATED_KEY, self._key, lambda _number, _side: None),
        ]
        return DifferingRows(
            changed,
            rows_first - changed,
            rows_second - changed,
            repeated,
            dict(zip(self._values, columns, strict=True)),
            tuple(self._collected(frames)),
        )

    def _differs(self, number: int) -> Column:
        return ~self._value_of(number, 0).eqNullSafe(self._value_of(number, 1))

    def _value_of(self, number: int, side: int) -> Column:
        return F.col(f"v{side}").getField(_c(number))

    def _changed_cells(self, number: int, side: int) -> Column:
        return F.when(self._differs(number), self._cell(self._value_of(number, side), number))

    def _value(self, number: int, side: int) -> Column:
        return self._cell(self._value_of(number, side), number)

    def _row(self, number: int, _side: int) -> Column:
        return self._cell(F.col(_c(number)), number)

    def _cell(self, value: Column, number: int) -> Column:
        """A value as JSON in an object, so that NULL is a text too."""
        return F.to_json(F.struct(displayed(value, self._columns[number].type).alias("v")), _JSON)

    def _shown(self, frame: DataFrame, kind: ExampleKind, order: Sequence[int], cell: Any) -> DataFrame:
        """The first examples of a kind as texts: the key, and for each side the other columns."""
        key = [self._row(number, 0) for number in self._key]
        first = [cell(number, 0) for number in self._values]
        second = [cell(number, 1) for number in self._values]
        numbered = frame.orderBy(*(_c(number) for number in order)).limit(self._examples)
        return numbered.select(
            F.lit(kind.value).alias("kind"), _texts(key), _texts(first), _texts(second), F.col("n0"), F.col("n1")
        )

    def _collected(self, frames: Sequence[DataFrame]) -> Iterator[Example]:
        if not self._examples:
            return
        shown = frames[0]
        for frame in frames[1:]:
            shown = shown.union(frame)
        for kind, key, first, second, rows_first, rows_second in shown.collect():
            yield Example(
                ExampleKind(kind),
                self._named(self._key, key),
                self._named(self._values, first) if kind != ExampleKind.ONLY_SECOND.value else {},
                self._named(self._values, second) if kind != ExampleKind.ONLY_FIRST.value else {},
                (rows_first, rows_second),
            )

    def _named(self, numbers: Sequence[int], cells: Sequence[str | None]) -> dict[str, Any]:
        pairs = zip(numbers, cells, strict=True)
        return {self._columns[number].name: json.loads(cell)["v"] for number, cell in pairs if cell is not None}


def _uncancelled(sides: DataFrame, columns: int) -> DataFrame:
    """Each row that one side has more often than the other, with the surplus of the sides as ``n0`` and ``n1``."""
    counted = sides.groupBy(*(_c(number) for number in range(columns))).agg(
        *(_count(F.col("side") == side).alias(f"m{side}") for side in (0, 1))
    )
    return counted.filter(F.col("m0") != F.col("m1")).select(
        *(_c(number) for number in range(columns)),
        F.greatest(F.col("m0") - F.col("m1"), F.lit(0)).alias("n0"),
        F.greatest(F.col("m1") - F.col("m0"), F.lit(0)).alias("n1"),
    )


def _texts(cells: Sequence[Column | None]) -> Column:
    return F.array(*(F.lit(None).cast("string") if cell is None else cell for cell in cells)).cast("array<string>")


def _count(condition: Column) -> Column:
    return F.count(F.when(condition, F.lit(1)))


def _total(name: str) -> Column:
    return F.coalesce(F.sum(name), F.lit(0))


def _c(number: int) -> str:
    return f"c{number}"
