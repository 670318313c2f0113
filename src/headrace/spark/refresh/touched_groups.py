"""The groups of a view that changes of its tables touch, computed again and compared with the stored ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.model.comparable_types import compared_columns
from headrace.model.names import quoted
from headrace.spark.cdc.batch_cache import BatchCache, is_small
from headrace.spark.comparison.comparable_values import comparable_column
from headrace.spark.refresh.pinned_query import PinnedQuery
from headrace.spark.refresh.pinned_tables import MORE, exact_text

_TEXT = "__headrace_text_"
_KEY, _VALUE, _ADDED, _REMOVED = "__headrace_key_", "__headrace_value_", "__headrace_added", "__headrace_removed"


@dataclass(frozen=True)
class GroupChange:
    """What changes in a view.

    Attributes:
        keys: the keys of the groups that change, with the names of the view's columns.
        rows: the new rows of these groups.
        changed: how many rows of the view change: are added, removed, or get other values.
        added: how many new rows the groups have.
        removed: how many stored rows they have.
    """

    keys: DataFrame
    rows: DataFrame
    changed: int
    added: int
    removed: int


def touched_keys(query: PinnedQuery, since: Mapping[str, int], cache: BatchCache) -> DataFrame | None:
    """The keys of the groups that a change may have touched since older versions of the tables; None for none.

    Args:
        query: the query.
        since: the older version by the id of the table.
        cache: keeps what is read of each table.
    """
    changes = {
        table.table_id: cache.eager(table.changes_since(since[table.table_id], query.used_columns(table)))
        for table in query.inputs.values()
        if table.version > since[table.table_id]
    }
    changed = {table_id: frame for table_id, frame in changes.items() if not frame.isEmpty()}

    def rows_of(leaf: Any) -> DataFrame:
        table = query.table_of(leaf)
        found = changed.get(table.table_id)
        rows = table.rows()
        # Rows of the last refresh are rows of now, or are gone.
        return rows if found is None else rows.union(found.filter(F.col(MORE) < 0).select(*map(quoted, rows.columns)))

    names = [f"{_KEY}{number}" for number in range(len(query.query.keys))]
    child = query.query.tree
    found = None
    for number, table in enumerate(query.plans.tables(child)):
        frame = changed.get(query.table_of(table).table_id)
        if frame is None:
            continue
        tree = query.plans.changed(child, number, frame, rows_of)
        keys = query.nodes.values(tree, query.query.keys, names)
        found = keys if found is None else found.union(keys)
    return None if found is None else cache.eager(found.distinct())


def group_change(
    query: PinnedQuery,
    keys: DataFrame,
    stored: DataFrame,
    cache: BatchCache,
    checked: Callable[[DataFrame], DataFrame],
) -> GroupChange | None:
    """What changes in a view whose groups with these keys may have changed; None if nothing does.

    Args:
        query: the query.
        keys: the keys, from :func:`touched_keys`.
        stored: the rows of the view.
        cache: keeps the rows of the groups.
        checked: the same rows; computing them fails if the view may not have them.
    """
    wanted = F.broadcast(keys) if is_small(keys) else keys
    now = cache.eager(checked(query.groups(wanted).select(*map(quoted, stored.columns))))
    columns = query.query.columns
    same = [F.col(quoted(name)).eqNullSafe(F.col(f"{_KEY}{number}")) for number, name in enumerate(columns)]
    before = cache.eager(stored.join(wanted, _all(same), "left_semi"))
    groups = cache.eager(_differing_groups(before, now, columns))
    total = F.greatest(F.col(_ADDED), F.col(_REMOVED))
    counted = groups.agg(F.sum(total), F.count("*")).first()
    if counted is None or not counted[1]:
        return None
    matched = F.broadcast(groups) if is_small(groups) else groups
    rows = cache.eager(now.join(matched, _all(same), "left_semi"))
    removed = before.join(matched, _all(same), "left_semi").count()
    # A view may group by one column twice.
    numbers = {name: number for number, name in enumerate(columns)}
    named = groups.select(*(F.col(f"{_KEY}{number}").alias(name) for name, number in numbers.items()))
    return GroupChange(named, rows, int(counted[0]), rows.count(), removed)


def _all(conditions: Sequence[Column]) -> Column:
    found = conditions[0]
    for condition in conditions[1:]:
        found &= condition
    return found


def _differing_groups(before: DataFrame, now: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The keys of the groups whose rows differ, with the number of rows that only one side has."""
    fields = now.schema.jsonValue()["fields"]
    compared = compared_columns(fields, fields)
    sides = [
        frame.select(
            *(F.col(quoted(name)).alias(f"{_KEY}{number}") for number, name in enumerate(keys)),
            *(comparable_column(one, 0, fields).alias(f"{_VALUE}{number}") for number, one in enumerate(compared)),
            *(exact_text(frame, one.names[0]).alias(f"{_TEXT}{number}") for number, one in enumerate(compared)),
            F.lit(sign).alias(MORE),
        )
        for frame, sign in ((before, -1), (now, 1))
    ]
    key_names = [f"{_KEY}{number}" for number in range(len(keys))]
    value_names = [f"{part}{number}" for part in (_VALUE, _TEXT) for number in range(len(compared))]
    rows = sides[0].union(sides[1]).groupBy(*key_names, *value_names).agg(F.sum(MORE).alias(MORE))
    return (
        rows.filter(F.col(MORE) != 0)
        .groupBy(*key_names)
        .agg(
            F.sum(F.greatest(F.col(MORE), F.lit(0))).alias(_ADDED),
            F.sum(F.greatest(-F.col(MORE), F.lit(0))).alias(_REMOVED),
        )
    )
