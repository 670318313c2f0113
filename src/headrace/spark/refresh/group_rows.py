"""Computes the rows of a query from the values of its keys and aggregate functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from headrace.spark.analysis.plan_columns import value_of
from headrace.spark.jvm.plan_nodes import items, node_kind
from headrace.spark.refresh.plan_builder import PlanNodes


def outputs_of(nodes: PlanNodes, node: Any, known: Sequence[tuple[Any, str]], values: DataFrame) -> Any:
    """The columns of an aggregate, or of a DISTINCT, computed from known values.

    Args:
        nodes: makes plans.
        node: the operator.
        known: keys and aggregate functions, and the columns of *values* that have their values.
        values: a row for each group.
    """
    plan, columns = nodes.columns(values)
    parts = [(part, columns[name]) for part, name in known]
    named = items(node.aggregateExpressions() if node_kind(node) == "Aggregate" else node.output())
    return nodes.project(
        [nodes.alias(_with_values(nodes, value_of(one), parts), str(one.name()), one.exprId()) for one in named], plan
    )


def with_average(nodes: PlanNodes, rows: DataFrame, function: Any, columns: tuple[str, str], name: str) -> DataFrame:
    """Rows with an average, computed by its aggregate function from columns with the sum and the count."""
    plan, known = nodes.columns(rows)
    output = list(items(plan.output()))
    buffers = nodes.renamed([known[column] for column in columns], [function.sum(), function.count()])
    average = nodes.alias(function.evaluateExpression(), name, nodes.new_id())
    return nodes.frame(nodes.project([*output, average], nodes.project([*output, *buffers], plan)))


def _with_values(nodes: PlanNodes, expression: Any, parts: Sequence[tuple[Any, Any]]) -> Any:
    """An expression with other values for some of its parts."""
    for part, value in parts:
        if expression.semanticEquals(part):
            return value
    children = list(items(expression.children()))
    if not children:
        return expression
    return nodes.with_children(expression, [_with_values(nodes, child, parts) for child in children])
