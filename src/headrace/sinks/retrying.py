"""Retries with backoff, jitter and a time budget, a circuit breaker, and a rate limiter.

Source: M. Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015), with full jitter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Patience:
    """A retry policy.

    Attributes:
        attempts: the maximum number of attempts.
        budget_s: the total time, after which no attempt begins.
        initial_delay_s: the maximum delay before the second attempt; it doubles with each attempt.
        max_delay_s: the limit of every delay, unless the server asks for more.
    """

    attempts: int = 5
    budget_s: float = 60.0
    initial_delay_s: float = 0.5
    max_delay_s: float = 30.0


@dataclass(frozen=True)
class Clock:
    """Time and randomness, which tests replace.

    Attributes:
        monotonic: a monotonic clock in seconds.
        sleep: waits for a number of seconds.
        random: a random number from 0 to 1.
    """

    monotonic: Callable[[], float]
    sleep: Callable[[float], None]
    random: Callable[[], float]


def backoff_s(attempt: int, initial_s: float, max_s: float) -> float:
    """The delay after a failed attempt, counted from 1: it doubles with each attempt, up to a limit."""
    # More doublings than any limit needs; a flow may be retried for months.
    return float(min(initial_s * 2 ** min(attempt - 1, 32), max_s))


def with_retries(
    work: Callable[[], _Result],
    retry_delay_s: Callable[[Exception], float | None],
    patience: Patience,
    clock: Clock,
) -> _Result:
    """The result of *work*, which is retried while its errors are transient.

    Args:
        work: what to do.
        retry_delay_s: the minimum delay in seconds after an error; None for a permanent error.
        patience: the retry policy.
        clock: time and randomness.

    Raises:
        Exception: the last error.
    """
    started_at = clock.monotonic()
    attempt = 1
    while True:
        try:
            return work()
        except Exception as error:
            min_delay_s = retry_delay_s(error)
            if min_delay_s is None or attempt >= patience.attempts:
                raise
            max_delay_s = backoff_s(attempt, patience.initial_delay_s, patience.max_delay_s)
            delay_s = max(min_delay_s, clock.random() * max_delay_s)
            if clock.monotonic() - started_at + delay_s > patience.budget_s:
                raise
            clock.sleep(delay_s)
            attempt += 1


class CircuitOpen(Exception):
    """The circuit breaker is open: the server has failed so often that it gets no requests for a while."""


class CircuitBreaker:
    """Blocks requests after several failures in a row, and lets one request through after a pause.

    Args:
        failures: the number of failures in a row that open it.
        pause_s: how long it stays open.
        monotonic: a monotonic clock in seconds.
    """

    def __init__(self, failures: int, pause_s: float, monotonic: Callable[[], float]) -> None:
        self._failures = failures
        self._pause_s = pause_s
        self._monotonic = monotonic
        self._lock = Lock()
        self._consecutive_failures = 0
        self._opened_at: float | None = None
        self._probing = False

    def check(self) -> None:
        """Return if a request may be sent now.

        Raises:
            CircuitOpen: otherwise.
        """
        with self._lock:
            if self._opened_at is None:
                return
            if self._probing or self._monotonic() - self._opened_at < self._pause_s:
                raise CircuitOpen
            self._probing = True

    def record(self, *, failed: bool) -> None:
        """Record the result of a request."""
        with self._lock:
            self._probing = False
            self._consecutive_failures = self._consecutive_failures + 1 if failed else 0
            if not failed:
                self._opened_at = None
            elif self._opened_at is not None or self._consecutive_failures >= self._failures:
                self._opened_at = self._monotonic()


class RateLimiter:
    """Limits how many requests begin per second, evenly spaced.

    Args:
        per_second: the limit; None for no limit.
        clock: time.
    """

    def __init__(self, per_second: float | None, clock: Clock) -> None:
        self._interval_s = 1 / per_second if per_second else 0.0
        self._clock = clock
        self._lock = Lock()
        self._next = clock.monotonic()

    def wait(self) -> None:
        """Return when the next request may begin."""
        with self._lock:
            start = max(self._next, self._clock.monotonic())
            self._next = start + self._interval_s
        remaining_s = start - self._clock.monotonic()
        if remaining_s > 0:
            self._clock.sleep(remaining_s)
