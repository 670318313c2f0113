"""Makes nodes of logical plans, through py4j."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.spark.delta.transaction import scala_object
from headrace.spark.jvm.plan_nodes import items


class PlanNodes:
    """Makes nodes in one session.

    Args:
        session: the session.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        jvm: Any = session._jvm  # noqa: SLF001 - plans have no public form
        self._jvm = jvm
        self._catalyst = jvm.org.apache.spark.sql.catalyst

    def frame(self, plan: Any) -> DataFrame:
        """A plan as a frame."""
        java: Any = self._session._jsparkSession  # noqa: SLF001 - the same
        return DataFrame(self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(java, plan), self._session)

    def with_children(self, plan: Any, children: Sequence[Any]) -> Any:
        """A node with other children."""
        return plan.withNewChildren(self.sequence(children))

    def matching(self, plan: Any, values: Sequence[Any], keys: DataFrame) -> Any:
        """The rows of a plan for which expressions have the values of one of the rows of *keys*; NULL equals NULL.

        A hint of *keys* to broadcast them is kept.
        """
        other = keys._jdf.queryExecution().analyzed()  # noqa: SLF001 - the same
        expressions = self._catalyst.expressions
        condition = None
        for value, key in zip(values, items(other.output()), strict=True):
            same = expressions.EqualNullSafe(value, key)
            condition = same if condition is None else expressions.And(condition, same)
        return self.join(plan, other, "leftsemi", self._jvm.scala.Option.apply(condition))

    def values(self, plan: Any, values: Sequence[Any], names: Sequence[str]) -> DataFrame:
        """The values of expressions in the rows of a plan."""
        named = [self.alias(value, name, self.new_id()) for value, name in zip(values, names, strict=True)]
        return self.frame(self.project(named, plan))

    def with_nulls(self, plan: Any, sides: Sequence[Any]) -> Any:
        """The rows of a plan, and each of them again with NULL in the columns of each of some plans."""
        if not sides:
            return plan
        output = list(items(plan.output()))
        expressions = self._catalyst.expressions
        projections = [self.sequence(output)]
        for side in sides:
            gone = {int(column.exprId().id()) for column in items(side.output())}
            row = [
                expressions.Literal(None, column.dataType()) if int(column.exprId().id()) in gone else column
                for column in output
            ]
            projections.append(self.sequence(row))
        fresh = [column.newInstance().withNullability(True) for column in output]  # noqa: FBT003 - Scala's
        expand = self._catalyst.plans.logical.Expand(self.sequence(projections), self.sequence(fresh), plan)
        return self.project(self.renamed(fresh, output), expand)

    def standing_in(self, leaf: Any, rows: DataFrame) -> Any:
        """Rows in the place of those of a leaf, with the ids of its columns."""
        plan, columns = self.columns(rows)
        wanted = list(items(leaf.output()))
        return self.project(self.renamed([columns[str(column.name())] for column in wanted], wanted), plan)

    def columns(self, rows: DataFrame) -> tuple[Any, dict[str, Any]]:
        """The plan of rows, and its columns by name."""
        plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - the same
        return plan, {str(column.name()): column for column in items(plan.output())}

    def empty(self, plan: Any) -> Any:
        """No rows, with the columns of a plan."""
        data, none = self.sequence([]), self._jvm.scala.Option.empty()
        return self._catalyst.plans.logical.LocalRelation(plan.output(), data, False, none)  # noqa: FBT003 - Scala's

    def join(self, left: Any, right: Any, kind: str, condition: Any, small: int | None = None) -> Any:
        """A join.

        Args:
            left: the plan of the left side.
            right: that of the right side.
            kind: the name of its type in Scala.
            condition: an option.
            small: the side to broadcast, 0 or 1; None leaves it to Spark.
        """
        logical = self._catalyst.plans.logical
        kinds = scala_object(self._catalyst.plans, "JoinType$")
        none, some = self._jvm.scala.Option.empty(), self._jvm.scala.Option.apply
        broadcast = some(logical.HintInfo(some(scala_object(logical, "BROADCAST$"))))
        hint = logical.JoinHint(broadcast if small == 0 else none, broadcast if small == 1 else none)
        return logical.Join(left, right, kinds.apply(kind), condition, hint)

    def sequence(self, values: Sequence[Any]) -> Any:
        """A Scala sequence."""
        given = self._jvm.java.util.ArrayList()
        for value in values:
            given.add(value)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(given).toList()

    def renamed(self, values: Sequence[Any], columns: Sequence[Any]) -> list[Any]:
        """Values under the names and the ids of columns."""
        return [
            self.alias(value, str(column.name()), column.exprId())
            for value, column in zip(values, columns, strict=True)
        ]

    def project(self, named: Sequence[Any], plan: Any) -> Any:
        """A projection."""
        return self._catalyst.plans.logical.Project(self.sequence(named), plan)

    def alias(self, value: Any, name: str, expr_id: Any) -> Any:
        """An expression with a name and an id."""
        none = self._jvm.scala.Option.empty()
        return self._catalyst.expressions.Alias(value, name, expr_id, self.sequence([]), none, self.sequence([]))

    def new_id(self) -> Any:
        """An id that no other column has."""
        return scala_object(self._catalyst.expressions, "NamedExpression$").newExprId()
