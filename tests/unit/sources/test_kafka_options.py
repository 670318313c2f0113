"""Options and positions of topics, without a broker."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import Problems
from headrace.sources.kafka_offsets import Bounds, lags, losses, positions_of
from headrace.sources.kafka_options import OPTIONS, kafka_options, milliseconds, topics_text

SOUND = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}


def options(*, streaming=True, **more):
    return kafka_options({**SOUND, **more}, streaming=streaming, time_zone="UTC")


def codes(**more):
    with pytest.raises(Problems) as refused:
        options(**more)
    return [problem.code for problem in refused.value]


def test_every_option_is_taken_in_any_case_and_those_of_the_client_are_passed_on():
    given_ = {"MAXoffsetsPERtrigger": 5, "kafka.ssl.truststore.location": "/a", "includeHeaders": True}

    assert options(**given_) == {
        **SOUND,
        "MAXoffsetsPERtrigger": "5",
        "kafka.ssl.truststore.location": "/a",
        "includeHeaders": "true",
    }


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"maxOffsetPerTrigger": 1}, ["KAFKA.OPTION_UNKNOWN"]),
        ({"kafka.auto.offset.reset": "earliest"}, ["KAFKA.OPTION_REFUSED"]),
        ({"endingOffsets": "latest"}, ["KAFKA.OPTION_REFUSED"]),
        ({"maxOffsetsPerTrigger": "many"}, ["KAFKA.OPTION_VALUE"]),
        ({"startingTimestamp": "yesterday"}, ["KAFKA.OPTION_VALUE"]),
        ({"startingOffsetsByTimestamp": "[1]"}, ["KAFKA.OPTION_VALUE"]),
        ({"assign": "{}"}, ["KAFKA.TOPICS"]),
        ({"kafka.bootstrap.servers": None}, ["KAFKA.NO_SERVERS"]),
        ({"subscribe": None, "limit": 1}, ["KAFKA.OPTION_UNKNOWN", "KAFKA.TOPICS"]),
    ],
)
def test_what_spark_would_pass_over_or_fail_with_later_is_refused_by_name(given_, expected):
    assert sorted(codes(**given_)) == expected


def test_a_batch_may_end_where_a_stream_may_not():
    assert options(streaming=False, endingTimestamp="1970-01-01T00:00:01Z")["endingTimestamp"] == "1000"


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026-01-01T00:00:00Z", "UTC", 1_767_225_600_000),
        ("2026-01-01 01:00:00+01:00", "UTC", 1_767_225_600_000),
        ("2026-01-01T01:00:00", "Europe/Paris", 1_767_225_600_000),
        ("1767225600000", "Europe/Paris", 1_767_225_600_000),
        ("2026-01-01", "UTC", 1_767_225_600_000),
    ],
)
def test_times_are_read_in_the_zone_of_the_session_unless_they_say_one(text, zone, expected):
    assert milliseconds(text, zone) == expected


def test_times_of_partitions_are_read_inside_of_the_json():
    text = json.dumps({"orders": {"0": "1970-01-01T00:00:02Z", "1": 5}})

    found = options(startingOffsetsByTimestamp=text)["startingOffsetsByTimestamp"]

    assert json.loads(found) == {"orders": {"0": 2000, "1": 5}}


def test_the_names_of_topics_are_all_that_is_told_of_a_source():
    assert topics_text({"kafka.sasl.jaas.config": "secret", "subscribe": "b, a"}) == "b, a"
    assert topics_text({"assign": '{"a": [0], "b": [1]}'}) == "a, b"
    assert topics_text({"subscribePattern": "orders-.*"}) == "topics like orders-.*"


def test_the_page_has_every_option(request):
    page = (request.config.rootpath / "docs" / "reference" / "kafka.md").read_text(encoding="utf-8")

    assert [option.name for option in OPTIONS if f"`{option.name}`" not in page] == []


def test_offsets_of_other_sources_are_no_positions():
    assert positions_of('{"orders": {"0": 3, "1": 4}}') == {("orders", 0): 3, ("orders", 1): 4}
    assert positions_of('{"reservoirVersion": 3, "index": -1}') == {}
    assert positions_of(None) == {}
    assert positions_of("7") == {}


positions = st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), st.integers(0, 50))


@given(positions, positions)
def test_nothing_is_behind_where_everything_is_read_and_no_lag_is_negative(read, newest):
    found = lags(read, newest)

    assert all(one.behind == max(one.newest - one.offset, 0) for one in found)
    assert not any(one.behind for one in lags(newest, newest))


@given(positions, positions, st.integers(0, 50))
def test_what_is_read_and_what_is_lost_and_what_is_left_are_all_that_there_was(read, firsts, more):
    there = {place: Bounds(first, max(first, read.get(place, 0)) + more) for place, first in firsts.items()}

    found = {(one.topic, one.partition): one.offsets for one in losses(read, there)}

    assert found == {
        place: there[place].first - position if place in there else None
        for place, position in read.items()
        if place not in there or there[place].first > position
    }


def test_a_topic_that_ends_before_what_was_read_is_another_one():
    (lost,) = losses({("a", 0): 9}, {("a", 0): Bounds(2, 5)})

    assert (lost.offsets, "made anew" in lost.reason) == (3, True)
