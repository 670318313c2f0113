"""Criteria of an erasure as conditions over the columns of a table."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.model.erasure import Criterion, NotComparable, find_column, typed_value
from headrace.model.names import quoted
from headrace.model.schema import Schema


def condition_of(criteria: Iterable[Criterion], schema: Schema, prefixes: Iterable[tuple[str, ...]] = ((),)) -> Column:
    """The condition that a row meets all criteria; the values are literals, never SQL.

    Args:
        criteria: the criteria.
        schema: the columns of the table.
        prefixes: the structs in which the columns may be; a row matches if one of them does.

    Raises:
        NotComparable: the table lacks a column, or it cannot be compared; the text says why.
    """
    found = tuple(prefixes)
    return reduce(Column.__and__, [_condition(criterion, schema, found) for criterion in criteria])


def _condition(criterion: Criterion, schema: Schema, prefixes: Iterable[tuple[str, ...]]) -> Column:
    columns = [found for prefix in prefixes if (found := find_column(schema, (*prefix, *criterion.column)))]
    if not columns:
        raise NotComparable(f"has no column {criterion.name}")
    return reduce(Column.__or__, [_equals(names, kind, criterion.text) for names, kind in columns])


def _equals(names: tuple[str, ...], kind: Any, text: str) -> Column:
    value = typed_value(text, kind)
    return F.lit(False) if value is None else F.col(quoted(*names)) == F.lit(value)  # noqa: FBT003 - a value
