"""When so many batches were set aside as a whole that the next one may not be."""

from __future__ import annotations

from headrace.model.dead_letter_policy import (
    MAX_CONSECUTIVE_BATCHES,
    MAX_RECENT_BATCHES,
    RECENT_BATCHES,
    too_many_batches,
)


def test_consecutive_failed_batches_reach_the_limit() -> None:
    row = range(5, 5 + MAX_CONSECUTIVE_BATCHES)

    assert too_many_batches(row, row.stop) == "3 in a row"
    assert too_many_batches(row[1:], row.stop) is None
    assert too_many_batches(row, row.stop + 1) is None


def test_failed_batches_among_the_most_recent_ones_reach_the_limit() -> None:
    every_other = range(0, 2 * MAX_RECENT_BATCHES, 2)

    assert too_many_batches(every_other, every_other.stop) == "10 of the last 100"
    assert too_many_batches(every_other[1:], every_other.stop) is None


def test_failed_batches_of_long_ago_do_not_count() -> None:
    every_other = range(0, 2 * MAX_RECENT_BATCHES, 2)

    assert too_many_batches(every_other, RECENT_BATCHES) == "10 of the last 100"
    assert too_many_batches(every_other, RECENT_BATCHES + 1) is None
