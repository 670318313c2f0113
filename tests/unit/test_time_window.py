"""Times of day in a time zone, over midnight and when the clock is changed."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.time_window import InvalidWindow, TimeWindow

BERLIN = ZoneInfo("Europe/Berlin")
MINUTES = st.integers(0, 24 * 60 - 1)
# Both days of a year on which the clock is changed are in it.
TIMES = st.integers(1_790_000_000, 1_822_000_000)


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


@pytest.mark.parametrize(
    ("window", "moment", "is_in"),
    [
        ("22:00-07:00 Europe/Berlin", "2026-11-27T21:59:59", False),
        ("22:00-07:00 Europe/Berlin", "2026-11-27T22:00", True),
        ("22:00-07:00 Europe/Berlin", "2026-11-28T06:59:59", True),
        ("22:00-07:00 Europe/Berlin", "2026-11-28T07:00", False),
        ("1:00 - 5:30 +01:00", "2026-11-27T05:29", True),
        ("01:00-05:30 UTC", "2026-11-27T01:30", False),
        ("18:00-24:00 Europe/Berlin", "2026-11-27T23:59", True),
    ],
)
def test_a_window_has_its_start_and_not_its_end(window, moment, is_in):
    assert TimeWindow.of(window).contains(at(moment)) is is_in


@pytest.mark.parametrize(
    "text",
    [
        "",
        "22:00",
        "22:00-07:00",
        "22:00-22:00 UTC",
        "0:00-24:00 UTC",
        "25:00-26:00 UTC",
        "1:60-2:00 UTC",
        "1:00-2:00 Moon",
    ],
)
def test_a_text_that_is_no_window_is_refused(text):
    with pytest.raises(InvalidWindow):
        TimeWindow.of(text)


@given(MINUTES, MINUTES, TIMES)
def test_a_window_ends_after_what_it_contains_and_starts_after_the_rest(start, end, moment):
    window = TimeWindow(start, end, "Europe/Berlin")
    if start == end:
        return
    boundary = window.ends_at(moment) if window.contains(moment) else window.starts_at(moment)

    # On the days on which the clock is changed, a time of day may not exist, or twice.
    assert moment < boundary <= moment + 25 * 3600
    inside = [window.contains(time) for time in range(moment, int(boundary), 1800)]
    assert inside.count(window.contains(moment)) >= len(inside) - 2
