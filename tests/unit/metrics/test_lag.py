"""Lag of datasets along their paths, and where the time of a stream goes, in a word."""

from __future__ import annotations

import json

import pytest

from headrace.metrics.bottleneck import WAITING, RecentPhases
from headrace.metrics.dataset_lag import DatasetLag, DefinedFlow, dataset_lags

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
