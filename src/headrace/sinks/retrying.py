"""Trying again what may pass: backoff with jitter, a budget of time, and a breaker that spares a server that is down.

Source of the jitter: M. Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015), the full one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Patience:
    """How long something is tried.

    Attributes:
        attempts: how often, at most.
        budget_s: until no further try begins, in all.
        first_s: the longest wait before the second try; it doubles with each one.
        longest_s: which no wait exceeds, unless the other side asks for more.
    """

    attempts: int = 5
    budget_s: float = 60.0
    first_s: float = 0.5
    longest_s: float = 30.0


@dataclass(frozen=True)
class Clock:
    """Time and chance, as they are passed in.

    Attributes:
        monotonic: seconds that only grow.
        sleep: waits for so many seconds.
        chance: a number from 0 to 1, each time another one.
    """

    monotonic: Callable[[], float]
    sleep: Callable[[float], None]
    chance: Callable[[], float]


def tried(
    work: Callable[[], _Result],
    passing: Callable[[Exception], float | None],
    patience: Patience,
    clock: Clock,
) -> _Result:
    """The result of *work*, which is called again as long as its errors may pass.

    Args:
        work: what to do.
        passing: of an error, the least number of seconds to wait; None for one that would come again.
        patience: how long.
        clock: time and chance.

    Raises:
        Exception: the last error.
    """
    began = clock.monotonic()
    attempt = 1
    while True:
        try:
            return work()
        except Exception as error:
            least_s = passing(error)
            if least_s is None or attempt >= patience.attempts:
                raise
            longest_s = min(patience.first_s * 2 ** (attempt - 1), patience.longest_s)
            wait_s = max(least_s, clock.chance() * longest_s)
            if clock.monotonic() - began + wait_s > patience.budget_s:
                raise
            clock.sleep(wait_s)
            attempt += 1


class BreakerOpen(Exception):
    """The other side has failed so often that it is not asked for a while."""


class Breaker:
    """Stops asking who has failed several times in a row, and tries one request after a pause.

    Args:
        failures: so many in a row open it.
        pause_s: for so long.
        monotonic: seconds that only grow.
    """

    def __init__(self, failures: int, pause_s: float, monotonic: Callable[[], float]) -> None:
        self._failures = failures
        self._pause_s = pause_s
        self._monotonic = monotonic
        self._lock = Lock()
        self._in_a_row = 0
        self._opened_at: float | None = None
        self._probing = False

    def ask(self) -> None:
        """Go on if a request may be sent.

        Raises:
            BreakerOpen: not now.
        """
        with self._lock:
            if self._opened_at is None:
                return
            if self._probing or self._monotonic() - self._opened_at < self._pause_s:
                raise BreakerOpen
            self._probing = True

    def told(self, *, failed: bool) -> None:
        """Take note of how a request has ended."""
        with self._lock:
            self._probing = False
            self._in_a_row = self._in_a_row + 1 if failed else 0
            if not failed:
                self._opened_at = None
            elif self._opened_at is not None or self._in_a_row >= self._failures:
                self._opened_at = self._monotonic()


class Pace:
    """Lets so many begin in a second, evenly.

    Args:
        per_second: None for as many as come.
        clock: time.
    """

    def __init__(self, per_second: float | None, clock: Clock) -> None:
        self._apart_s = 1 / per_second if per_second else 0.0
        self._clock = clock
        self._lock = Lock()
        self._next = clock.monotonic()

    def wait(self) -> None:
        """Return when the next one may begin."""
        with self._lock:
            begins = max(self._next, self._clock.monotonic())
            self._next = begins + self._apart_s
        ahead = begins - self._clock.monotonic()
        if ahead > 0:
            self._clock.sleep(ahead)
