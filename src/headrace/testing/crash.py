"""Simulates the crash of an update inside a running process."""

from __future__ import annotations

from threading import Lock

from headrace.runtime.failpoints import Failpoint


class Crashed(Exception):
    """The update crashed at the requested failpoint; never retried, like a real crash."""

    def __init__(self, point: Failpoint) -> None:
        super().__init__(f'the update died at "{point.value}"')
        self.point = point


class CrashFailpoint:
    """Crashes an update at a failpoint, and then at every failpoint that it reaches.

    Args:
        point: the failpoint.
        skip: how often the update passes it before.
    """

    def __init__(self, point: Failpoint | None = None, skip: int = 0) -> None:
        self.point = point
        self.has_fired = False
        self._remaining = skip
        # Sinks of one flow reach their failpoints concurrently.
        self._lock = Lock()

    def check(self) -> None:
        """Check how an update ended that was to crash.

        Raises:
            Crashed: it crashed.
            AssertionError: it should have crashed and did not.
        """
        if self.point is None:
            return
        if self.has_fired:
            raise Crashed(self.point)
        raise AssertionError(f'the update never came to "{self.point.value}"')

    def __call__(self, point: Failpoint) -> None:
        """Called by the engine at each failpoint."""
        if self.point is None:
            return
        with self._lock:
            if point is self.point and not self.has_fired:
                self.has_fired = self._remaining == 0
                self._remaining -= 1
        if self.has_fired:
            raise Crashed(self.point)
