"""Functions of the user's that are told what happens in an update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.model.location import Location


@dataclass(frozen=True)
class EventHook:
    """A function that gets the events of an update.

    ``most_failures`` in a row are borne before it is left alone; None: any number.
    """

    function: Callable[[dict[str, Any]], Any]
    name: str
    location: Location
    most_failures: int | None = None
