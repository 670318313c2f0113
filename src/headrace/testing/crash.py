"""The death of an update, inside of a living process."""

from __future__ import annotations

from threading import Lock

from headrace.runtime.failpoints import Failpoint


class Crashed(Exception):
    """The update died at a point where the test wanted it to; never retried, like death."""

    def __init__(self, point: Failpoint) -> None:
        super().__init__(f'the update died at "{point.value}"')
        self.point = point


class Fuse:
    """A seam that lets an update die: at the given point, and then at every other one it comes to.

    Args:
        point: where.
        skip: how often the update passes the point before.
    """

    def __init__(self, point: Failpoint | None = None, skip: int = 0) -> None:
        self.point = point
        self.blown = False
        self._left = skip
        # Sinks of one flow come to their points at a time.
        self._passing = Lock()

    def check(self) -> None:
        """Say how an update ended that was to die.

        Raises:
            Crashed: it did.
            AssertionError: it should have and did not.
        """
        if self.point is None:
            return
        if self.blown:
            raise Crashed(self.point)
        raise AssertionError(f'the update never came to "{self.point.value}"')

    def __call__(self, point: Failpoint) -> None:
        """What the engine tells."""
        if self.point is None:
            return
        with self._passing:
            if point is self.point and not self.blown:
                self.blown = self._left == 0
                self._left -= 1
        if self.blown:
            raise Crashed(self.point)
