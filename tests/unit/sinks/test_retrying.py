"""What is tried again, for how long, and when nobody is asked any more."""

from __future__ import annotations

import pytest

from headrace.sinks.retrying import CircuitBreaker, CircuitOpen, Clock, Patience, RateLimiter, with_retries


class Time:
    """Passes only while somebody sleeps."""

    def __init__(self, chance=1.0):
        self.now = 0.0
        self.slept = []
        self.clock = Clock(lambda: self.now, self.sleep, lambda: chance)

    def sleep(self, seconds):
        self.now += seconds
        self.slept.append(seconds)


def failing(times, error=ConnectionError):
    """Fails so often, then returns how often it was called."""
    calls = []

    def work():
        calls.append(1)
        if len(calls) <= times:
            raise error(str(len(calls)))
        return len(calls)

    return work


def passes(_error):
    return 0.0


def test_the_retry_delay_doubles_up_to_a_maximum():
    time = Time()

    assert with_retries(failing(4), passes, Patience(10, 100, initial_delay_s=1, max_delay_s=3), time.clock) == 5

    assert time.slept == [1, 2, 3, 3]


def test_jitter_never_shortens_the_delay_below_the_requested_wait():
    time = Time(chance=0.25)

    with_retries(
        failing(2), lambda error: 5.0 if str(error) == "2" else 0.0, Patience(10, 100, initial_delay_s=4), time.clock
    )

    assert time.slept == [1, 5]


def test_the_last_error_is_raised_when_attempts_are_used_up():
    with pytest.raises(ConnectionError, match="3"):
        with_retries(failing(9), passes, Patience(attempts=3), Time().clock)


def test_no_attempt_starts_after_the_time_budget():
    time = Time()

    with pytest.raises(ConnectionError, match="2"):
        with_retries(failing(9), passes, Patience(10, budget_s=5, initial_delay_s=3), time.clock)

    assert time.slept == [3]


def test_a_permanent_error_is_raised_immediately():
    time = Time()

    with pytest.raises(ValueError, match="1"):
        with_retries(failing(1, ValueError), lambda _: None, Patience(), time.clock)

    assert time.slept == []


def test_a_circuit_breaker_opens_after_consecutive_failures_and_allows_one_probe():
    time = Time()
    breaker = CircuitBreaker(2, 10, time.clock.monotonic)
    for failed in (True, False, True, True):
        breaker.check()
        breaker.record(failed=failed)

    with pytest.raises(CircuitOpen):
        breaker.check()
    time.now = 10
    breaker.check()
    with pytest.raises(CircuitOpen):
        breaker.check()
    breaker.record(failed=False)

    breaker.check()


def test_a_circuit_breaker_stays_open_when_its_probe_fails():
    time = Time()
    breaker = CircuitBreaker(1, 10, time.clock.monotonic)
    breaker.record(failed=True)
    time.now = 10
    breaker.check()
    breaker.record(failed=True)
    time.now = 19

    with pytest.raises(CircuitOpen):
        breaker.check()


def test_a_rate_limiter_spreads_requests_over_time():
    time = Time()
    pace = RateLimiter(4, time.clock)

    for _ in range(4):
        pace.wait()

    assert time.now == 0.75
