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
        """The rows of a plan for which expressions have the values of one of the rows of *keys*; NULL equals NULL."""
        other = keys._jdf.queryExecution().analyzed()  # noqa: SLF001 - the same
        expressions = self._catalyst.expressions
        condition = None
        for value, key in zip(values, items(other.output()), strict=True):
            same = expressions.EqualNullSafe(value, key)
            condition = same if condition is None else expressions.And(condition, same)
        return self.join(plan, other, "leftsemi", self._jvm.scala.Option.apply(condition))

    def values(self, plan: Any, values: Sequence[Any], names: Sequence[str]) -> DataFrame:
        """The values of expressions in the rows of a plan."""
        named = [self._alias(value, name, self._new_id()) for value, name in zip(values, names, strict=True)]
        return self.frame(self._project(named, plan))

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
        return self._project(self._renamed(fresh, output), expand)

    def standing_in(self, leaf: Any, rows: DataFrame) -> Any:
        """Rows in the place of those of a leaf, with the ids of its columns."""
        plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - the same
        columns = {str(column.name()): column for column in items(plan.output())}
        wanted = list(items(leaf.output()))
        return self._project(self._renamed([columns[str(column.name())] for column in wanted], wanted), plan)

    def empty(self, plan: Any) -> Any:
        """No rows, with the columns of a plan."""
        data, none = self.sequence([]), self._jvm.scala.Option.empty()
        return self._catalyst.plans.logical.LocalRelation(plan.output(), data, False, none)  # noqa: FBT003 - Scala's

    def join(self, left: Any, right: Any, kind: str, condition: Any) -> Any:
        """A join; *kind* is the name of its type in Scala, *condition* an option."""
        kinds = scala_object(self._catalyst.plans, "JoinType$")
        hint = scala_object(self._catalyst.plans.logical, "JoinHint$").NONE()
        return self._catalyst.plans.logical.Join(left, right, kinds.apply(kind), condition, hint)

    def sequence(self, values: Sequence[Any]) -> Any:
        """A Scala sequence."""
        given = self._jvm.java.util.ArrayList()
        for value in values:
            given.add(value)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(given).toList()

    def _renamed(self, values: Sequence[Any], columns: Sequence[Any]) -> list[Any]:
        """Values under the names and the ids of columns."""
        return [
            self._alias(value, str(column.name()), column.exprId())
            for value, column in zip(values, columns, strict=True)
        ]

    def _project(self, named: Sequence[Any], plan: Any) -> Any:
        return self._catalyst.plans.logical.Project(self.sequence(named), plan)

    def _alias(self, value: Any, name: str, expr_id: Any) -> Any:
        none = self._jvm.scala.Option.empty()
        return self._catalyst.expressions.Alias(value, name, expr_id, self.sequence([]), none, self.sequence([]))

    def _new_id(self) -> Any:
        return scala_object(self._catalyst.expressions, "NamedExpression$").newExprId()
