"""Long batches are found among running jobs: short ones are not reported, and tasks of ended jobs still count."""

from __future__ import annotations

import pytest

from headrace.events.types import BatchRunning
from headrace.model.outcome import BatchTasks
from headrace.runtime.long_batches import LONG_BATCH_S, REPORT_INTERVAL_S, LongBatches, RunningJob


@pytest.fixture
def batches():
    found = LongBatches()
    found.watch("run", "orders", "bronze.orders")
    return found


def job(number, done=0, tasks=10, batch_id=7, group="run"):
    return RunningJob(number, group, batch_id, done, tasks)


def observed(batches, now, *jobs):
    return [event.batch for event in batches.observe(jobs, now)]


def test_a_batch_is_reported_once_it_is_long_and_then_at_intervals(batches):
    times = [
        100.0,
        100 + LONG_BATCH_S - 0.1,
        100 + LONG_BATCH_S,
        101 + LONG_BATCH_S,
        100 + LONG_BATCH_S + REPORT_INTERVAL_S,
    ]

    assert [len(observed(batches, now, job(1))) for now in times] == [0, 0, 1, 0, 1]


def test_a_report_names_the_flow_and_counts_ended_jobs_of_the_batch(batches):
    observed(batches, 100, job(1, done=3))
    observed(batches, 102, job(1, done=9), job(2))

    (event,) = batches.observe([job(2, done=4)], 141)

    assert event == BatchRunning("orders", "bronze.orders", BatchTasks(7, 14, 20, 41))
    assert event.message == 'flow "orders" runs batch 7: 14 of 20 tasks, 0:41'


def test_the_next_batch_begins_anew(batches):
    observed(batches, 100, job(1))

    assert observed(batches, 150, job(2, batch_id=8)) == []
    assert observed(batches, 160, job(2, batch_id=8)) == [BatchTasks(8, 0, 10, 10)]


def test_a_job_without_a_number_belongs_to_the_batch_before_it(batches):
    observed(batches, 100, job(1))
    observed(batches, 101, job(2, batch_id=None))

    assert observed(batches, 110, job(3)) == [BatchTasks(7, 20, 30, 10)]


def test_the_next_computation_of_a_view_begins_anew(batches):
    batches.watch("view", "daily", "daily")
    observed(batches, 100, job(1, batch_id=None, group="view"))
    batches.watch("view", "daily", "daily")

    assert observed(batches, 150, job(2, batch_id=None, group="view")) == []


def test_jobs_of_others_and_of_an_earlier_query_of_the_flow_are_ignored(batches):
    batches.watch("second run", "orders", "bronze.orders")

    for now in (100, 150):
        assert observed(batches, now, job(1), job(2, group="someone")) == []
    assert observed(batches, 150, job(3, group="second run")) == []


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        (BatchTasks(12, 34, 200, 41), "batch 12: 34 of 200 tasks, 0:41"),
        (BatchTasks(None, 1034, 12_000, 4104), "1,034 of 12,000 tasks, 1:08:24"),
        (BatchTasks(0, 0, 1, 600), "batch 0: 0 of 1 tasks, 10:00"),
    ],
)
def test_a_batch_is_described_in_a_few_words(batch, text):
    assert batch.describe() == text
