"""Updates the groups of an aggregate from their stored rows and the changed rows alone.

Each changed row counts with its sign. A group whose values do not follow from that is named, and is then computed from
all of its rows: it has lost its minimum, or it may have lost its last row and the view does not count rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.model.names import quoted
from headrace.spark.analysis.merge_rules import MergedAggregate, MergeKind, MergeRule
from headrace.spark.cdc.batch_cache import BatchCache, is_small
from headrace.spark.refresh.group_rows import with_average
from headrace.spark.refresh.pinned_query import PinnedQuery
from headrace.spark.refresh.pinned_tables import MORE
from headrace.spark.refresh.signed_rows import SignedRows

_OF = "__headrace_"
_ROWS, _WAS, _IS, _UNKNOWN, _SAME = (f"{_OF}{name}" for name in ("rows", "was", "is", "unknown", "same"))
_AVERAGE = f"{_OF}average"


@dataclass(frozen=True)
class MergedGroups:
    """The groups whose rows differ from the stored ones, or may differ.

    Attributes:
        groups: their keys and values, cached.
        number: how many they are.
        unknown: for how many the values do not follow from the changes.
        added: how many are there now.
        removed: how many are in the view.
        hides_groups: whether the query hides some of those that are there.
    """

    groups: DataFrame
    number: int
    unknown: int
    added: int
    removed: int
    hides_groups: bool

    def keys(self, columns: Sequence[str]) -> DataFrame:
        """The keys of the groups, with the names of the view's columns."""
        # A view may group by one column twice.
        numbers = {name: number for number, name in enumerate(columns)}
        return self.groups.select(*(F.col(_key(number)).alias(name) for name, number in numbers.items()))

    def keys_in_order(self, *, unknown_only: bool = False) -> DataFrame:
        """The keys of the groups in the order of the query's."""
        groups = self.groups.filter(_UNKNOWN) if unknown_only else self.groups
        return groups.select(*(name for name in groups.columns if name.startswith(_key_prefix())))

    def known(self) -> DataFrame:
        """Keys and values of the groups that are there now, and follow from the changes."""
        return self.groups.filter(F.col(_IS) & ~F.col(_UNKNOWN))


class _Values:
    """The values of one aggregate in the rows of a join of groups that changed with stored groups."""

    def __init__(self, rule: MergeRule, number: int, *, rows_are_there: bool) -> None:
        self._rule = rule
        self._number = number
        self._one = rule.aggregates[number]
        self._rows_are_there = rows_are_there

    def now(self, kind: str) -> tuple[Column, Column]:
        """The value, and whether it does not follow; *kind* is its type."""
        one, number = self._one, self._number
        if one.kind is MergeKind.COUNT:
            return _stored_count(number) + F.col(_counted(number)), F.lit(col=False)
        if one.kind is MergeKind.SUM:
            return self._sum(kind)
        return self._extreme()

    def _sum(self, kind: str) -> tuple[Column, Column]:
        stored, number = F.col(_stored(self._number)), self._number
        more, less = (F.coalesce(F.col(part), F.lit(0).cast(kind)) for part in (_plus(number), _minus(number)))
        before = F.coalesce(stored, F.lit(0).cast(kind))
        if self._one.digits is None:
            value = F.try_subtract(F.try_add(before, more), less)
        else:
            value = (before + more - less).cast(kind)
        counter, unknown = self._one.counted_by, F.lit(col=False)
        if counter is not None:
            has_values = _stored_count(counter) + F.col(_counted(counter)) > 0
            unknown = stored.isNull() & (_stored_count(counter) > 0)
        else:
            has_values = stored.isNotNull() | (F.col(_counted(number)) > 0)
            unknown = stored.isNotNull() & (F.col(_counted(number)) < 0)
        return F.when(has_values, value), unknown | (has_values & value.isNull())

    def _extreme(self) -> tuple[Column, Column]:
        stored, added, removed = (F.col(name(self._number)) for name in (_stored, _plus, _minus))
        is_min = self._one.kind is MergeKind.MIN
        # All rows that are gone are beyond the stored value.
        is_kept = removed.isNull() | ((removed > stored) if is_min else (removed < stored))
        value = F.when(is_kept, (F.least if is_min else F.greatest)(stored, added))
        known = F.coalesce(is_kept, F.lit(col=False))
        if self._rows_are_there:
            is_beyond = (added <= stored) if is_min else (added >= stored)
            value = value.when(is_beyond, added)
            known |= F.coalesce(is_beyond, F.lit(col=False))
        return value, ~known


def merged_groups(
    query: PinnedQuery,
    rule: MergeRule,
    signed: SignedRows,
    stored: DataFrame,
    cache: BatchCache,
    *,
    is_small_view: bool,
) -> MergedGroups | None:
    """The groups that changed, with their new values; None if their list is too long to be broadcast.

    Args:
        query: the query.
        rule: how its groups are updated.
        signed: the changed rows.
        stored: the rows of the view.
        cache: keeps the groups.
        is_small_view: whether to read all rows of the view, instead of finding those of the groups that changed.
    """
    columns = query.query.columns
    changes = _changes(query, rule, signed)
    if not is_small_view and columns:
        changes = cache.eager(changes)
        if not is_small(changes):
            return None
    groups = cache.eager(_differing(query, rule, changes, stored, signed, is_small_view=is_small_view))
    if not is_small(groups):
        return None
    # To take them costs one job; to count them in Spark, two.
    flags = groups.select(_UNKNOWN, _IS, _WAS).toArrow()
    unknown, added, removed = (int(pc.sum(column).as_py() or 0) for column in flags.columns)
    return MergedGroups(groups, flags.num_rows, unknown, added, removed, rule.hides_groups)


def _differing(
    query: PinnedQuery,
    rule: MergeRule,
    changes: DataFrame,
    stored: DataFrame,
    signed: SignedRows,
    *,
    is_small_view: bool,
) -> DataFrame:
    """The groups whose values differ from the stored ones, or may differ; arguments as above."""
    columns = query.query.columns
    types = {field.name: field.dataType.simpleString() for field in stored.schema.fields}
    joined = changes.join(
        _stored_groups(rule, columns, stored, None if is_small_view else changes), _same_keys(len(columns)), "left"
    )
    joined = joined.withColumn(_WAS, F.coalesce(F.col(_WAS), F.lit(col=False)))
    is_there, unknown = _existence(rule, is_global=not columns)
    values: dict[str, Column] = {}
    doubts = F.lit(col=False)
    for number, one in enumerate(rule.aggregates):
        if one.kind is not MergeKind.AVERAGE:
            kind = types[str(one.column)]
            value, doubt = _Values(rule, number, rows_are_there=signed.come_from_one_table).now(kind)
            values[_value(number)] = value.cast(kind)
            doubts |= doubt
    keys = [
        F.when(F.col(_WAS), F.col(_old_key(n))).otherwise(F.col(_key(n))).alias(_key(n)) for n in range(len(columns))
    ]
    stored_values = [_stored(n) for n, one in enumerate(rule.aggregates) if one.column is not None]
    found = joined.select(
        *keys,
        *(value.alias(name) for name, value in values.items()),
        *stored_values,
        _WAS,
        is_there.alias(_IS),
        (unknown | (is_there & doubts)).alias(_UNKNOWN),
    )
    for number, one in enumerate(rule.aggregates):
        if one.kind is MergeKind.AVERAGE:
            found = _with_average(query, found, number, one)
    differs = F.col(_UNKNOWN) | (F.col(_WAS) != F.col(_IS))
    for number, one in enumerate(rule.aggregates):
        if one.column is not None:
            differs |= F.col(_IS) & ~F.col(_value(number)).eqNullSafe(F.col(_stored(number)))
    return found.filter(differs).drop(*stored_values)


def values_by_name(query: PinnedQuery, rule: MergeRule) -> Mapping[str, object]:
    """The parts of the expressions of an aggregate whose values :class:`MergedGroups` has, by the column's name."""
    aggregates = {_value(number): one.expression for number, one in enumerate(rule.aggregates)}
    return {**aggregates, **{_key(number): key for number, key in enumerate(query.query.keys)}}


def _changes(query: PinnedQuery, rule: MergeRule, signed: SignedRows) -> DataFrame:
    """What the changed rows add to each group and take away from it."""
    expressions, names = list(query.query.keys), [_key(number) for number in range(len(query.query.keys))]
    for number, one in enumerate(rule.aggregates):
        expressions += [*one.arguments, *one.conditions]
        names += [_argument(number, part) for part in range(len(one.arguments))]
        names += [_condition(number, part) for part in range(len(one.conditions))]
    rows = signed.values(expressions, names)
    aggregates = [F.coalesce(F.sum(MORE), F.lit(0)).alias(_ROWS)]
    for number, one in enumerate(rule.aggregates):
        aggregates += _change(number, one, is_signed=not signed.are_added)
    return rows.groupBy(*(_key(number) for number in range(len(query.query.keys)))).agg(*aggregates)


def _change(number: int, one: MergedAggregate, *, is_signed: bool) -> list[Column]:
    """What changed rows add to an aggregate and take away from it."""
    counts = F.lit(col=True)
    for part in range(len(one.conditions)):
        counts &= F.coalesce(F.col(_condition(number, part)), F.lit(col=False))
    for part in range(len(one.arguments)):
        counts &= F.col(_argument(number, part)).isNotNull()
    counted = F.coalesce(F.sum(F.when(counts, F.col(MORE))), F.lit(0)).alias(_counted(number))
    if one.kind is MergeKind.COUNT:
        return [counted]
    if one.kind is MergeKind.AVERAGE:
        return []
    value = F.col(_argument(number, 0))
    fold = {MergeKind.SUM: F.sum, MergeKind.MIN: F.min, MergeKind.MAX: F.max}[one.kind]
    plus = fold(F.when(counts & (F.col(MORE) > 0), value)).alias(_plus(number))
    gone = F.when(counts & (F.col(MORE) < 0), value)
    minus = (fold(gone) if is_signed else fold(F.when(F.lit(col=False), value))).alias(_minus(number))
    return [counted, plus, minus] if one.kind is MergeKind.SUM else [plus, minus]


def _stored_groups(rule: MergeRule, columns: Sequence[str], stored: DataFrame, changes: DataFrame | None) -> DataFrame:
    """Keys and values of the stored groups; of those that changed only, if these are given."""
    keys = [F.col(quoted(name)).alias(_old_key(number)) for number, name in enumerate(columns)]
    values = [
        F.col(quoted(one.column)).alias(_stored(number))
        for number, one in enumerate(rule.aggregates)
        if one.column is not None
    ]
    groups = stored.select(*keys, *values, F.lit(col=True).alias(_WAS))
    if not columns or changes is None:
        return groups
    return groups.join(
        F.broadcast(changes.select(*(_key(n) for n in range(len(columns))))), _same_keys(len(columns)), "left_semi"
    )


def _same_keys(number: int) -> Column:
    found = F.lit(col=True)
    for position in range(number):
        same = F.col(_key(position)).eqNullSafe(F.col(_old_key(position)))
        found = same if position == 0 else found & same
    return found


def _existence(rule: MergeRule, *, is_global: bool) -> tuple[Column, Column]:
    """Whether a group has rows, and whether that is unknown."""
    was, more = F.col(_WAS), F.col(_ROWS)
    hidden = ~was if rule.hides_groups or is_global else F.lit(col=False)
    if is_global:
        return F.lit(col=True), hidden
    if rule.rows_counted_by is not None:
        return _stored_count(rule.rows_counted_by) + more > 0, hidden
    return was | (more > 0), hidden | (was & (more < 0))


def _with_average(query: PinnedQuery, found: DataFrame, number: int, one: MergedAggregate) -> DataFrame:
    """Groups with one more average, computed as Spark does from the sum and the count of all rows."""
    if one.summed_by is None or one.counted_by is None:
        raise AssertionError("an average is merged from a sum and a count")
    total, counted = F.col(_value(one.summed_by)), F.col(_value(one.counted_by))
    if one.is_average_of_doubles and one.digits is not None:
        digits, scale = one.digits
        unscaled = (total * F.lit(10**scale)).cast("bigint").cast("double")
        mean = F.when(counted > 0, unscaled / counted.cast("double") / F.lit(float(10**scale)))
        found = found.withColumn(_value(number), mean.cast(f"decimal({digits + 4},{scale + 4})"))
    else:
        exact = total.cast("double") if one.digits is None else total
        summed = f"{_AVERAGE}_sum"
        columns = (summed, _value(one.counted_by))
        function = one.expression.aggregateFunction()
        found = with_average(query.nodes, found.withColumn(summed, exact), function, columns, _value(number)).drop(
            summed
        )
    if one.exact_rows is None:
        return found
    return found.withColumn(_UNKNOWN, F.col(_UNKNOWN) | (F.col(_IS) & (counted >= one.exact_rows)))


def _stored_count(number: int) -> Column:
    return F.coalesce(F.col(_stored(number)), F.lit(0))


def _key_prefix() -> str:
    return f"{_OF}key_"


def _key(number: int) -> str:
    return f"{_key_prefix()}{number}"


def _old_key(number: int) -> str:
    return f"{_OF}old_key_{number}"


def _value(number: int) -> str:
    return f"{_OF}value_{number}"


def _stored(number: int) -> str:
    return f"{_OF}stored_{number}"


def _counted(number: int) -> str:
    return f"{_OF}counted_{number}"


def _plus(number: int) -> str:
    return f"{_OF}plus_{number}"


def _minus(number: int) -> str:
    return f"{_OF}minus_{number}"


def _argument(number: int, part: int) -> str:
    return f"{_OF}argument_{number}_{part}"


def _condition(number: int, part: int) -> str:
    return f"{_OF}condition_{number}_{part}"
