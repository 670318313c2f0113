"""Rewrites analyzed plans: other rows for their tables, and only rows that a change may have affected.

Law: each row that a tree returns now and did not return at the last refresh, or the reverse, is among the rows that
:meth:`ChangedPlans.changed` returns for one of the leaves. They may be more: rows that neither result has.

The rule for a join is that one side has only the changed rows, and the other all rows of now and of the last refresh.
If the other side of an outer join may have matched or not, the row is there both with and without a match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.spark.delta.transaction import scala_object
from headrace.spark.jvm.plan_nodes import items, node_kind

# Operators that pass on the rows and columns of their input.
_PASSES = frozenset(
    {"SubqueryAlias", "View", "Sort", "Repartition", "RepartitionByExpression", "RebalancePartitions", "ResolvedHint"}
)
_LEFT_NULLS, _RIGHT_NULLS = ("RIGHT OUTER", "FULL OUTER"), ("LEFT OUTER", "FULL OUTER")


class ChangedPlans:
    """Rewrites the plans of one session.

    Args:
        session: the session.
        is_table: whether a leaf reads a table.
    """

    def __init__(self, session: SparkSession, is_table: Callable[[Any], bool]) -> None:
        self._session = session
        self._is_table = is_table
        jvm: Any = session._jvm  # noqa: SLF001 - plans have no public form
        self._jvm = jvm
        self._catalyst = jvm.org.apache.spark.sql.catalyst

    def frame(self, plan: Any) -> DataFrame:
        """A plan as a frame."""
        java: Any = self._session._jsparkSession  # noqa: SLF001 - the same
        return DataFrame(self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(java, plan), self._session)

    def tables(self, plan: Any) -> list[Any]:
        """The leaves of a plan that read tables, from left to right."""
        children = list(items(plan.children()))
        if not children:
            return [plan] if self._is_table(plan) else []
        return [leaf for child in children for leaf in self.tables(child)]

    def with_rows(self, plan: Any, rows_of: Callable[[Any], DataFrame]) -> Any:
        """The plan with other rows for each of its tables."""
        children = list(items(plan.children()))
        if not children:
            return self._standing_in(plan, rows_of(plan)) if self._is_table(plan) else plan
        if node_kind(plan) in _PASSES:
            return self.with_rows(children[0], rows_of)
        return plan.withNewChildren(self._sequence([self.with_rows(child, rows_of) for child in children]))

    def below(self, plan: Any, depth: int, change: Callable[[Any], Any]) -> Any:
        """The plan with another input for the operator that is *depth* operators below its top."""
        child = plan.child()
        changed = self.below(child, depth - 1, change) if depth else change(child)
        return plan.withNewChildren(self._sequence([changed]))

    def matching(self, plan: Any, values: Sequence[Any], keys: DataFrame) -> Any:
        """The rows of a plan for which expressions have the values of one of the rows of *keys*; NULL equals NULL."""
        other = keys._jdf.queryExecution().analyzed()  # noqa: SLF001 - the same
        expressions = self._catalyst.expressions
        condition = None
        for value, key in zip(values, items(other.output()), strict=True):
            same = expressions.EqualNullSafe(value, key)
            condition = same if condition is None else expressions.And(condition, same)
        return self._join(plan, other, "leftsemi", self._jvm.scala.Option.apply(condition))

    def values(self, plan: Any, values: Sequence[Any], names: Sequence[str]) -> DataFrame:
        """The values of expressions in the rows of a plan."""
        named = [self._alias(value, name, self._new_id()) for value, name in zip(values, names, strict=True)]
        return self.frame(self._project(named, plan))

    def changed(self, plan: Any, number: int, changed: DataFrame, rows_of: Callable[[Any], DataFrame]) -> Any:
        """The rows of a tree that changed rows of one of its tables may have affected.

        Args:
            plan: the tree.
            number: the position of the leaf among :meth:`tables`.
            changed: the rows that the leaf has more or less often than before.
            rows_of: all rows of any leaf, those that are gone included.
        """
        children = list(items(plan.children()))
        if not children:
            return self._standing_in(plan, changed)
        position = 0
        while number >= len(self.tables(children[position])):
            number -= len(self.tables(children[position]))
            position += 1
        child = self.changed(children[position], number, changed, rows_of)
        kind = node_kind(plan)
        if kind in _PASSES:
            return child
        if kind == "Union":
            empty = [self._empty(other) for other in children]
            empty[position] = child
            return plan.withNewChildren(self._sequence(empty))
        if kind == "Join":
            return self._changed_join(plan, child, position, rows_of)
        return plan.withNewChildren(self._sequence([child]))

    def _changed_join(self, join: Any, changed: Any, position: int, rows_of: Callable[[Any], DataFrame]) -> Any:
        kind, condition = str(join.joinType().sql()), join.condition()
        if kind == "LEFT ANTI" and position == 0:
            return changed
        left = changed if position == 0 else self.all_rows(join.left(), rows_of)
        right = changed if position == 1 else self.all_rows(join.right(), rows_of)
        if kind in ("LEFT ANTI", "LEFT SEMI"):
            return self._join(left, right, "leftsemi", condition)
        # A changed row without a match is there if its side keeps such rows.
        keeps = kind in (_RIGHT_NULLS, _LEFT_NULLS)[position]
        way = ("leftouter", "rightouter")[position] if keeps else "inner"
        return self._with_unmatched(join, self._join(left, right, way, condition), kind)

    def all_rows(self, plan: Any, rows_of: Callable[[Any], DataFrame]) -> Any:
        """All rows that a tree returns now or returned at the last refresh, and perhaps others."""
        children = list(items(plan.children()))
        kind = node_kind(plan)
        if not children:
            return self._standing_in(plan, rows_of(plan)) if self._is_table(plan) else plan
        if kind in _PASSES or (kind == "Join" and str(plan.joinType().sql()) == "LEFT ANTI"):
            return self.all_rows(children[0], rows_of)
        below = [self.all_rows(child, rows_of) for child in children]
        whole = plan.withNewChildren(self._sequence(below))
        return self._with_unmatched(plan, whole, str(plan.joinType().sql())) if kind == "Join" else whole

    def _with_unmatched(self, join: Any, rows: Any, kind: str) -> Any:
        """The rows of a join, and each of them as if it had no match on a side that may lack one."""
        sides = [side for side, kinds in ((join.left(), _LEFT_NULLS), (join.right(), _RIGHT_NULLS)) if kind in kinds]
        if not sides:
            return rows
        output = list(items(rows.output()))
        expressions = self._catalyst.expressions
        projections = [output]
        for side in sides:
            gone = {int(column.exprId().id()) for column in items(side.output())}
            projections.append(
                [
                    expressions.Literal(None, column.dataType()) if int(column.exprId().id()) in gone else column
                    for column in output
                ]
            )
        fresh = [column.newInstance().withNullability(True) for column in output]  # noqa: FBT003 - Scala's
        expand = self._catalyst.plans.logical.Expand(
            self._sequence([self._sequence(one) for one in projections]), self._sequence(fresh), rows
        )
        named = [self._alias(new, str(old.name()), old.exprId()) for old, new in zip(output, fresh, strict=True)]
        return self._project(named, expand)

    def _standing_in(self, leaf: Any, rows: DataFrame) -> Any:
        """Rows in the place of those of a leaf, with the ids of its columns."""
        plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - the same
        columns = {str(column.name()): column for column in items(plan.output())}
        named = [
            self._alias(columns[str(column.name())], str(column.name()), column.exprId())
            for column in items(leaf.output())
        ]
        return self._project(named, plan)

    def _empty(self, plan: Any) -> Any:
        """No rows, with the columns of a plan."""
        logical = scala_object(self._catalyst.plans.logical, "LocalRelation$")
        return logical.apply(plan.output())

    def _join(self, left: Any, right: Any, kind: str, condition: Any) -> Any:
        kinds = scala_object(self._catalyst.plans, "JoinType$")
        hint = scala_object(self._catalyst.plans.logical, "JoinHint$").NONE()
        return self._catalyst.plans.logical.Join(left, right, kinds.apply(kind), condition, hint)

    def _project(self, named: Sequence[Any], plan: Any) -> Any:
        return self._catalyst.plans.logical.Project(self._sequence(named), plan)

    def _alias(self, value: Any, name: str, expr_id: Any) -> Any:
        none = self._jvm.scala.Option.empty()
        return self._catalyst.expressions.Alias(value, name, expr_id, self._sequence([]), none, self._sequence([]))

    def _new_id(self) -> Any:
        return scala_object(self._catalyst.expressions, "NamedExpression$").newExprId()

    def _sequence(self, values: Sequence[Any]) -> Any:
        given = self._jvm.java.util.ArrayList()
        for value in values:
            given.add(value)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(given).toList()
