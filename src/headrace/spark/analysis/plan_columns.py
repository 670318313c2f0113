"""Where the columns of an analyzed plan come from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.spark.jvm.plan_nodes import items, node_kind


def column_id(named: Any) -> int:
    """The id of a column, or of an expression with a name."""
    return int(named.exprId().id())


def value_of(output: Any) -> Any:
    """An expression without its name."""
    return output.child() if node_kind(output) == "Alias" else output


def column_of(ids: Iterable[int], node: Any, above: list[Any]) -> str | None:
    """The column of a result with the values of one of some columns of a node; None without one.

    Args:
        ids: the ids of the columns.
        node: the operator that has them.
        above: the operators above it, from the top down.
    """
    wanted = set(ids)
    for operator in reversed(above):
        if node_kind(operator) == "Project":
            wanted = {column_id(given) for given in items(operator.projectList()) if _refers(given) in wanted}
    top = above[0] if above else node
    return next((str(column.name()) for column in items(top.output()) if column_id(column) in wanted), None)


def _refers(given: Any) -> int | None:
    """The id of the column that an expression passes on unchanged; None if it computes something."""
    value = value_of(given)
    return column_id(value) if node_kind(value) == "AttributeReference" else None
