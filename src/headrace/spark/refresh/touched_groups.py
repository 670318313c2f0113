"""The groups of a view that changes of its tables touch, and their rows, computed from all rows of these groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.model.names import quoted
from headrace.spark.cdc.batch_cache import BatchCache
from headrace.spark.jvm.plan_nodes import items, node_kind
from headrace.spark.refresh.pinned_query import PinnedQuery
from headrace.spark.refresh.signed_rows import TableChange
from headrace.spark.refresh.view_change import with_small_broadcast

_KEY = "__headrace_key_"
# Tables from this size on are read only as far as the touched groups need.
_REDUCED_BYTES = 4 << 20
# From this size on, the least and the greatest key are found, with which Delta skips files.
_SKIPPED_BYTES = 64 << 20
# Types whose values Python and Spark write alike.
_BOUNDED = frozenset({"tinyint", "smallint", "int", "bigint", "string", "date"})


def touched_keys(query: PinnedQuery, changes: Mapping[str, TableChange], cache: BatchCache) -> DataFrame:
    """The keys of the groups that changes may have touched; perhaps others.

    Args:
        query: the query.
        changes: the changes of its tables by the table's id.
        cache: keeps the keys.
    """

    def rows_of(leaf: Any) -> DataFrame:
        table = query.table_of(leaf)
        rows, change = table.rows(), changes.get(table.table_id)
        removed = None if change is None else change.removed
        # Rows of the last refresh are rows of now, or are gone.
        return rows if removed is None else rows.union(removed.select(*map(quoted, rows.columns)))

    names = [f"{_KEY}{number}" for number in range(len(query.query.keys))]
    child = query.tree
    found = None
    for number, table in enumerate(query.plans.tables(child)):
        change = changes.get(query.table_of(table).table_id)
        if change is None:
            continue
        tree = query.plans.changed(child, number, change.rows, rows_of)
        keys = query.nodes.values(tree, query.query.keys, names)
        found = keys if found is None else found.union(keys)
    if found is None:
        raise AssertionError("no table changed")
    return cache.eager(found.distinct())


def groups_now(query: PinnedQuery, keys: DataFrame) -> DataFrame:
    """The rows of the query in the groups with these keys.

    Args:
        query: the query.
        keys: the keys in the order of the query's, cached.
    """
    return query.groups(with_small_broadcast(keys), _rows_with(query, keys)) if query.query.keys else query.whole()


def _rows_with(query: PinnedQuery, keys: DataFrame) -> Callable[[Any], DataFrame]:
    """The rows of each leaf, without those that are in none of the groups, where that is easily known."""
    tree = query.tree
    may_reduce = query.plans.sums_over(tree)
    leaves = query.plans.tables(tree)
    passed = {int(column.exprId().id()) for column in items(tree.output())}
    key_of = {
        int(key.exprId().id()): number
        for number, key in enumerate(query.query.keys)
        if node_kind(key) == "AttributeReference" and int(key.exprId().id()) in passed
    }

    def rows_of(leaf: Any) -> DataFrame:
        table = query.table_of(leaf)
        rows = table.rows()
        known = next((one for one, other in zip(may_reduce, leaves, strict=True) if other.equals(leaf)), False)
        found = {
            str(column.name()): key_of[int(column.exprId().id())]
            for column in items(leaf.output())
            if int(column.exprId().id()) in key_of
        }
        if not known or not found or table.size_bytes < _REDUCED_BYTES:
            return rows
        if table.size_bytes >= _SKIPPED_BYTES:
            rows = _between(rows, keys, found)
        chosen = keys.toDF(*(f"{_KEY}{number}" for number in range(len(keys.columns))))
        chosen = chosen.select(*(f"{_KEY}{number}" for number in found.values())).distinct()
        same = F.lit(col=True)
        for name, number in found.items():
            same &= F.col(quoted(name)).eqNullSafe(F.col(f"{_KEY}{number}"))
        return rows.join(F.broadcast(chosen), same, "left_semi")

    return rows_of


def _between(rows: DataFrame, keys: DataFrame, found: Mapping[str, int]) -> DataFrame:
    """Rows between the least and the greatest of some keys."""
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    bounded = {name: keys.columns[number] for name, number in found.items() if types[name] in _BOUNDED}
    if not bounded:
        return rows
    columns = [F.col(quoted(key)) for key in bounded.values()]
    least = keys.agg(*(part for key in columns for part in (F.min(key), F.max(key), F.count_if(key.isNull())))).first()
    if least is None:
        return rows
    for number, name in enumerate(bounded):
        low, high, nulls = least[3 * number : 3 * number + 3]
        if not nulls and low is not None:
            rows = rows.filter(F.col(quoted(name)).between(F.lit(low), F.lit(high)))
    return rows
