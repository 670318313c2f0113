"""What rows cost a stream: hours are compared with hours that read as much."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from headrace.metrics.row_cost import RowCost
from headrace.model.executor_time import ExecutorTime
from headrace.model.stream_progress import StreamBatches

HOUR = 3600.0
START = datetime(2026, 1, 1, tzinfo=UTC)
MONDAY = 500_000 * HOUR


def batches(seconds, rows, of_tasks=None):
    time = None if of_tasks is None else ExecutorTime(1000 * of_tasks, 0)
    return StreamBatches(1, 1, START, 1000 * seconds, input_rows=rows, executor_time=time)


def week(last_hour):
    """A week in which each day has an hour with a million rows and one with ten; then *last_hour*."""
    cost = RowCost()
    for day in range(7):
        # A batch has a cost of its own, so many rows cost less each.
        cost.add(MONDAY + 24 * HOUR * day, batches(300, 1_000_000))
        cost.add(MONDAY + 24 * HOUR * day + HOUR, batches(1000, 10_000_000))
    end = MONDAY + 7 * 24 * HOUR
    for seconds, rows in last_hour:
        cost.add(end, batches(seconds, rows))
    cost = RowCost.from_json(json.loads(json.dumps(cost.to_json())))
    return cost.current(end + HOUR), cost.usual(end + HOUR)


@pytest.mark.parametrize(
    ("last_hour", "expected"),
    [
        ([(300, 1_100_000)], (272.727, 300)),
        ([(700, 400_000), (700, 600_000)], (1400, 300)),
        ([(2000, 9_000_000)], (222.222, 100)),
        # No hour had as many rows; too few rows say nothing; nothing was read.
        ([(9000, 90_000_000)], (100, None)),
        ([(100, 99_999)], (None, None)),
        ([], (None, None)),
    ],
)
def test_an_hour_is_compared_with_the_hours_of_a_week_that_read_as_many_rows(last_hour, expected):
    assert week(last_hour) == expected


def test_a_stream_that_runs_for_years_keeps_a_week():
    cost = RowCost()
    for hour in range(1000):
        cost.add(HOUR * hour, batches(1, 1))

    assert len(cost.to_json()) == 7 * 24 + 1


def test_the_time_of_tasks_is_never_compared_with_that_of_batches():
    cost = RowCost()
    for hour in range(10):
        cost.add(HOUR * hour, batches(100, 1_000_000))
    for hour in range(10, 16):
        cost.add(HOUR * hour, batches(100, 1_000_000, of_tasks=150))
        cost = RowCost.from_json(json.loads(json.dumps(cost.to_json())))

    assert (cost.current(HOUR * 16), cost.usual(HOUR * 16)) == (150, 150)
