"""What a refresh changes in the rows of a view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType

from headrace.model.comparable_types import compared_columns
from headrace.model.names import quoted
from headrace.spark.cdc.batch_cache import BatchCache, cached_bytes, is_small
from headrace.spark.comparison.comparable_values import comparable_column
from headrace.spark.refresh.pinned_tables import exact_text

_KEY, _VALUE, _TEXT = "__headrace_key_", "__headrace_value_", "__headrace_text_"
_NOW, _BEFORE, _ADDED, _REMOVED = "__headrace_now", "__headrace_before", "__headrace_added", "__headrace_removed"


class NeedsAllRows(Exception):
    """The view has to be refreshed in full, for this reason."""


@dataclass(frozen=True)
class ViewChange:
    """What changes in a view.

    Attributes:
        keys: the keys of the groups that change, with the names of the view's columns; None if *removed* is 0 or all
            rows of the view are replaced.
        rows: the new rows of these groups.
        changed: how many rows of the view change: are added, removed, or get other values.
        added: how many new rows the groups have.
        removed: how many stored rows they have.
        size_bytes: how many bytes the cached rows take from which the new ones are computed.
    """

    keys: DataFrame | None
    rows: DataFrame
    changed: int
    added: int
    removed: int
    size_bytes: int


def with_small_broadcast(frame: DataFrame) -> DataFrame:
    """A cached frame with a hint to broadcast it if it is small."""
    return F.broadcast(frame) if is_small(frame) else frame


def in_groups(rows: DataFrame, keys: DataFrame, columns: Sequence[str], *, matching: bool = True) -> DataFrame:
    """The rows of a view in the groups with these keys, or in all others.

    Args:
        rows: the rows.
        keys: the keys, in the order of *columns*.
        columns: the columns of the view that hold them.
        matching: whether the rows in these groups are wanted.
    """
    renamed = keys.toDF(*(f"{_KEY}{number}" for number in range(len(columns))))
    return rows.join(renamed, _same(columns), "left_semi" if matching else "left_anti")


def removed_rows(change: ViewChange, stored: DataFrame) -> DataFrame:
    """The stored rows that a change removes."""
    if not change.removed:
        return stored.limit(0)
    return stored if change.keys is None else in_groups(stored, F.broadcast(change.keys), change.keys.columns)


def is_stored_otherwise(keys: DataFrame, partition_by: Sequence[str]) -> bool:
    """Whether some keys may differ from what a partitioned table has for them: Delta stores empty texts as NULL."""
    texts = [
        name
        for name in partition_by
        if name in keys.columns and isinstance(keys.schema[name].dataType, StringType | BinaryType)
    ]
    empty = [F.col(quoted(name)).isNull() | (F.length(quoted(name)) == 0) for name in texts]
    return bool(texts) and not keys.filter(reduce(or_, empty)).isEmpty()


def difference(before: DataFrame, now: DataFrame, columns: Sequence[str], cache: BatchCache) -> ViewChange | None:
    """What changes between the stored and the new rows of some groups; None for nothing.

    Args:
        before: the stored rows.
        now: the new rows, cached.
        columns: the columns with the keys of the groups.
        cache: keeps the keys of the groups that differ.
    """
    groups = cache.eager(_differing(before, now, columns))
    total = F.greatest(F.col(_ADDED), F.col(_REMOVED))
    counted = groups.agg(F.count("*"), F.sum(total), F.sum(_NOW), F.sum(_BEFORE)).first()
    if counted is None or not counted[0]:
        return None
    changed, added, removed = (int(number) for number in counted[1:])
    if not columns:
        return ViewChange(None, now, changed, added, removed, cached_bytes(now))
    matched = with_small_broadcast(groups)
    rows = now.join(matched, _same(columns), "left_semi")
    # A view may group by one column twice.
    numbers = {name: number for number, name in enumerate(columns)}
    keys = groups.select(*(F.col(f"{_KEY}{number}").alias(name) for name, number in numbers.items()))
    return ViewChange(keys, rows, changed, added, removed, cached_bytes(now))


def _same(columns: Sequence[str]) -> Column:
    found = F.lit(col=True)
    for number, name in enumerate(columns):
        same = F.col(quoted(name)).eqNullSafe(F.col(f"{_KEY}{number}"))
        found = same if number == 0 else found & same
    return found


def _differing(before: DataFrame, now: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The keys of the groups whose rows differ, with the numbers of their rows, and of those that only one side has."""
    fields = now.schema.jsonValue()["fields"]
    compared = compared_columns(fields, fields)
    sides = [
        frame.select(
            *(F.col(quoted(name)).alias(f"{_KEY}{number}") for number, name in enumerate(keys)),
            *(comparable_column(one, 0, fields).alias(f"{_VALUE}{number}") for number, one in enumerate(compared)),
            *(exact_text(frame, one.names[0]).alias(f"{_TEXT}{number}") for number, one in enumerate(compared)),
            F.lit(is_now).alias(_NOW),
            F.lit(1 - is_now).alias(_BEFORE),
        )
        for frame, is_now in ((before, 0), (now, 1))
    ]
    key_names = [f"{_KEY}{number}" for number in range(len(keys))]
    value_names = [f"{part}{number}" for part in (_VALUE, _TEXT) for number in range(len(compared))]
    sums = [F.sum(_NOW).alias(_NOW), F.sum(_BEFORE).alias(_BEFORE)]
    rows = sides[0].union(sides[1]).groupBy(*key_names, *value_names).agg(*sums)
    more = F.col(_NOW) - F.col(_BEFORE)
    return (
        rows.groupBy(*key_names)
        .agg(
            *sums,
            F.sum(F.greatest(more, F.lit(0))).alias(_ADDED),
            F.sum(F.greatest(-more, F.lit(0))).alias(_REMOVED),
        )
        .filter((F.col(_ADDED) > 0) | (F.col(_REMOVED) > 0))
    )
