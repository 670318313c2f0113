"""Rows that fail are found among the others by trying parts of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.bisect import NoSingleRowFails, TooManyFailures, find_failing_rows


class Tried:
    """Says why a part fails, and counts how often it was asked."""

    def __init__(self, bad):
        self.bad = bad
        self.calls = 0

    def __call__(self, first, last):
        self.calls += 1
        return next((f"row {row}" for row in sorted(self.bad) if first <= row < last), None)


@st.composite
def rows(draw):
    count = draw(st.integers(1, 300))
    return count, draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=8))


@given(rows())
def test_bisection_finds_exactly_the_failing_rows_with_their_reasons(given_rows):
    count, bad = given_rows

    assert find_failing_rows(count, Tried(bad), max_failures=8) == {row: f"row {row}" for row in bad}


@given(rows())
def test_bisection_needs_a_logarithmic_number_of_attempts_per_failing_row(given_rows):
    count, bad = given_rows
    tried = Tried(bad)

    find_failing_rows(count, tried, max_failures=8)

    assert tried.calls <= 2 * len(bad) * (math.log2(count) + 1)


def test_bisection_stops_when_more_rows_fail_than_allowed():
    with pytest.raises(TooManyFailures):
        find_failing_rows(100, Tried(range(50)), max_failures=10)


def test_bisection_raises_when_rows_fail_only_together():
    with pytest.raises(NoSingleRowFails):
        find_failing_rows(8, lambda first, last: "together" if last - first > 1 else None, max_failures=8)


def test_bisection_makes_no_attempt_when_there_are_no_rows():
    tried = Tried({0})

    assert (find_failing_rows(0, tried, max_failures=1), tried.calls) == ({}, 0)
