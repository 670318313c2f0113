"""Schedules of datasets as SQL writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.schedules.clause import clause_text, parse_clause, schedule_of
from headrace.schedules.cron import CronTimes
from headrace.schedules.definition import Cron, Every, Pace, TableUpdate

TIMINGS = st.one_of(
    st.builds(Every, st.integers(1, 10**7).map(float)),
    st.builds(TableUpdate, pace=st.builds(Pace, at_most_every_s=st.integers(1, 10**6).map(float))),
    st.sampled_from(["UTC", "Europe/Berlin"]).map(lambda zone: Cron(CronTimes.quartz("0 15 2 ? * MON", zone))),
)


@given(TIMINGS)
def test_the_clause_of_a_timing_is_read_back(timing):
    """Guards the form in which the event log stores schedules."""
    assert parse_clause(clause_text(timing)) == timing


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("schedule refresh every 2 weeks", "every 14 d"),
        ("SCHEDULE EVERY DAY", "every 1 d"),
        ("SCHEDULE CRON '0 0 2 * * ?'", "0 0 2 * * ? Asia/Tokyo"),
        ("TRIGGER ON UPDATE AT MOST EVERY INTERVAL '10' MINUTE", "update of what it reads"),
    ],
)
def test_forms_of_the_vendor_are_read(text, shown):
    """Guards spellings that our own clause text does not have."""
    assert parse_clause(text, "Asia/Tokyo").describe() == shown


def test_the_schedule_of_a_dataset_refreshes_that_dataset():
    """Guards the name, which cannot be that of a schedule in the settings."""
    schedule = schedule_of("sales.orders", "SCHEDULE EVERY 60 SECONDS", 5)

    assert (schedule.name, schedule.refresh, schedule.retries) == ("dataset:sales.orders", ("sales.orders",), 5)
