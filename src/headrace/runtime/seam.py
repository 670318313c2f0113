"""Places in an update where a test may let it die; every other update walks past them."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias


class Point(str, Enum):
    """Between two writes that a crash can part; the value says what was just stored."""

    QUARANTINED = "quarantined"  # a batch's quarantine rows are stored, its target is not
    WRITTEN = "written"  # a batch is in its target, its counts are not in the event log
    COUNTED = "counted"  # a batch is counted, Spark (or the flow's record) does not know that it is done
    RESET_BEGUN = "reset begun"  # a reset is announced, nothing is cleared
    RESET_ASIDE = "reset aside"  # the quarantine table is cleared, the table is not
    RESET_CLEARED = "reset cleared"  # both are cleared, the flows are still in their old epochs


Seam: TypeAlias = Callable[[Point], None]


def walk_past(point: Point) -> None:
    """Go on: what a seam does outside of tests."""
