"""Draws several examples of a hypothesis strategy at once, for tests that put all of them into one project."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy
from tests.tiers import ASKED, examples

EXAMPLES = examples(few=10, many=25)


def drawn(strategy: SearchStrategy[Any]) -> list[Any]:
    """The same ones each time, unless a number of them was asked for, with a seed."""
    found: list[Any] = []

    @settings(
        max_examples=EXAMPLES,
        derandomize=ASKED is None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(example=strategy)
    def keep(example: Any) -> None:
        found.append(example)

    keep()
    return found
