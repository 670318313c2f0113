"""Finds the smallest sets of columns that are unique together in the rows of a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import prod

import numpy as np

from headrace.assistant.design.sampling.sample import ColumnMeasure, ColumnSet
from headrace.assistant.design.sampling.value_codes import Codes, combined, is_first

MOST_COLUMNS = 3
# More columns have too many sets: 14 have 455.
_MOST_CANDIDATES = 14
# Sets that repeat among these rows need no look at all rows.
_FIRST_ROWS = 1_000
_TIMES = ("date", "timestamp", "timestamp_ntz")
_TYPES = ("string", "integer", "long", *_TIMES)


def unique_sets(columns: Sequence[ColumnMeasure], codes: Mapping[str, Codes], rows: Codes) -> tuple[ColumnSet, ...]:
    """The sets of two columns that are unique together, or those of three if there are none of two.

    Repeated rows count once. There are no sets if a column is unique alone; a time that is unique alone is in no set.

    Args:
        columns: of the sample.
        codes: a number for each value of a column, the same for equal values.
        rows: a number for each row, the same for equal rows.
    """
    first = is_first(rows)
    count = int(first.sum())
    if any(column.type in _TYPES and column.type not in _TIMES and column.distinct == count for column in columns):
        return ()
    candidates = [column for column in columns if _can_be_part(column, count)][:_MOST_CANDIDATES]
    distinct = {column.name: codes[column.name][first] for column in candidates}
    for size in range(2, MOST_COLUMNS + 1):
        found = tuple(_unique(candidates, distinct, count, size))
        if found:
            return found
    return ()


def _can_be_part(column: ColumnMeasure, rows: int) -> bool:
    return column.type in _TYPES and not column.nulls and 1 < column.distinct < rows


def _unique(
    candidates: Sequence[ColumnMeasure], codes: Mapping[str, Codes], rows: int, size: int
) -> Iterator[ColumnSet]:
    for columns in combinations(candidates, size):
        possible = prod(column.distinct for column in columns)
        if possible < rows:
            continue
        values = [codes[column.name] for column in columns]
        # Most sets repeat within a few rows.
        if _is_unique([value[:_FIRST_ROWS] for value in values]) and _is_unique(values):
            yield ColumnSet(tuple(column.name for column in columns), rows, possible)


def _is_unique(values: Sequence[Codes]) -> bool:
    rows = len(values[0])
    return len(np.unique(combined(values, rows))) == rows
