"""The rows below the groups of a query that are there more or less often than at the last refresh, with their sign.

Law: the rows of the tree at the last refresh, and those of :meth:`SignedRows.values` added or taken away by their sign,
are the rows of the tree now, as a multiset. :meth:`SignedRows.are_known` says whether that is so.

A tree is a sum over the rows of one of its tables if all operators between are: projections, filters, unions, and joins
on the side whose rows they keep. With several changed tables, the changed rows of each meet the new rows of the tables
to its left and the old rows of those to its right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.spark.cdc.batch_cache import BatchCache, cached_rows, is_small
from headrace.spark.jvm.plan_nodes import items
from headrace.spark.refresh.changed_plans import PASSES
from headrace.spark.refresh.pinned_query import PinnedQuery
from headrace.spark.refresh.pinned_tables import MORE, ChangeKind, changed_files

# Changed rows up to this size are broadcast to the joins above them; so are the rows of these joins if they are
# expected to have no more than the second size.
_BROADCAST_BYTES, _BROADCAST_ABOVE_BYTES = 8 << 20, 64 << 20


@dataclass(frozen=True)
class TableChange:
    """What changed in a table.

    Attributes:
        rows: its rows that are there more or less often than before, with :data:`MORE`.
        kind: whether rows were only appended.
        size_bytes: the size of its changed files.
        is_small: whether the rows may be broadcast.
    """

    rows: DataFrame
    kind: ChangeKind
    size_bytes: int
    is_small: bool

    @property
    def removed(self) -> DataFrame | None:
        """The rows that are gone; None for none."""
        if self.kind is ChangeKind.APPENDED:
            return None
        return self.rows.filter(F.col(MORE) < 0).drop(MORE)

    @property
    def signed(self) -> DataFrame:
        """Each row as often as it is there more or less often, with 1 or -1 in :data:`MORE`."""
        if self.kind is ChangeKind.APPENDED:
            return self.rows
        sign = F.when(F.col(MORE) > 0, 1).otherwise(-1).cast("bigint")
        return self.rows.withColumn(MORE, F.explode(F.array_repeat(sign, F.abs(MORE).cast("int"))))


def input_changes(query: PinnedQuery, since: Mapping[str, int], cache: BatchCache) -> dict[str, TableChange]:
    """What changed in the tables of a query since older versions, by the id of the table.

    Args:
        query: the query.
        since: the older version by the id of the table.
        cache: keeps the rows of tables to which not only rows were appended.
    """
    found = {}
    for table_id, table in query.inputs.items():
        kind, size_bytes = changed_files(table, since[table_id])
        if kind is ChangeKind.NONE:
            continue
        used = frozenset() if kind is ChangeKind.APPENDED else query.used_columns(table)
        rows = table.changes_since(since[table_id], used, kind)
        if kind is ChangeKind.APPENDED:
            found[table_id] = TableChange(rows, kind, size_bytes, size_bytes <= _BROADCAST_BYTES)
            continue
        rows = cache.eager(rows)
        if cached_rows(rows):
            found[table_id] = TableChange(rows, kind, size_bytes, is_small(rows))
    return found


class SignedRows:
    """The changed rows of the tree of one query.

    Args:
        query: the query.
        since: the version of each table at the last refresh, by its id.
        changes: what changed since then, by the same id.
    """

    def __init__(self, query: PinnedQuery, since: Mapping[str, int], changes: Mapping[str, TableChange]) -> None:
        self._query = query
        self._nodes = query.nodes
        self._since = since
        self._changes = changes
        self._leaves = [query.table_of(leaf) for leaf in query.plans.tables(query.tree)]
        self._changed = [number for number, table in enumerate(self._leaves) if table.table_id in changes]

    @property
    def are_known(self) -> bool:
        """Whether the tree is a sum over the rows of each table that changed."""
        return self._query.adds_up(self._changes)

    @property
    def are_added(self) -> bool:
        """Whether no row is taken away."""
        return all(change.kind is ChangeKind.APPENDED for change in self._changes.values())

    @property
    def come_from_one_table(self) -> bool:
        """Whether each added row is a row of now: only one of the tables that the plan reads has changed."""
        return len(self._changed) == 1

    def values(self, expressions: Sequence[Any], names: Sequence[str]) -> DataFrame:
        """The values of expressions in the changed rows, with 1 or -1 in :data:`MORE`."""
        found = None
        for number in self._changed:
            table = self._leaves[number]
            change = self._changes[table.table_id]
            rows = [self._rows(number, other) for other in range(len(self._leaves))]
            tree, more = self._signed(self._query.tree, number, rows, change)
            part = self._nodes.values(tree, [*expressions, more], [*names, MORE])
            found = part if found is None else found.union(part)
        if found is None:
            raise AssertionError("no table changed")
        return found

    def _rows(self, changed: int, number: int) -> DataFrame:
        """The rows of a leaf beside the changed ones of another."""
        table = self._leaves[number]
        change = self._changes.get(table.table_id)
        if number > changed and change is not None:
            return table.rows_at(self._since[table.table_id], change.kind)
        return table.rows()

    def _signed(self, plan: Any, number: int, rows: Sequence[DataFrame], change: TableChange) -> tuple[Any, Any]:
        """The changed rows of a tree, and the column with their sign.

        Args:
            plan: the tree.
            number: the position of the leaf that changed.
            rows: the rows of each of its leaves.
            change: that of the leaf.
        """
        nodes, children = self._nodes, self._query.plans.children(plan)
        if not children:
            below, columns = nodes.columns(change.signed)
            wanted, more = list(items(plan.output())), columns[MORE]
            return nodes.project(
                [*nodes.renamed([columns[str(column.name())] for column in wanted], wanted), more], below
            ), more
        position, first = 0, 0
        while number >= first + (width := len(self._query.plans.tables(children[position]))):
            first, position = first + width, position + 1
        own = children[position]
        child, more = self._signed(own, number - first, rows[first : first + width], change)
        kind = self._query.plans.kind(plan)
        if kind in PASSES:
            return child, more
        if kind == "Project":
            return nodes.project([*items(plan.projectList()), more], child), more
        if kind == "Expand":
            rows_of_sets = [nodes.sequence([*items(row), more]) for row in items(plan.projections())]
            output = nodes.sequence([*items(plan.output()), more])
            return plan.copy(nodes.sequence(rows_of_sets), output, child), more
        if kind == "Union":
            renamed = nodes.renamed(list(items(own.output())), list(items(plan.output())))
            return nodes.project([*renamed, more], child), more
        if kind == "Join":
            other = self._with_rows(children[1 - position], rows[width:] if position == 0 else rows[:first])
            return self._joined(plan, (child, other) if position == 0 else (other, child), position, change), more
        return nodes.with_children(plan, [child]), more

    def _joined(self, join: Any, sides: tuple[Any, Any], position: int, change: TableChange) -> Any:
        kind = str(join.joinType().sql())
        small = position if kind in ("INNER", "CROSS") and self._may_broadcast(join, position, change) else None
        scala_name = kind.replace(" ", "").lower()
        return self._nodes.join(*sides, scala_name, join.condition(), small)

    def _may_broadcast(self, join: Any, position: int, change: TableChange) -> bool:
        if not change.is_small:
            return False
        side = self._query.plans.children(join)[position]
        tables = [self._query.table_of(leaf) for leaf in self._query.plans.tables(side)]
        if len(tables) == 1:
            return True
        # The rows of a join grow by the rows that match each of them.
        own = next(table for table_id, table in self._query.inputs.items() if self._changes.get(table_id) is change)
        growth = max(table.size_bytes for table in tables) / max(own.size_bytes, 1)
        return change.size_bytes * max(growth, 1.0) <= _BROADCAST_ABOVE_BYTES

    def _with_rows(self, plan: Any, rows: Sequence[DataFrame]) -> Any:
        """A tree with other rows for each of its leaves."""
        children = self._query.plans.children(plan)
        if not children:
            return self._nodes.standing_in(plan, rows[0]) if rows else plan
        made, first = [], 0
        for child in children:
            width = len(self._query.plans.tables(child))
            made.append(self._with_rows(child, rows[first : first + width]))
            first += width
        return self._nodes.with_children(plan, made)
