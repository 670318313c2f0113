"""What every step goes through whose effects others can see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.runtime.failpoints import Failpoint, Failpoints


@dataclass(frozen=True)
class Guard:
    """Failpoints and fencing.

    Attributes:
        failpoint: called at each point where a test may crash the update.
        fence: returns if this update may commit; raises if another one has taken over.
        fencing_token: the number of the lease, which only grows.
    """

    failpoint: Failpoints
    fence: Callable[[], None]
    fencing_token: int

    def before(self, point: Failpoint) -> None:
        """Called before a step with effects: passes the failpoint, and checks the fence."""
        self.failpoint(point)
        self.fence()
