"""Ready patterns: the same over a stream in any order and any batches as over a batch, and as counted by hand."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from tests.tiers import EVERYTHING, examples

from headrace.errors import PipelineError
from headrace.patterns import deduplicate, funnel, running_totals, sessionize, split_late, windowed

pytestmark = pytest.mark.spark

SCHEMA = "user STRING, at TIMESTAMP, page STRING, id INT"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
GAP_MINUTES = 30
EVENTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 120), st.sampled_from(["view", "cart", "pay", "help"])),
    min_size=5,
    max_size=40,
)
ONCE = settings(
    max_examples=examples(few=5, many=20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def event(number, user, minute, page="view"):
    return {"user": user, "at": (NOON + timedelta(minutes=minute)).isoformat(), "page": page, "id": number}


def batch_of(session, events):
    return (
        session.createDataFrame([(json.dumps(one),) for one in events], "text STRING")
        .select(F.from_json("text", SCHEMA).alias("e"))
        .select("e.*")
    )


class Streams:
    """Runs a query over a stream of batches to its end, in append mode."""

    def __init__(self, session, folder):
        self.session, self.folder, self.count = session, folder, 0

    def rows(self, query, *batches):
        """What the query has given once the watermark is past all events."""
        self.count += 1
        place = self.folder / str(self.count)
        (place / "landing").mkdir(parents=True)
        # Two more: the watermark of one batch closes the sessions of the next.
        late = [[event(-1, "end", 10_000)], [event(-2, "end", 20_000)]]
        for number, batch in enumerate([*batches, *late]):
            file = place / "landing" / f"{number:03}.json"
            file.write_text("".join(json.dumps(one) + "\n" for one in batch))
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
        stream = self.session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(place / "landing"))
        writer = query(stream).writeStream.format("parquet").option("path", str(place / "out"))
        writer.option("checkpointLocation", str(place / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()
        found = self.session.read.parquet(str(place / "out"))
        return [row for row in found.collect() if row["user"] != "end"]


@pytest.fixture
def session(headrace_session):
    return headrace_session


@pytest.fixture
def streams(session, tmp_path):
    return Streams(session, tmp_path)


def moment(minute):
    return (NOON + timedelta(minutes=minute)).timestamp()


def sessions_by_hand(events):
    """The events of each session, as lists in the order of their times."""
    found = []
    for user in sorted({user for user, _, _ in events}):
        own = sorted(one for one in events if one[0] == user)
        begins = [0, *(place + 1 for place, (a, b) in enumerate(pairwise(own)) if b[1] - a[1] > GAP_MINUTES), len(own)]
        found += [own[first:last] for first, last in pairwise(begins)]
    return found


def steps_by_hand(session, steps, within):
    """The most steps that a way through a session takes, by trying every beginning."""
    best = 0
    for _, begin, page in session:
        if page != steps[0]:
            continue
        reached, moment = 1, begin
        while reached < len(steps):
            later = [at for _, at, name in session if name == steps[reached] and moment < at <= begin + within]
            if not later:
                break
            moment, reached = min(later), reached + 1
        best = max(best, reached)
    return best


@ONCE
@given(events=EVENTS)
def test_sessionize_returns_the_sessions_of_a_reference_implementation(session, events):
    rows = batch_of(session, [event(number, *one) for number, one in enumerate(events)])

    found = sessionize(rows, "user", "at", f"{GAP_MINUTES} minutes", aggregates=[F.max("page").alias("last_page")])

    wanted = [
        (user, moment(minutes[0]), moment(minutes[-1]), len(pages), max(pages))
        for (user, *_), minutes, pages in (tuple(zip(*one, strict=True)) for one in sessions_by_hand(events))
    ]
    got = [(r[0], r[1].timestamp(), r[2].timestamp(), r[3], r[4]) for r in found.collect()]
    assert sorted(got) == sorted(wanted)


@ONCE
@given(events=EVENTS)
def test_funnel_returns_the_steps_of_a_reference_implementation(session, events):
    rows = batch_of(session, [event(number, *one) for number, one in enumerate(events)])
    steps = {name: f"page = '{name}'" for name in ("view", "cart", "pay")}

    found = funnel(rows, "user", "at", steps, gap=f"{GAP_MINUTES} minutes", within="15 minutes")

    names = [None, *steps]
    wanted = [(one[0][0], steps_by_hand(one, list(steps), 15)) for one in sessions_by_hand(events)]
    assert sorted((r["user"], r["steps_reached"]) for r in found.collect()) == sorted(wanted)
    assert all(r["last_step"] == names[r["steps_reached"]] for r in found.collect())


@pytest.mark.parametrize(
    "query",
    [
        lambda rows: sessionize(rows, "user", "at", "30 minutes", delay="10 hours"),
        lambda rows: windowed(
            rows, ["user"], "at", "1 hour", F.count("*").alias("n"), slide="20 minutes", delay="10 hours"
        ),
        lambda rows: funnel(
            rows, "user", "at", {"view": F.col("page") == "view", "pay": "page = 'pay'"}, gap="1 hour", delay="10 hours"
        ),
        lambda rows: deduplicate(rows, ["user", "id"], at="at", within="10 hours"),
    ],
    ids=["sessionize", "windowed", "funnel", "deduplicate"],
)
def test_a_stream_in_any_order_returns_the_same_rows_as_a_batch(session, streams, query):
    events = [
        event(number, "ab"[number % 2], minute, "view" if number % 3 else "pay")
        for number, minute in enumerate((5, 200, 35, 77, 240, 3, 120, 150, 66, 9))
    ]

    wanted = query(batch_of(session, [*events, events[3]])).collect()

    reverse = [*events, events[3]][::-1]
    size = 1 if EVERYTHING else 4
    in_reverse = [reverse[first : first + size] for first in range(0, len(reverse), size)]
    in_order = [[events[:4], events[4:], [events[3]]]] if EVERYTHING else []
    for batches in (*in_order, in_reverse):
        assert sorted(streams.rows(query, *batches)) == sorted(wanted)


def test_running_totals_aggregate_all_rows_of_each_key(session):
    rows = batch_of(session, [event(1, "a", 0), event(2, "a", 1), event(3, None, 2)])

    found = running_totals(rows, "user", F.sum("id").alias("ids"))

    assert sorted(map(tuple, found.collect()), key=str) == [("a", 2, 3), (None, 1, 3)]


def test_split_late_uses_earlier_batches_and_splits_a_repeated_batch_identically(session, tmp_path):
    batches = [
        batch_of(session, [event(1, "a", 100), {"user": "b", "id": 9}]),
        batch_of(session, [event(2, "a", 90), event(3, "a", 91), event(4, "a", 500), {"user": "b", "id": 5}]),
        batch_of(session, []),
        batch_of(session, [event(6, "a", 490), event(7, "a", 491)]),
    ]

    # Each comes twice, as after a crash.
    found = [parts(batch, number, tmp_path / "notes") for number, batch in enumerate(batches) for _ in range(2)]

    assert found[::2] == [([1], [9]), ([3, 4], [2, 5]), ([], []), ([7], [6])]
    assert found[1::2] == found[::2]
    assert len(list((tmp_path / "notes").iterdir())) == 2


def parts(batch, number, folder):
    split = split_late(batch, number, "at", "10 minutes", str(folder))
    return tuple(sorted(row["id"] for row in rows.collect()) for rows in split)


@pytest.fixture(params=["UTC", "Europe/Berlin"])
def zone(request, session, monkeypatch):
    """A time zone of the session, and another one of the machine."""
    session.conf.set("spark.sql.session.timeZone", request.param)
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield request.param
    session.conf.set("spark.sql.session.timeZone", "UTC")
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
def test_timestamps_without_a_time_zone_are_not_shifted_by_daylight_saving_time(session, tmp_path):
    # The night in which clocks go forward in Berlin, and one in which they go back.
    times = ["2026-03-29 02:30:00", "2026-10-25 01:30:00"]
    two = "SELECT 'a' AS user, id, TIMESTAMP_NTZ'{at}' + id * INTERVAL '2' HOUR AS at FROM range(2) AS t(id)"
    nights = [session.sql(two.format(at=at)) for at in times]

    steps = {"first": "id = 0", "second": "id = 1"}
    found = [funnel(rows, "user", "at", steps, gap="1 day", within="150 minutes").first() for rows in nights]
    split = [parts(rows, number, tmp_path) for number, rows in enumerate((nights[0], nights[0].where("id = 0")))]

    assert [row["steps_reached"] for row in found] == [2, 2]
    assert split == [([0, 1], []), ([], [0])]


def test_an_event_that_is_late_by_exactly_the_delay_is_kept(session, streams):
    events = [event(1, "a", 0), event(2, "a", 30), event(3, "a", 20)]

    def query(rows):
        return sessionize(rows, "user", "at", "10 minutes", delay="10 minutes")

    wanted = query(batch_of(session, events)).collect()
    assert sorted(streams.rows(query, *([one] for one in events))) == sorted(wanted)


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("PATTERN.NO_KEY", lambda rows, _: running_totals(rows, [])),
        ("PATTERN.UNKNOWN_COLUMN", lambda rows, _: sessionize(rows, "client", "at", "1 hour")),
        ("PATTERN.NO_TIME", lambda rows, _: sessionize(rows, "user", "page", "1 hour")),
        ("PATTERN.NO_DURATION", lambda rows, _: sessionize(rows, "user", "at", "a while")),
        ("PATTERN.NO_DURATION", lambda rows, _: sessionize(rows, "user", "at", "0 seconds")),
        ("PATTERN.NO_AGGREGATE", lambda rows, _: windowed(rows, "user", "at", "1 hour")),
        ("PATTERN.NO_FOLDER", lambda rows, _: split_late(rows, 0, "at", "1 hour", "s3://bucket/notes")),
        (
            "PATTERN.LONG_SLIDE",
            lambda rows, _: windowed(rows, "user", "at", "1 hour", F.count("*").alias("n"), slide="2 hours"),
        ),
        (
            "PATTERN.TAKEN",
            lambda rows, _: sessionize(rows, "user", "at", "1 hour", aggregates=[F.max("id").alias("User")]),
        ),
        ("PATTERN.NO_DELAY", lambda _, stream: sessionize(stream, "user", "at", "1 hour")),
        (
            "PATTERN.TWO_DELAYS",
            lambda _, stream: sessionize(stream.withWatermark("at", "1 hour"), "user", "at", "1 hour", delay="2 hours"),
        ),
        ("PATTERN.NO_AT", lambda rows, _: deduplicate(rows, "id", within="1 hour")),
        ("PATTERN.NO_STEPS", lambda rows, _: funnel(rows, "user", "at", {"view": "true"}, gap="1 hour")),
        ("PATTERN.TAKEN", lambda rows, _: running_totals(rows.withColumnRenamed("user", "events"), "events")),
    ],
)
def test_invalid_pattern_arguments_are_rejected(session, tmp_path, code, call):
    stream = session.readStream.schema(SCHEMA).json(str(tmp_path))

    with pytest.raises(PipelineError) as caught:
        call(batch_of(session, []), stream)

    assert caught.value.code == code
