"""Lag of datasets along their paths, and where the time of a stream goes, in a word."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.metrics.bottleneck import WAITING, RecentPhases
from headrace.metrics.dataset_lag import DatasetLag, DefinedFlow, dataset_lags
from headrace.metrics.topic_age import TopicAge
from headrace.model.outcome import PartitionLag

FLOWS = {
    "raw": DefinedFlow("raw", ()),
    "clean": DefinedFlow("clean", ("raw",)),
    "more": DefinedFlow("clean", ("other",)),
    "other": DefinedFlow("other", ()),
    "view": DefinedFlow("view", ("clean",), is_instant=True),
    "report": DefinedFlow("report", ("view", "raw", "report")),
}


def test_global_lag_is_that_of_the_slowest_path_and_what_has_read_all_is_not_behind():
    lags = dataset_lags(FLOWS, {"raw": 10, "clean": 5, "more": 7, "other": 0, "report": 0})

    assert lags["other"] == DatasetLag(0, 0)
    assert lags["clean"] == DatasetLag(7, 17)
    assert lags["view"] == DatasetLag(0, 17)
    assert lags["report"] == DatasetLag(0, 17)


def test_lag_that_depends_on_an_unknown_one_is_unknown():
    lags = dataset_lags(FLOWS, {"clean": 5, "more": 7, "other": 0, "report": None})

    assert lags["clean"] == DatasetLag(7, None)
    assert lags["report"] == DatasetLag(None, None)


@pytest.mark.parametrize(
    ("phases", "now", "cause"),
    [
        ({"wal_commit": 20_000, "commit_batch": 15_000, "add_batch": 30_000}, 60, "checkpoint storage"),
        ({"latest_offset": 20_000, "get_batch": 15_000, "add_batch": 30_000}, 60, "source"),
        ({"add_batch": 20_000}, 60, WAITING),
        ({}, 60, WAITING),
        # The report is older than ten minutes.
        ({"query_planning": 50_000}, 900, WAITING),
        ({"query_planning": 50_000}, 60, "planning"),
    ],
)
def test_the_bottleneck_is_the_cause_of_most_of_the_last_ten_minutes(phases, now, cause):
    recent = RecentPhases(0)
    assert recent.cause(60) is None
    recent.add(50, phases)

    assert RecentPhases.from_json(json.loads(json.dumps(recent.to_json()))).cause(now) == cause


def test_a_stream_that_runs_for_months_keeps_ten_minutes():
    recent = RecentPhases(0)
    for minute in range(100):
        recent.add(60 * minute, {"add_batch": 1000})

    assert len(recent.to_json()["minutes"]) == 10


def reports(arrivals, reads):
    """The reports of a stream each ten seconds: what has arrived in a partition by then, and what was read."""
    age, read, newest = TopicAge(), 0, 0
    for number, (arrived, batch) in enumerate(zip(arrivals, reads, strict=True)):
        newest += arrived
        read = min(read + batch, newest)
        age.observe(10.0 * number, [PartitionLag("orders", 0, read, newest)])
        # As it is stored between two scrapes.
        age = TopicAge.from_json(json.loads(json.dumps(age.to_json())))
        yield read, newest, age.oldest_unread_at


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=15))
def test_the_oldest_unread_record_of_a_topic_is_as_old_as_the_first_report_that_saw_it(steps):
    arrivals, reads = zip(*steps, strict=True)
    for read, newest, oldest_at in reports(arrivals, reads):
        ends = [sum(arrivals[: number + 1]) for number in range(len(arrivals))]
        seen_at = next(10.0 * number for number, end in enumerate([*ends, newest + 1]) if end > read)
        assert oldest_at == (None if read == newest else seen_at)


@pytest.mark.parametrize("batch", [0, 1, 5, 9])
def test_the_age_of_a_stream_that_falls_behind_for_hours_is_a_fifth_too_low_at_most(batch):
    for number, (read, _, oldest_at) in enumerate(reports([10] * 500, [batch] * 500)):
        age_s, seen_s = 10.0 * (number - read // 10), 10.0 * number - oldest_at
        assert 0.8 * age_s - 10 <= seen_s <= age_s


def test_a_topic_that_was_created_again_counts_anew():
    age = TopicAge()
    for at, offset, newest in ((0, 5, 90), (10, 0, 8)):
        age.observe(at, [PartitionLag("orders", 0, offset, newest)])

    assert age.oldest_unread_at == 10
