"""The nodes of Spark's plans and expressions, read through py4j."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def items(scala_sequence: Any) -> Iterator[Any]:
    """The entries of a Scala sequence."""
    for index in range(scala_sequence.size()):
        yield scala_sequence.apply(index)


def node_kind(node: Any) -> str:
    """The kind of a plan node or an expression: the name of its class."""
    return str(node.getClass().getSimpleName())


def leaves(plan: Any) -> Iterator[Any]:
    """The leaf nodes of a plan, from left to right."""
    below = list(items(plan.children()))
    if not below:
        yield plan
    for child in below:
        yield from leaves(child)
