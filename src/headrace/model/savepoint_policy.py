"""When updates make savepoints by themselves, and how long these are kept."""

from __future__ import annotations

from dataclasses import dataclass

DAY_S = 86_400.0


@dataclass(frozen=True)
class SavepointPolicy:
    """The settings of savepoints that updates make; times are in seconds.

    Attributes:
        every_s: how long after the last savepoint an update makes another one at its end; 0 for each update, None for
            none.
        before_clearing: whether an update makes one before it clears a table or resets a checkpoint on request.
        keep_s: how long they are kept.
        most: how many of them are kept.
    """

    every_s: float | None = None
    before_clearing: bool = False
    keep_s: float = 7 * DAY_S
    most: int = 48


NO_SAVEPOINTS = SavepointPolicy()
