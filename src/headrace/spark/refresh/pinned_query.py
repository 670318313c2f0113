"""The query of a view over one version of each of its tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from headrace.model.refresh import Obstacle
from headrace.spark.analysis.refresh_rules import GroupedQuery, grouped_query
from headrace.spark.jvm.plan_nodes import items, node_kind
from headrace.spark.refresh.changed_plans import ChangedPlans
from headrace.spark.refresh.group_rows import outputs_of
from headrace.spark.refresh.pinned_tables import PinnedTable, PinnedTables, fits, reads_newest
from headrace.spark.refresh.plan_builder import PlanNodes

# Operators that use all columns of their inputs, by position.
_WHOLE_ROWS = frozenset({"Union", "Distinct", "Deduplicate"})


@dataclass(frozen=True)
class PinnedQuery:
    """A grouped query whose tables do not change during its refresh.

    Attributes:
        query: the query.
        nodes: makes plans.
        plans: rewrites its plan.
        leaves: the leaves below its groups that read tables, in the order of the plan.
        tables: the table of each leaf.
    """

    query: GroupedQuery
    nodes: PlanNodes
    plans: ChangedPlans
    leaves: tuple[Any, ...]
    tables: tuple[PinnedTable, ...]

    @property
    def tree(self) -> Any:
        """The plan whose rows are grouped, as the same reference each time."""
        query = self.query
        return query.plan if query.node is None else self.plans.at(query.plan, query.depth)

    @property
    def inputs(self) -> Mapping[str, PinnedTable]:
        """The tables by id."""
        return {table.table_id: table for table in self.tables}

    def whole(self) -> DataFrame:
        """All rows of the query."""
        return self.nodes.frame(self.plans.with_rows(self.query.plan, self._now))

    def groups(self, keys: DataFrame, rows_of: Callable[[Any], DataFrame]) -> DataFrame:
        """The rows of the query in the groups with these keys.

        Args:
            keys: the keys, in the order of the query's.
            rows_of: the rows of a leaf, at least those of these groups.
        """

        def only_groups(child: Any) -> Any:
            return self.nodes.matching(self.plans.with_rows(child, rows_of), self.query.keys, keys)

        query = self.query
        plan = only_groups(query.plan) if query.node is None else self.plans.below(query.plan, query.depth, only_groups)
        return self.nodes.frame(plan)

    def from_groups(self, values: DataFrame, columns: Mapping[str, Any]) -> DataFrame:
        """The rows of the query, computed from the values of its aggregate functions.

        Args:
            values: a row for each group.
            columns: what the columns of *values* hold: keys and aggregate functions of the plan.
        """
        query, known = self.query, [(part, name) for name, part in columns.items()]

        def computed(node: Any) -> Any:
            return outputs_of(self.nodes, node, known, values)

        plan = self.plans.below(query.plan, query.depth - 1, computed) if query.depth else computed(query.plan)
        return self.nodes.frame(plan)

    def _now(self, leaf: Any) -> DataFrame:
        return self.table_of(leaf).rows()

    def table_of(self, leaf: Any) -> PinnedTable:
        """The table that a leaf reads."""
        pairs = list(zip(self.leaves, self.tables, strict=True))
        same = next((table for known, table in pairs if known is leaf), None)
        return same or next(table for known, table in pairs if known.equals(leaf))

    def adds_up(self, changed: Collection[str]) -> bool:
        """Whether the rows that are grouped are a sum over the rows of each of some tables, given by their ids."""
        sums = zip(self.plans.tables(self.tree), self.plans.sums_over(self.tree), strict=True)
        return all(is_sum for leaf, is_sum in sums if self.table_of(leaf).table_id in changed)

    def used_columns(self, table: PinnedTable) -> frozenset[str]:
        """The columns of a table that the query uses."""
        ids = _used(self.query.plan) | {int(column.exprId().id()) for column in items(self.query.plan.output())}
        return frozenset(
            str(column.name())
            for leaf, known in zip(self.leaves, self.tables, strict=True)
            if known is table
            for column in items(leaf.output())
            if int(column.exprId().id()) in ids
        )


def pin(frame: DataFrame) -> PinnedQuery | Obstacle:
    """The query of a frame over the newest version of each of its tables; what prevents it otherwise."""
    query = grouped_query(frame, reads_newest)
    if isinstance(query, Obstacle):
        return query
    session = frame.sparkSession
    nodes, pinned = PlanNodes(session), PinnedTables(session)
    plans = ChangedPlans(nodes, reads_newest)
    leaves = tuple(plans.tables(query.plan))
    tables = tuple(map(pinned.of, leaves))
    if len({table.table_id for table in tables}) < len(pinned.all()):
        return Obstacle("copies of a table", "two tables with the same id cannot be told apart")
    changed = next((table for leaf, table in zip(leaves, tables, strict=True) if not fits(leaf, table)), None)
    if changed is not None:
        return Obstacle(f"input {changed.path}", "its columns have just changed")
    return PinnedQuery(query, nodes, plans, leaves, tables)


def _used(plan: Any) -> frozenset[int]:
    """The ids of the columns that operators of a plan use."""
    children = list(items(plan.children()))
    if not children:
        return frozenset()
    found = {int(column.exprId().id()) for column in items(plan.references().toSeq())}
    if node_kind(plan) in _WHOLE_ROWS:
        found |= {int(column.exprId().id()) for child in children for column in items(child.output())}
    return frozenset(found).union(*map(_used, children))
