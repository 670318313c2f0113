"""Synthetic events: every row follows from the options and its number, whatever the batches are."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.autoloader.discovery import Clock
from headrace.errors import Problems
from headrace.model.ddl import parse_struct
from headrace.sources.stream_source import PreparedSource, ReadContext
from headrace.sources.synthetic import MAX_DUPLICATE_DISTANCE_ROWS, SyntheticEvents, prepare_synthetic

EVERY_TYPE = (
    "event_id BIGINT, key INT, event_time TIMESTAMP, value DOUBLE, a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, "
    "f FLOAT, g DOUBLE, h DECIMAL(10,2), i STRING, j BINARY, k DATE, l TIMESTAMP, m TIMESTAMP_NTZ, n ARRAY<INT>, "
    "o MAP<STRING, DATE>, p STRUCT<x: INT, y: ARRAY<STRUCT<z: STRING>>>, q DECIMAL(38,4), r MAP<BOOLEAN, INT>"
)
MESSY = {"lateShare": 0.1, "duplicateShare": 0.2, "nullShare": 0.3, "skew": 1.1, "keys": 50}
START = datetime(2026, 1, 1, tzinfo=UTC)


def events_of(options, *, schema=None, streams=True):
    prepared = prepare_synthetic(options, schema and parse_struct(schema), ReadContext(is_streaming=streams))
    return SyntheticEvents.of(PreparedSource.from_json(prepared.to_json()))


def rows_of(events, *ranges):
    return pa.Table.from_batches([batch for task in ranges for batch in events.rows(task)])


def stream_of(options, now_ms):
    clock = Clock(lambda: now_ms[0] * 1_000_000, lambda _: None)
    return events_of(options).stream(clock)


@settings(max_examples=30)
@given(
    first=st.integers(0, 2**40),
    cuts=st.lists(st.integers(0, 400), max_size=6),
    seed=st.integers(-(10**6), 10**6),
)
def test_rows_do_not_depend_on_how_they_are_split_into_tasks(first, cuts, seed):
    events = events_of({**MESSY, "seed": seed}, schema=EVERY_TYPE)
    edges = [first, *(first + cut for cut in sorted(cuts)), first + 400]

    divided = rows_of(events, *pairwise(edges))

    assert divided.equals(rows_of(events, (first, first + 400)))
    divided.validate(full=True)


def test_another_seed_changes_the_rows_and_a_new_column_leaves_the_others_unchanged():
    one, other = (rows_of(events_of({"seed": seed}), (0, 1000)) for seed in (1, 2))
    wider = rows_of(events_of({"seed": 1}, schema="extra INT, event_type STRING, key STRING, value DOUBLE"), (0, 1000))

    assert one["event_id"] == other["event_id"]
    assert one["value"] != other["value"]
    assert [wider[name] for name in ("key", "value", "event_type")] == [
        one[name] for name in ("key", "value", "event_type")
    ]


def test_configured_shares_are_met_and_duplicates_are_exact_copies_of_recent_rows():
    count = 100_000
    table = rows_of(events_of({**MESSY, "maxLateness": "5 minutes", "eventInterval": "1 second"}), (0, count))

    ids = table["event_id"].to_pylist()
    rows = list(zip(ids, table["key"].to_pylist(), table["event_time"].to_pylist(), strict=True))
    repeated = [n for n, event_id in enumerate(ids) if event_id != n]
    assert 0.19 < len(repeated) / count < 0.21
    assert all(rows[n] == rows[ids[n]] for n in repeated)
    assert max(n - ids[n] for n in repeated) < MAX_DUPLICATE_DISTANCE_ROWS * 8
    late = [START + timedelta(seconds=event_id) - moment for event_id, _, moment in rows]
    assert 0.09 < sum(1 for behind in late if behind) / count < 0.11
    assert timedelta(minutes=4, seconds=55) < max(late) <= timedelta(minutes=5)
    assert 0.29 < table["value"].null_count / count < 0.31
    assert table["key"].null_count == table["event_time"].null_count == 0


def test_keys_follow_zipfs_law_with_skew_and_are_uniform_without_it():
    skewed = Counter(rows_of(events_of({"keys": 100, "skew": 1}), (0, 100_000))["key"].to_pylist())
    even = Counter(rows_of(events_of({"keys": 100}), (0, 100_000))["key"].to_pylist())

    assert 9.0 < skewed["key-0"] / skewed["key-9"] < 11.0
    assert len(even) == 100
    assert max(even.values()) / min(even.values()) < 1.5


def test_rows_arrive_at_the_configured_rate_in_batches_of_limited_size():
    now_ms = [1_000_000]
    stream = stream_of({"rowsPerSecond": 10, "rowsPerBatch": 15, "numRows": 40}, now_ms)
    start = stream.initial()

    # Those of one second are there from the start.
    now_ms[0] += 1_000
    first = stream.latest(start, everything=False)
    second = stream.latest(first, everything=False)
    idle = stream.latest(second, everything=False)
    now_ms[0] += 60_000
    rest = stream.latest(second, everything=True)

    assert [offset["row"] for offset in (start, first, second, idle, rest)] == [0, 15, 20, 20, 40]
    assert stream.newest()["row"] == 40


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [20]),
        ({"rowsPerSecond": 10}, [20]),
        ({"rowsPerSecond": 10, "rowsPerBatch": 15}, [15, 20]),
        ({"rowsPerBatch": 7}, [7]),
        ({"numRows": 150_000}, [100_000, 150_000]),
        ({"numRows": 5_000, "rowsPerSecond": 1_000}, [5_000]),
        ({"numRows": 5, "rowsPerSecond": 1_000, "rowsPerBatch": 3}, [3, 5]),
    ],
)
def test_available_now_reads_rows_available_at_start_or_all_rows_of_a_bounded_stream(options, expected):
    now_ms = [0]
    stream = stream_of(options, now_ms)
    offsets = [stream.initial()]
    now_ms[0] = 1_000

    stream.prepare_for_available_now()
    while (following := stream.latest(offsets[-1], everything=False)) != offsets[-1]:
        offsets.append(following)
        now_ms[0] += 1_000

    assert [offset["row"] for offset in offsets[1:]] == expected


def test_tasks_cover_each_row_of_a_batch_once():
    events = events_of({"numRows": 1_000_000, "numPartitions": 3}, streams=False)

    assert events.tasks(0, 1_000_000) == [(0, 333_333), (333_333, 666_666), (666_666, 1_000_000)]
    assert events.tasks(5, 5) == []


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"sead": "1"}, "SOURCE.OPTION_UNKNOWN", "seed"),
        ({"lateShare": "1.5"}, "SOURCE.OPTION_VALUE", "from 0 to 1"),
        ({"duplicateShare": "1"}, "SOURCE.OPTION_VALUE", "below 1"),
        ({"keys": "10000001"}, "SOURCE.OPTION_VALUE", "at most"),
        ({"maxLateness": "soon"}, "SOURCE.OPTION_VALUE", "10 seconds"),
        ({"schema": "id INTEGER, v VARIANT"}, "SOURCE.OPTION_VALUE", "VARIANT"),
        ({"numRows": "0"}, "SOURCE.OPTION_VALUE", "above 0"),
    ],
)
def test_an_invalid_option_is_reported_with_the_reason(options, code, said):
    with pytest.raises(Problems) as raised:
        events_of(options)

    (problem,) = raised.value.errors
    assert problem.code == code
    assert said in problem.detail


def test_a_batch_read_requires_a_number_of_rows():
    with pytest.raises(Problems) as raised:
        events_of({}, streams=False)

    assert raised.value.errors[0].params["option"] == "numRows"
