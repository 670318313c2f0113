"""Rewrites analyzed plans: other rows for their tables, and only rows that a change may have affected.

Law: each row that a tree returns now and did not return at the last refresh, or the reverse, is among the rows that
:meth:`ChangedPlans.changed` returns for one of the leaves. They may be more: rows that neither result has.

The rule for a join is that one side has only the changed rows, and the other all rows of now and of the last refresh.
If the other side of an outer join may have matched or not, the row is there both with and without a match.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from headrace.spark.jvm.plan_nodes import items, node_kind
from headrace.spark.refresh.plan_builder import PlanNodes

# Operators that pass on the rows and columns of their input.
PASSES = frozenset(
    {"SubqueryAlias", "View", "Sort", "Repartition", "RepartitionByExpression", "RebalancePartitions", "ResolvedHint"}
)
# Operators whose result is the sum of their results for each row.
_SUMS = PASSES | {"Project", "Filter", "Generate", "Expand", "Union"}
# The sides of a join for which it is that too.
_SUMMED_SIDES = {
    "INNER": (True, True),
    "CROSS": (True, True),
    "LEFT OUTER": (True, False),
    "LEFT SEMI": (True, False),
    "LEFT ANTI": (True, False),
    "RIGHT OUTER": (False, True),
}
_LEFT_NULLS, _RIGHT_NULLS = ("RIGHT OUTER", "FULL OUTER"), ("LEFT OUTER", "FULL OUTER")


class ChangedPlans:
    """Rewrites the plans of one session.

    Args:
        nodes: makes nodes in the session.
        is_table: whether a leaf reads a table.
    """

    def __init__(self, nodes: PlanNodes, is_table: Callable[[Any], bool]) -> None:
        self._nodes = nodes
        self._is_table = is_table
        # What was read of each node. Calls of Java would take longer than the refresh of a small view.
        self._kinds: dict[str, str] = {}
        self._children: dict[str, list[Any]] = {}
        self._tables: dict[str, list[Any]] = {}

    def children(self, plan: Any) -> list[Any]:
        """The inputs of an operator, as the same references each time."""
        name = str(plan._target_id)  # noqa: SLF001 - py4j's name of the reference
        if name not in self._children:
            self._children[name] = list(items(plan.children()))
        return self._children[name]

    def kind(self, plan: Any) -> str:
        """The kind of an operator."""
        name = str(plan._target_id)  # noqa: SLF001 - the same
        if name not in self._kinds:
            self._kinds[name] = node_kind(plan)
        return self._kinds[name]

    def tables(self, plan: Any) -> list[Any]:
        """The leaves of a plan that read tables, from left to right."""
        name = str(plan._target_id)  # noqa: SLF001 - the same
        if name not in self._tables:
            children = self.children(plan)
            own = [plan] if not children and self._is_table(plan) else []
            self._tables[name] = own + [leaf for child in children for leaf in self.tables(child)]
        return self._tables[name]

    def at(self, plan: Any, depth: int) -> Any:
        """The only input of the operator that is *depth* operators below the top of a plan."""
        return self.children(plan)[0] if not depth else self.at(self.children(plan)[0], depth - 1)

    def sums_over(self, plan: Any) -> list[bool]:
        """For each of :meth:`tables`, whether the rows of a tree are the sum of those for each row of the table."""
        children = self.children(plan)
        if not children:
            return [True] * len(self.tables(plan))
        below = [self.sums_over(child) for child in children]
        kind = self.kind(plan)
        if kind == "Join":
            sides = _SUMMED_SIDES.get(str(plan.joinType().sql()), (False, False))
            return [one and side for side, found in zip(sides, below, strict=True) for one in found]
        return [one and kind in _SUMS for found in below for one in found]

    def with_rows(self, plan: Any, rows_of: Callable[[Any], DataFrame]) -> Any:
        """The plan with other rows for each of its tables."""
        children = self.children(plan)
        if not children:
            return self._nodes.standing_in(plan, rows_of(plan)) if self.tables(plan) else plan
        return self._nodes.with_children(plan, [self.with_rows(child, rows_of) for child in children])

    def below(self, plan: Any, depth: int, change: Callable[[Any], Any]) -> Any:
        """The plan with another input for the operator that is *depth* operators below its top."""
        child = self.children(plan)[0]
        changed = self.below(child, depth - 1, change) if depth else change(child)
        return self._nodes.with_children(plan, [changed])

    def changed(self, plan: Any, number: int, changed: DataFrame, rows_of: Callable[[Any], DataFrame]) -> Any:
        """The rows of a tree that changed rows of one of its tables may have affected.

        Args:
            plan: the tree.
            number: the position of the leaf among :meth:`tables`.
            changed: the rows that the leaf has more or less often than before.
            rows_of: all rows of any leaf, those that are gone included.
        """
        children = self.children(plan)
        if not children:
            return self._nodes.standing_in(plan, changed)
        position = 0
        while number >= len(self.tables(children[position])):
            number -= len(self.tables(children[position]))
            position += 1
        child = self.changed(children[position], number, changed, rows_of)
        kind = self.kind(plan)
        if kind in PASSES:
            return child
        if kind == "Union":
            empty = [self._nodes.empty(other) for other in children]
            empty[position] = child
            return self._nodes.with_children(plan, empty)
        if kind == "Join":
            return self._changed_join(plan, child, position, rows_of)
        return self._nodes.with_children(plan, [child])

    def _changed_join(self, join: Any, changed: Any, position: int, rows_of: Callable[[Any], DataFrame]) -> Any:
        kind, condition = str(join.joinType().sql()), join.condition()
        if kind == "LEFT ANTI" and position == 0:
            return changed
        left = changed if position == 0 else self.all_rows(join.left(), rows_of)
        right = changed if position == 1 else self.all_rows(join.right(), rows_of)
        if kind in ("LEFT ANTI", "LEFT SEMI"):
            return self._nodes.join(left, right, "leftsemi", condition)
        # A changed row without a match is there if its side keeps such rows.
        keeps = kind in (_RIGHT_NULLS, _LEFT_NULLS)[position]
        way = ("leftouter", "rightouter")[position] if keeps else "inner"
        return self._with_unmatched(join, self._nodes.join(left, right, way, condition), kind)

    def all_rows(self, plan: Any, rows_of: Callable[[Any], DataFrame]) -> Any:
        """All rows that a tree returns now or returned at the last refresh, and perhaps others."""
        children = self.children(plan)
        kind = self.kind(plan)
        if not children:
            return self._nodes.standing_in(plan, rows_of(plan)) if self.tables(plan) else plan
        if kind in PASSES or (kind == "Join" and str(plan.joinType().sql()) == "LEFT ANTI"):
            return self.all_rows(children[0], rows_of)
        below = [self.all_rows(child, rows_of) for child in children]
        whole = self._nodes.with_children(plan, below)
        return self._with_unmatched(plan, whole, str(plan.joinType().sql())) if kind == "Join" else whole

    def _with_unmatched(self, join: Any, rows: Any, kind: str) -> Any:
        """The rows of a join, and each of them as if it had no match on a side that may lack one."""
        sides = ((join.left(), _LEFT_NULLS), (join.right(), _RIGHT_NULLS))
        return self._nodes.with_nulls(rows, [side for side, kinds in sides if kind in kinds])
