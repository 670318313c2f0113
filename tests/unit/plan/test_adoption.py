"""From which batch a flow goes on that takes over a job, whatever the moment at which the job was stopped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.adoption import (
    JobProgress,
    Refused,
    committed_batch,
    files_mismatch,
    state_mismatch,
    topics_mismatch,
)

# What a job does with each batch, one after the other; it can be stopped after any step.
PLAN, WRITE, DONE = range(3)


def job_after(steps):
    """The stores of a job after some of these steps: what is planned, done and in the table."""
    planned = [step // 3 for step in range(steps) if step % 3 == PLAN]
    written = [step // 3 for step in range(steps) if step % 3 == WRITE]
    done = [step // 3 for step in range(steps) if step % 3 == DONE]
    return planned, written, done


def newest(batches):
    return max(batches, default=-1)


@given(stopped_after=st.integers(0, 40), more=st.integers(0, 5))
def test_each_batch_is_written_once_wherever_the_job_stopped(stopped_after, more):
    """Guards the law of an adoption: a stream that plans on, and skips what the table has, writes each batch once."""
    planned, written, done = job_after(stopped_after)
    transaction = newest(written) if written else None
    committed = committed_batch(JobProgress(newest(planned), newest(done), transaction))

    if isinstance(committed, Refused):
        # Before the first transaction, nobody knows who writes.
        assert committed.code == "ADOPT.BATCH_UNKNOWN"
        assert (planned, written) == ([0], [])
        return
    # Spark plans the newest batch again if it is not done, and goes on.
    first = newest(planned) if newest(planned) > newest(done) else newest(planned) + 1
    replayed = [batch for batch in range(first, first + more + 1) if batch > committed]
    assert written + replayed == list(range(first + more + 1))


@given(batches=st.integers(0, 10), finished=st.booleans())
def test_a_job_without_transactions_is_taken_only_between_two_batches(batches, finished):
    """Guards that a batch of foreachBatch that may be in the table is neither lost nor written twice."""
    done = batches if finished else batches - 1

    found = committed_batch(JobProgress(batches, done, None))

    assert found == batches if finished else getattr(found, "code", "") == "ADOPT.BATCH_UNKNOWN"


@pytest.mark.parametrize(
    ("progress", "code"),
    [(JobProgress(3, 3, 5), "ADOPT.CHECKPOINT_OLD"), (JobProgress(5, 5, 3), "ADOPT.TABLE_OLD")],
)
def test_stores_of_two_times_are_refused(progress, code):
    """Guards that a copy from a backup is not taken for the present: batches would be skipped or missing."""
    found = committed_batch(progress)

    assert isinstance(found, Refused)
    assert found.code == code


@pytest.mark.parametrize(
    ("known", "kinds", "is_same"),
    [
        ((), (), True),
        (("aggregation",), ("aggregate",), True),
        (("aggregation by session window",), ("aggregate",), True),
        (("deduplication", "aggregation"), ("aggregate", "deduplicate"), False),
        (("aggregation",), (), False),
        ((), ("join",), False),
        (("",), ("aggregate",), False),
    ],
)
def test_state_is_taken_only_for_the_same_operators_in_the_same_order(known, kinds, is_same):
    """Guards that a query does not open the state of another one, which Spark detects only in part."""
    assert (state_mismatch(known, kinds) == "") is is_same


@pytest.mark.parametrize(
    ("topics", "source", "is_same"),
    [
        (["a", "b"], "kafka a, b, c", True),
        (["a", "d"], "kafka a, b, c", False),
        (["orders-1"], "kafka topics like orders-.*", True),
        (["sales"], "kafka topics like orders-.*", False),
    ],
)
def test_topics_that_the_flow_does_not_read_are_named(topics, source, is_same):
    """Guards that offsets of other topics are not taken over."""
    assert (topics_mismatch(topics, source) == "") is is_same


@pytest.mark.parametrize(
    ("files", "patterns", "is_same"),
    [
        (["/data/orders/1.json"], ["/data/orders"], True),
        (["/data/orders/2026/1.json"], ["/data/orders/*/"], True),
        (["/data/orders2/1.json"], ["/data/orders"], False),
        ([], ["/data/orders"], True),
    ],
)
def test_files_outside_of_the_folders_of_the_flow_are_named(files, patterns, is_same):
    """Guards that a listing of another folder is not taken over."""
    assert (files_mismatch(files, patterns) == "") is is_same
