"""Distinct values of a stream, counted: Spark refuses ``count(DISTINCT ...)`` over one, and collects them if asked.

``count(DISTINCT a)`` becomes ``size(collect_set(a))`` in the plan, which is the same number; its state has each value
of a group once. Names and types of columns stay. Source: Spark's ``UnsupportedOperationChecker``, which looks for
distinct aggregates of streams when a query starts.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from headrace.spark.jvm.plan_nodes import items, node_kind


def counting_distinct(frame: DataFrame) -> DataFrame:
    """The same rows; a stream that counts distinct values is one that Spark can start."""
    if not frame.isStreaming:
        return frame
    java: Any = frame._jdf  # noqa: SLF001 - plans have no public form
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - the same
    plan = java.queryExecution().analyzed()
    if not plan.containsPattern(jvm.org.apache.spark.sql.catalyst.trees.TreePattern.AGGREGATE()):
        return frame
    found = _Rewriting(jvm).plan(plan)
    if found is None:
        return frame
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(java.sparkSession(), found), frame.sparkSession)


class _Rewriting:
    """Plans and expressions with distinct counts in their other form; None where there is nothing to change."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._catalyst = jvm.org.apache.spark.sql.catalyst

    def plan(self, node: Any) -> Any | None:
        """A plan; only aggregates of streams are changed."""
        children = self._changed(list(items(node.children())), self.plan)
        changed = None if children is None else node.withNewChildren(children)
        if not node.isStreaming() or node.nodeName() != "Aggregate":
            return changed
        expressions = self._changed(list(items(node.aggregateExpressions())), self._expression)
        if expressions is None:
            return changed
        whole = node if changed is None else changed
        return whole.copy(whole.groupingExpressions(), expressions, whole.child(), whole.hint())

    def _expression(self, node: Any) -> Any | None:
        if node.nodeName() == "AggregateExpression":
            return self._collected(node) if self._counts_distinct(node) else None
        children = self._changed(list(items(node.children())), self._expression)
        return None if children is None else node.withNewChildren(children)

    def _counts_distinct(self, node: Any) -> bool:
        return bool(node.isDistinct()) and node_kind(node.aggregateFunction()) == "Count"

    def _collected(self, node: Any) -> Any:
        """The number of the values that were collected."""
        expressions, catalyst = self._catalyst.expressions, self._catalyst
        values = self._value(list(items(node.aggregateFunction().children())))
        # As Spark does for distinct aggregates: -0.0 is 0.0.
        normal = getattr(catalyst.optimizer, "NormalizeFloatingNumbers$").__getattr__("MODULE$")
        values = normal.normalize(values)
        collect = expressions.aggregate.CollectSet(values)
        counted = node.copy(collect, node.mode(), False, node.filter(), node.resultId())  # noqa: FBT003 - Java's
        size = expressions.Size(counted, False)  # noqa: FBT003 - the same
        long = getattr(self._jvm.org.apache.spark.sql.types, "LongType$").__getattr__("MODULE$")
        legacy = getattr(catalyst.expressions, "EvalMode$").__getattr__("MODULE$").LEGACY()
        return expressions.Cast(size, long, self._jvm.scala.Option.empty(), legacy)

    def _value(self, columns: list[Any]) -> Any:
        """What is collected: a value, or several as one where none of them is NULL; NULL is not counted."""
        if len(columns) == 1:
            return columns[0]
        expressions = self._catalyst.expressions
        named = getattr(expressions, "CreateStruct$").__getattr__("MODULE$").apply(self._sequence(columns))
        known = expressions.IsNotNull(columns[0])
        for column in columns[1:]:
            known = expressions.And(known, expressions.IsNotNull(column))
        nothing = expressions.Literal(None, named.dataType())
        return expressions.If(known, named, nothing)

    def _changed(self, items: list[Any], change: Any) -> Any | None:
        """A sequence of Scala with what changes changed; None where nothing does."""
        found = [change(item) for item in items]
        if all(item is None for item in found):
            return None
        return self._sequence([old if new is None else new for old, new in zip(items, found, strict=True)])

    def _sequence(self, values: list[Any]) -> Any:
        given = self._jvm.java.util.ArrayList()
        for value in values:
            given.add(value)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(given).toIndexedSeq()
