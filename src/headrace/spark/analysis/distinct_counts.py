"""Counts distinct values of a stream, for which Spark refuses ``count(DISTINCT ...)``.

``count(DISTINCT a)`` becomes ``size(collect_set(a))`` in the plan, which is the same number; its state has each value
of a group once. Names and types of columns stay. Source: Spark's ``UnsupportedOperationChecker``, which refuses
distinct aggregates of streams when a query starts.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from headrace.spark.jvm.plan_nodes import items, node_kind


def with_distinct_counts(frame: DataFrame) -> DataFrame:
    """The same rows, with distinct counts of a stream in a form that Spark can start."""
    if not frame.isStreaming:
        return frame
    java: Any = frame._jdf  # noqa: SLF001 - plans have no public form
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - the same
    plan = java.queryExecution().analyzed()
    if not plan.containsPattern(jvm.org.apache.spark.sql.catalyst.trees.TreePattern.AGGREGATE()):
        return frame
    found = _Rewriter(jvm).plan(plan)
    if found is None:
        return frame
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(java.sparkSession(), found), frame.sparkSession)


class _Rewriter:
    """Rewrites distinct counts in plans and expressions; returns None if there is nothing to change."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._catalyst = jvm.org.apache.spark.sql.catalyst

    def plan(self, node: Any) -> Any | None:
        """Rewrite a plan; only aggregates of streams change."""
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
        """The number of collected values."""
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
        """The collected value: one column, or a struct of several if none is NULL; NULL does not count."""
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
        """A Scala sequence with the changed items; None if none changes."""
        found = [change(item) for item in items]
        if all(item is None for item in found):
            return None
        return self._sequence([old if new is None else new for old, new in zip(items, found, strict=True)])

    def _sequence(self, values: list[Any]) -> Any:
        given = self._jvm.java.util.ArrayList()
        for value in values:
            given.add(value)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(given).toIndexedSeq()
