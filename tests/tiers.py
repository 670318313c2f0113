"""Two tiers of tests: what a change needs (`make test`), and everything (`make test-all`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

# How many examples of a law a campaign asks for.
ASKED = os.environ.get("HEADRACE_EXAMPLES")
# The longest that a law may take, in seconds; a campaign takes as long as its examples need.
LONGEST_S = 900 if ASKED is None else 0
EVERYTHING = os.environ.get("HEADRACE_TESTS") == "all"


def examples(few: int, many: int) -> int:
    """How many examples of a law to try: *few* in `make test`, *many* in `make test-all`, any number in a campaign."""
    if ASKED is not None:
        return int(ASKED)
    return many if EVERYTHING else few


def cases(tried: Sequence[T], rest: Sequence[T]) -> list[T]:
    """The cases of a parameter that costs minutes: *tried*, and in a campaign the *rest* too."""
    return [*tried, *(rest if ASKED is not None else ())]
