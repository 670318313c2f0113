"""Times of cron expressions, compared with rules that are written down, and where clocks are changed."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from headrace.schedules.cron import CronTimes, InvalidSchedule

BERLIN = ZoneInfo("Europe/Berlin")


def moment(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def times(cron: CronTimes, start: str, count: int) -> list[str]:
    """The next times after a start, as local times with their offsets."""
    found, at = [], moment(start, cron.zone)
    for _ in range(count):
        at = cron.next_after(at)
        found.append(datetime.fromtimestamp(at, ZoneInfo(cron.zone)).strftime("%a %d %H:%M:%S%z"))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 2 * * ?", ["Mon 02 02:00:00+0000", "Tue 03 02:00:00+0000"]),
        ("0 0 12 ? * MON-FRI", ["Mon 02 12:00:00+0000", "Tue 03 12:00:00+0000"]),
        # Sunday is 1.
        ("0 0 12 ? * 1", ["Sun 08 12:00:00+0000", "Sun 15 12:00:00+0000"]),
        ("0 0 12 ? * FRI-MON", ["Mon 02 12:00:00+0000", "Fri 06 12:00:00+0000"]),
        ("0 0 12 ? * 7-1", ["Sat 07 12:00:00+0000", "Sun 08 12:00:00+0000"]),
        ("15 30 9 1,15 * ?", ["Sun 15 09:30:15+0000", "Wed 01 09:30:15+0000"]),
        ("0 0/20 6 * * ?", ["Mon 02 06:00:00+0000", "Mon 02 06:20:00+0000"]),
        ("0 0 8 L * ?", ["Tue 31 08:00:00+0000", "Thu 30 08:00:00+0000"]),
        ("0 0 8 ? * 6L", ["Fri 27 08:00:00+0000", "Fri 24 08:00:00+0000"]),
        ("0 0 8 ? * 2#1 *", ["Mon 02 08:00:00+0000", "Mon 06 08:00:00+0000"]),
        ("0,30 0 2 ? * *", ["Mon 02 02:00:00+0000", "Mon 02 02:00:30+0000"]),
    ],
)
def test_quartz_expressions_have_the_times_of_quartz(text, expected):
    """Guards the vendor's form: seconds, days from Sunday, ranges over the end, L and #."""
    assert times(CronTimes.quartz(text, "UTC"), "2026-03-01T13:00", 2) == expected


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        # 29 March 2026: 02:00 to 03:00 does not exist.
        ("30 2 * * *", "2026-03-28T03:00", ["Sun 29 03:00:00+0200", "Mon 30 02:30:00+0200"]),
        ("0 * * * *", "2026-03-29T00:30", ["Sun 29 01:00:00+0100", "Sun 29 03:00:00+0200"]),
        # 25 October 2026: 02:00 to 03:00 exists twice.
        ("30 2 * * *", "2026-10-24T03:00", ["Sun 25 02:30:00+0200", "Mon 26 02:30:00+0100"]),
        ("30 * * * *", "2026-10-25T02:00", ["Sun 25 02:30:00+0200", "Sun 25 02:30:00+0100"]),
    ],
)
def test_a_time_that_a_clock_change_skips_or_repeats_fires_once(text, start, expected):
    """Guards daylight saving time, which no other test has."""
    assert times(CronTimes.unix(text, "Europe/Berlin"), start, 2) == expected
    assert times(CronTimes.quartz(quartz(text), "Europe/Berlin"), start, 2) == expected


def quartz(text: str) -> str:
    minute, hour, *_ = text.split()
    return f"0 {minute} {hour} * * ?"


@pytest.mark.parametrize(
    ("read", "text", "reason"),
    [
        (CronTimes.unix, "0 0 2 * * ?", "it has 6 fields, as expressions of Quartz have"),
        (CronTimes.unix, "61 * * * *", "invalid minute"),
        (CronTimes.unix, "0 0 30 2 *", "invalid day of month"),
        (CronTimes.unix, "* *", "it has 2 fields, not five"),
        (CronTimes.quartz, "0 2 * * *", "it has 5 fields; an expression of Quartz has six or seven"),
        (CronTimes.quartz, "0 0 2 * * ? 2027", "years are not supported"),
        (CronTimes.quartz, "0 0 2 1 * MON", "day of month and day of week exclude each other: write ? for one of them"),
        (CronTimes.quartz, "0 0 2 ? * ?", "only one of day of month and day of week can be ?"),
        (CronTimes.quartz, "0 0 2 15W * ?", '"15W" is not supported in the day of month'),
        (CronTimes.quartz, "0 0 2 ? * 8", "invalid day of week"),
        (CronTimes.quartz, "0 0/0 2 * * ?", "invalid minutes"),
    ],
)
def test_an_invalid_expression_is_refused_with_its_reason(read, text, reason):
    """Guards that nothing is read as another expression than it is."""
    with pytest.raises(InvalidSchedule) as raised:
        read(text, "UTC")

    assert str(raised.value) == reason


def test_an_unknown_time_zone_is_named():
    """Guards the reason of a zone that no system has."""
    with pytest.raises(InvalidSchedule, match='the time zone "Mars/North" is unknown'):
        CronTimes.unix("0 2 * * *", "Mars/North")


# With so many days of times as take a moment to list.
EXPRESSIONS = {"*/5 * * * *": 0.5, "0 * * * *": 3, "30 2 * * *": 40, "0 2,14 * * 1-5": 20, "15 3 1 * *": 400}
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "+05:30"]
START = moment("2024-01-01")
MOMENTS = st.floats(0, 4 * 366 * 86_400.0).map(lambda seconds: START + seconds)


@settings(max_examples=examples(40, 1000), deadline=None)
@given(st.sampled_from(sorted(EXPRESSIONS)), st.sampled_from(ZONES), MOMENTS, st.floats(0, 1))
def test_the_newest_time_of_a_span_is_the_last_of_its_times(text, zone, after, share):
    """Guards the search backwards, which looks at windows, against the times in their order."""
    cron = CronTimes.unix(text, zone)
    until = after + share * EXPRESSIONS[text] * 86_400.0
    listed, at = [], after
    while (at := cron.next_after(at)) <= until:
        listed.append(at)

    assert all(first < second for first, second in pairwise(listed))
    assert cron.newest(after, until) == (listed[-1] if listed else None)
