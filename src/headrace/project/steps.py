"""The steps of work on a storage that no update does, as tests see them that stop the process there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

# Called with the name of each step, once it is done.
Reached: TypeAlias = Callable[[str], None]


def no_step(step: str) -> None:
    """Do nothing at a step."""
    del step
