"""What a plan of Spark's reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def leaves(plan: Any) -> Iterator[Any]:
    """The nodes of a plan of Spark's that have none below them, from left to right."""
    children = plan.children()
    if not children.size():
        yield plan
    for number in range(children.size()):
        yield from leaves(children.apply(number))
