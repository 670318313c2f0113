"""Event hooks: user functions that receive the events of an update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.model.location import Location


@dataclass(frozen=True)
class EventHook:
    """A function that receives the events of an update.

    It is disabled after more than ``max_consecutive_failures`` failures in a row; None for any number.
    """

    function: Callable[[dict[str, Any]], Any]
    name: str
    location: Location
    max_consecutive_failures: int | None = None
