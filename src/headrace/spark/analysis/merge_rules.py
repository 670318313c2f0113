"""Finds out whether the groups of a query follow from the stored rows of its view and the changed rows alone.

That is so if each aggregate function can be updated, and if a column of the view has its value: a count, a sum of exact
numbers, a minimum or maximum, and an average whose sum and count are columns of the view too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from headrace.spark.analysis.plan_columns import column_of, value_of
from headrace.spark.jvm.plan_nodes import items, node_kind

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
# Integers whose sums as DOUBLE are exact for many rows, see ``EXACT_ROWS``.
_SHORT_INTEGERS = _INTEGERS - {"BIGINT"}
# Types whose values are the same if they are equal.
_ORDERED = _INTEGERS | {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING", "BOOLEAN", "BINARY"}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(-?\d+)\)")
# The sum of so many digits has room for the sums of all rows that a table may have.
_MAX_SUM_DIGITS = 26
# Spark computes averages of so many digits as DOUBLE.
_DOUBLE_DIGITS = 11


class MergeKind(Enum):
    """How an aggregate is updated."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    AVERAGE = "avg"


_KINDS = {
    "Count": MergeKind.COUNT,
    "CountIf": MergeKind.COUNT,
    "Sum": MergeKind.SUM,
    "Average": MergeKind.AVERAGE,
    "Min": MergeKind.MIN,
    "BoolAnd": MergeKind.MIN,
    "Max": MergeKind.MAX,
    "BoolOr": MergeKind.MAX,
}


@dataclass(frozen=True)
class MergedAggregate:
    """An aggregate that can be updated.

    Attributes:
        kind: how.
        expression: the aggregate expression of the plan.
        arguments: what it aggregates, over the rows below the aggregate; rows with NULL in one of them do not count.
        conditions: which rows it aggregates: those for which all of them are true.
        column: the column of the view with its value; None for an average without one.
        counted_by: the position of the aggregate that counts the values; None if the view has none.
        summed_by: the position of the aggregate that sums them; for averages.
        digits: precision and scale of its decimals; None for other types.
    """

    kind: MergeKind
    expression: Any
    arguments: tuple[Any, ...]
    conditions: tuple[Any, ...]
    column: str | None
    counted_by: int | None = None
    summed_by: int | None = None
    digits: tuple[int, int] | None = None

    @property
    def is_average_of_doubles(self) -> bool:
        """Whether Spark computes this average of decimals with numbers of type DOUBLE."""
        return self.digits is not None and self.digits[0] <= _DOUBLE_DIGITS

    @property
    def exact_rows(self) -> int | None:
        """From so many rows on, Spark may round inside this average; None if it never does."""
        if self.digits is not None and not self.is_average_of_doubles:
            return None
        return int(2**53 // (2**31 if self.digits is None else 10 ** self.digits[0]))


@dataclass(frozen=True)
class MergeRule:
    """How the groups of a query are updated.

    Attributes:
        aggregates: its aggregate functions.
        rows_counted_by: the position of the one that counts the rows of a group; None if the view has none.
        hides_groups: whether groups that exist may be missing from the view.
    """

    aggregates: tuple[MergedAggregate, ...]
    rows_counted_by: int | None
    hides_groups: bool


def merge_rule(node: Any, above: list[Any], outputs: Sequence[Any]) -> MergeRule | str:
    """How the groups of an aggregate are updated; why they cannot be otherwise.

    Args:
        node: the aggregate.
        above: the operators above it, from the top down.
        outputs: its expressions; none for DISTINCT.
    """
    found: list[MergedAggregate] = []
    for expression in _different(_aggregates(outputs)):
        ids = {int(one.exprId().id()) for one in outputs if value_of(one).semanticEquals(expression)}
        merged = _merged(expression, column_of(ids, node, above))
        if isinstance(merged, str):
            return merged
        found.append(merged)
    rows = next((number for number, one in enumerate(found) if _counts_rows(one)), None)
    linked = [replace(one, counted_by=_counter(one, found, rows), summed_by=_summer(one, found)) for one in found]
    for one in linked:
        if one.kind is MergeKind.AVERAGE and (one.counted_by is None or one.summed_by is None):
            return f"{_text(one.expression)} needs the sum and the count of the same values in the view"
    hides = any(node_kind(operator) == "Filter" for operator in above)
    return MergeRule(tuple(linked), rows, hides)


def _aggregates(expressions: Iterable[Any]) -> Iterable[Any]:
    for expression in expressions:
        if node_kind(expression) == "AggregateExpression":
            yield expression
        else:
            yield from _aggregates(items(expression.children()))


def _different(expressions: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for expression in expressions:
        if not any(known.semanticEquals(expression) for known in found):
            found.append(expression)
    return found


def _merged(expression: Any, column: str | None) -> MergedAggregate | str:
    function = expression.aggregateFunction()
    kind = _KINDS.get(node_kind(function))
    if kind is None or expression.isDistinct():
        return f"{_text(expression)} is computed from all rows of a group"
    children, condition = list(items(function.children())), expression.filter()
    conditions = [] if condition.isEmpty() else [condition.get()]
    if node_kind(function) == "CountIf":
        children, conditions = [], [*conditions, *children]
    if column is None and kind is not MergeKind.AVERAGE:
        return f"the view has no column with {_text(expression)}"
    digits = None
    if kind is not MergeKind.COUNT:
        text = str(children[0].dataType().sql())
        decimal = _DECIMAL.fullmatch(text)
        digits = (int(decimal[1]), int(decimal[2])) if decimal else None
        if not _is_exact(kind, text, digits) or _is_tried(function):
            return f"{_text(expression)} of type {text} is computed from all rows of a group"
    return MergedAggregate(kind, expression, tuple(children), tuple(conditions), column, digits=digits)


def _is_exact(kind: MergeKind, text: str, digits: tuple[int, int] | None) -> bool:
    if kind in (MergeKind.MIN, MergeKind.MAX):
        return digits is not None or text in _ORDERED
    if digits is not None:
        return digits[0] <= _MAX_SUM_DIGITS and digits[1] >= 0
    return text in (_INTEGERS if kind is MergeKind.SUM else _SHORT_INTEGERS)


def _is_tried(function: Any) -> bool:
    """Whether an overflow makes the result NULL."""
    kind = node_kind(function)
    if kind not in ("Sum", "Average"):
        return False
    mode = function.evalContext().evalMode() if kind == "Sum" else function.evalMode()
    return str(mode.toString()) == "TRY"


def _counts_rows(one: MergedAggregate) -> bool:
    is_count = one.kind is MergeKind.COUNT and not one.conditions
    return is_count and not any(argument.nullable() for argument in one.arguments)


def _counter(one: MergedAggregate, others: list[MergedAggregate], rows: int | None) -> int | None:
    if one.kind not in (MergeKind.SUM, MergeKind.AVERAGE):
        return None
    if rows is not None and not one.conditions and not one.arguments[0].nullable():
        return rows
    return _same(one, others, MergeKind.COUNT)


def _summer(one: MergedAggregate, others: list[MergedAggregate]) -> int | None:
    return _same(one, others, MergeKind.SUM) if one.kind is MergeKind.AVERAGE else None


def _same(one: MergedAggregate, others: list[MergedAggregate], kind: MergeKind) -> int | None:
    """The position of an aggregate of another kind of the same values."""

    def equal(some: Sequence[Any], more: Sequence[Any]) -> bool:
        return len(some) == len(more) and all(a.semanticEquals(b) for a, b in zip(some, more, strict=True))

    for number, other in enumerate(others):
        if other.kind is kind and equal(one.arguments, other.arguments) and equal(one.conditions, other.conditions):
            return number
    return None


def _text(expression: Any) -> str:
    return str(expression.sql())
