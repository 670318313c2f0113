"""Law: what streams with state give is what a batch gives over the same events, but for those that came too late.

In any order of events, any batches and updates, also across crashes. `make campaign` tries many more
(`ARGS="--only state_orders"`), and kills processes (`ARGS="--only state"`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from campaign.state import LATE_MINUTES, PIPELINE, closing_rows, differing
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from tests.tiers import ASKED, EVERYTHING, LONGEST_S

from headrace.events.envelope import from_row
from headrace.events.types import Warned
from headrace.model.outcome import UpdateState
from headrace.testing import Crashed, Failpoint

pytestmark = [pytest.mark.spark, pytest.mark.timeout(LONGEST_S)]

THOROUGH = EVERYTHING or ASKED is not None
# Without a number from outside: the one below, for each takes a minute or two.
LAW = settings(
    max_examples=int(ASKED or 1),
    deadline=None,
    database=None,
    print_blob=True,
    phases=[Phase.explicit, *([Phase.generate, Phase.shrink] if ASKED else [])],
    suppress_health_check=list(HealthCheck),
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTES = st.integers(0, 90)
EVENT = st.tuples(st.sampled_from("ab"), MINUTES, st.sampled_from(["view", "click"]))
# Files by updates; each file is a batch of the first table.
UPDATES = st.lists(st.lists(st.lists(EVENT, min_size=1, max_size=8), min_size=1, max_size=3), min_size=1, max_size=3)
CRASH = st.none() | st.tuples(
    st.sampled_from([Failpoint.BEFORE_WRITE, Failpoint.WRITTEN, Failpoint.COUNTED]), st.integers(0, 6)
)


def event(number, user, minute, kind):
    return {"id": number, "user": user, "at": (NOON + timedelta(minutes=minute)).isoformat(), "kind": kind}


def numbered(updates):
    """The events with an id each; some come twice."""
    number, batches, seen = 0, [], []
    for files in updates:
        batches.append([])
        for file in files:
            rows = []
            for position, one in enumerate(file):
                number += 1
                rows.append(event(number, *one))
                if position == 1:
                    rows.append(seen[number % len(seen)])
                seen.append(rows[0])
            batches[-1].append(rows)
    return batches


def late_by_hand(files):
    """The events that are further behind the newest one of earlier batches than they may be."""
    newest, late = None, []
    for rows in files:
        times = [datetime.fromisoformat(row["at"]) for row in rows]
        if newest is not None:
            bound = newest - timedelta(minutes=LATE_MINUTES)
            late += [row["id"] for row, at in zip(rows, times, strict=True) if at < bound]
        newest = max(filter(None, [newest, *times]))
    return sorted(late)


def minutes(*moments):
    """Events of two users by turns, every third a click."""
    return [("ab"[number % 2], minute, "view" if number % 3 else "click") for number, minute in enumerate(moments)]


LONGER = [[minutes(30, 5, 28, 35, 33), minutes(12, 41, 27, 40)], [minutes(20, 36, 75, 70, 52)]], (Failpoint.WRITTEN, 1)


@pytest.mark.long(
    guard=(
        "tests/spark/test_patterns.py::test_a_stream_in_any_order_returns_the_same_rows_as_a_batch",
        "tests/spark/test_state_reporter.py::test_a_row_behind_the_watermark_causes_an_error_event_and_the_flow_completes",
        "tests/spark/test_exactly_once.py::test_a_stateful_stream_continues_when_an_update_crashes_after_a_written_batch",
    )
)
@LAW
@given(updates=UPDATES, crash=CRASH)
@example([[minutes(30, 5, 28, 35, 33), minutes(12, 41, 27, 40, 75)]], (Failpoint.WRITTEN, 1))
@(example(*LONGER) if THOROUGH else lambda law: law)
def test_stateful_streams_return_the_same_rows_as_a_batch_except_late_events(shared_project, updates, crash):
    pipeline = shared_project(files={"transformations/none.py": ""})
    text = PIPELINE.format(events=str(pipeline.folder / "landing"))
    pipeline.write("transformations/project.py", text)
    batches = [*numbered(updates), [list(closing_rows(1)), list(closing_rows(2))]]
    number = 0
    for update, files in enumerate(batches):
        for rows in files:
            file = pipeline.land(f"landing/{number:03}.json", rows)
            # Spark reads the oldest file first.
            os.utime(file, (1_700_000_000 + number,) * 2)
            number += 1
        if crash is not None and (THOROUGH or update < len(updates)):
            with suppress(Crashed, AssertionError):
                pipeline.crash_at(crash[0], skip=crash[1]).run()
            pipeline.restart()
            # In `make test`, the update after the crash takes the rows that end everything, too.
            if not THOROUGH:
                continue
        result = pipeline.run()
        assert result.state is UpdateState.COMPLETED, result.outcome.error

    assert list(differing(pipeline.rows)) == []
    late = late_by_hand([rows for files in batches for rows in files])
    assert sorted(row["row"]["id"] for row in pipeline.rows("timely_quarantine")) == late
    assert told(pipeline, "FLOW.ROWS_TOO_LATE") == []


def told(pipeline, code):
    """What was warned of in any update."""
    rows = pipeline.project.events().events()
    return [event for row in rows if isinstance(event := from_row(row), Warned) and event.code == code]
