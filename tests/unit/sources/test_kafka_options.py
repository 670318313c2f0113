"""Options and positions of topics, without a broker."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import Problems
from headrace.options.values import time_ms
from headrace.sources.kafka_offsets import (
    Bounds,
    OffsetRange,
    ReportedLosses,
    lags,
    losses,
    losses_in_batch,
    offset_ranges,
    partition_losses,
    positions_of,
)
from headrace.sources.kafka_options import describe_topics, kafka_options, named_topics, without_effect

SOUND = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}


def read(*, streaming=True, time_zone="UTC", **more):
    return kafka_options({**SOUND, **more}, streaming=streaming, time_zone=time_zone)


def options(**more):
    return read(**more).options


def problems(**more):
    with pytest.raises(Problems) as refused:
        options(**more)
    return {(problem.code, problem.params.get("option", "")) for problem in refused.value}


def test_options_are_accepted_in_any_case_and_client_options_are_passed_through():
    given_ = {"MAXoffsetsPERtrigger": 5, "Kafka.ssl.truststore.location": "/a", "includeHeaders": True}

    assert options(**given_) == {
        **SOUND,
        "maxOffsetsPerTrigger": "5",
        "kafka.ssl.truststore.location": "/a",
        "includeHeaders": "true",
    }


def test_the_last_spelling_of_an_option_wins():
    assert options(SUBSCRIBE="payments")["subscribe"] == "payments"


@pytest.mark.parametrize(
    ("given_", "code", "option"),
    [
        ({"maxOffsetPerTrigger": 1}, "SOURCE.OPTION_UNKNOWN", "maxOffsetPerTrigger"),
        ({"path": "/orders"}, "SOURCE.OPTION_UNKNOWN", "path"),
        ({"KAFKA.auto.offset.reset": "earliest"}, "SOURCE.OPTION_REFUSED", "kafka.auto.offset.reset"),
        ({"endingOffsets": "latest"}, "SOURCE.OPTION_REFUSED", "endingOffsets"),
        ({"endingTimestamp": "5"}, "SOURCE.OPTION_REFUSED", "endingTimestamp"),
        ({"maxOffsetsPerTrigger": "many"}, "SOURCE.OPTION_VALUE", "maxOffsetsPerTrigger"),
        ({"maxOffsetsPerTrigger": 2, "minOffsetsPerTrigger": 3}, "SOURCE.OPTION_VALUE", "minOffsetsPerTrigger"),
        ({"maxTriggerDelay": "soon"}, "SOURCE.OPTION_VALUE", "maxTriggerDelay"),
        ({"failOnDataLoss": "flase"}, "SOURCE.OPTION_VALUE", "failOnDataLoss"),
        ({"startingOffsets": "beginning"}, "SOURCE.OPTION_VALUE", "startingOffsets"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "SOURCE.OPTION_VALUE", "startingOffsets"),
        ({"startingTimestamp": "yesterday"}, "SOURCE.OPTION_VALUE", "startingTimestamp"),
        ({"startingOffsetsByTimestamp": "[1]"}, "SOURCE.OPTION_VALUE", "startingOffsetsByTimestamp"),
        ({"subscribe": " , "}, "SOURCE.OPTION_VALUE", "subscribe"),
        ({"subscribe": None, "assign": '{"orders": []}'}, "SOURCE.OPTION_VALUE", "assign"),
        ({"assign": '{"orders": [0]}'}, "KAFKA.TOPICS", ""),
        ({"kafka.bootstrap.servers": None}, "SOURCE.OPTION_MISSING", "kafka.bootstrap.servers"),
        ({"groupIdPrefix": "a", "kafka.group.id": "b"}, "SOURCE.OPTION_VALUE", "groupIdPrefix"),
    ],
)
def test_options_that_spark_would_ignore_or_fail_on_later_are_refused_by_name(given_, code, option):
    assert problems(**given_) == {(code, option)}


def test_all_option_errors_are_reported_together():
    assert problems(subscribe=None, limit=1) == {("SOURCE.OPTION_UNKNOWN", "limit"), ("KAFKA.TOPICS", "")}


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
def test_a_batch_cannot_start_at_latest_or_end_at_earliest(name):
    word, number = ("latest", -1) if name == "startingOffsets" else ("earliest", -2)

    assert problems(streaming=False, **{name: word}) == {("SOURCE.OPTION_VALUE", name)}
    assert problems(streaming=False, **{name: f'{{"orders": {{"0": {number}}}}}'}) == {("SOURCE.OPTION_VALUE", name)}


def test_rate_limits_of_a_batch_read_are_reported_as_without_effect():
    found = read(streaming=False, maxOffsetsPerTrigger=5)

    assert found.options == SOUND
    assert [name for name, _ in without_effect(found.for_reader("kafka"))] == ["maxOffsetsPerTrigger"]


@pytest.mark.parametrize(("given_", "expected"), [("15m", "15m"), ("10 minutes", "600000ms"), ("2 s", "2000ms")])
def test_a_trigger_delay_accepts_spark_and_interval_syntax(given_, expected):
    assert options(maxTriggerDelay=given_)["maxTriggerDelay"] == expected


def test_a_batch_read_accepts_an_ending_timestamp():
    assert options(streaming=False, endingTimestamp="1970-01-01T00:00:01Z")["endingTimestamp"] == "1000"


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026-01-01T00:00:00Z", "UTC", 1_767_225_600_000),
        ("2026-01-01 01:00:00+01:00", "UTC", 1_767_225_600_000),
        ("2026-01-01T01:00:00", "Europe/Paris", 1_767_225_600_000),
        ("1767225600000", "Europe/Paris", 1_767_225_600_000),
        ("2026-01-01 02:00:00", "+02:00", 1_767_225_600_000),
        ("2025-12-31T23:59:59.999001Z", "UTC", 1_767_225_600_000),
        ("2026-01-01", "UTC", 1_767_225_600_000),
    ],
)
def test_timestamps_without_a_zone_use_the_session_time_zone(text, zone, expected):
    assert time_ms(text, zone) == expected


def test_timestamps_of_partitions_are_parsed_inside_the_json():
    text = json.dumps({"orders": {"0": "1970-01-01T00:00:02Z", "1": 5}})

    found = options(startingOffsetsByTimestamp=text)["startingOffsetsByTimestamp"]

    assert json.loads(found) == {"orders": {"0": 2000, "1": 5}}


def test_a_source_description_contains_only_topic_names():
    assert describe_topics({"kafka.sasl.jaas.config": "secret", "subscribe": "b, a"}) == "kafka a, b"
    assert describe_topics({"assign": '{"a": [0], "b": [1]}'}) == "kafka a, b"
    assert describe_topics({"subscribePattern": "orders-.*"}) == "kafka topics like orders-.*"
    assert named_topics({"ASSIGN": '{"a": [0]}'}) == {"a"}
    assert "hunter2" not in repr(read(**{"kafka.sasl.jaas.config": "hunter2"}))


def test_offsets_of_other_sources_give_no_kafka_positions():
    assert positions_of('{"orders": {"0": 3, "1": 4}}') == {("orders", 0): 3, ("orders", 1): 4}
    assert positions_of('{"reservoirVersion": 3, "index": -1}') == {}
    assert positions_of(None) == {}
    assert positions_of("7") == {}


positions = st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), st.integers(0, 50))


@given(positions, positions)
def test_lag_is_never_negative_and_is_zero_when_everything_is_read(read, newest):
    found = lags(read, newest)

    assert all(one.behind == max(one.newest - one.offset, 0) for one in found)
    assert not any(one.behind for one in lags(newest, newest))


@given(positions, positions, st.integers(0, 50))
def test_losses_extend_from_the_read_position_to_the_first_available_offset(read, firsts, more):
    there = {place: Bounds(first, max(first, read.get(place, 0)) + more) for place, first in firsts.items()}

    found = {(one.topic, one.partition): one.offsets for one in losses(read, there)}

    assert found == {
        place: there[place].first - position if place in there else None
        for place, position in read.items()
        if place not in there or there[place].first > position
    }


def test_a_topic_that_ends_before_the_read_position_is_reported_as_recreated():
    (lost,) = losses({("a", 0): 9}, {("a", 0): Bounds(2, 5)})

    assert (lost.offsets, "recreated" in lost.reason) == (3, True)


def test_a_complete_batch_reports_no_loss_even_if_its_offsets_are_deleted_later():
    assert losses_in_batch({("a", 0): OffsetRange(2, 5)}, 3, {("a", 0): 5}) == ()


def test_missing_records_are_lost_if_the_broker_no_longer_has_their_offsets():
    spans = {("a", 0): OffsetRange(2, 6), ("a", 1): OffsetRange(0, 3)}

    (lost,) = losses_in_batch(spans, 4, {("a", 0): 5, ("a", 1): 0})

    assert (lost.partition, lost.offsets, "first available offset is 5" in lost.reason) == (0, 3, True)


def test_offsets_without_records_are_not_lost_while_the_broker_has_them():
    assert losses_in_batch({("a", 0): OffsetRange(0, 10)}, 8, {("a", 0): 0}) == ()


def test_ambiguous_losses_of_several_partitions_are_reported_as_upper_bounds():
    lost = losses_in_batch({("a", 0): OffsetRange(0, 4), ("a", 1): OffsetRange(0, 4)}, 5, {("a", 0): 4, ("a", 1): 4})

    assert [(one.offsets, "at most: the batch lacks 3" in one.reason) for one in lost] == [(3, True), (3, True)]


spans = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.integers(0, 3)),
    st.builds(lambda start, length: OffsetRange(start, start + length), st.integers(0, 50), st.integers(0, 50)),
)


@given(spans, st.data())
def test_a_loss_never_exceeds_the_missing_records_or_the_deleted_offsets(taken, data):
    offsets = sum(span.end - span.start for span in taken.values())
    rows = data.draw(st.integers(0, offsets))
    firsts = {place: data.draw(st.integers(0, 120)) for place in taken}

    for lost in losses_in_batch(taken, rows, firsts):
        span, first = taken[lost.topic, lost.partition], firsts[lost.topic, lost.partition]
        assert 0 < lost.offsets <= min(offsets - rows, min(first, span.end) - span.start)


def test_losses_reported_before_the_stream_started_are_not_counted_again():
    start, end = {"a": {"0": 2, "1": 7}}, {"a": {"0": 6, "1": 9}}

    assert offset_ranges(start, end, {("a", 0): 5, ("a", 1): 3}) == {
        ("a", 0): OffsetRange(5, 6),
        ("a", 1): OffsetRange(7, 9),
    }
    assert offset_ranges(None, end, {}) == {}


def test_partitions_missing_or_recreated_at_the_end_of_a_batch_are_lost():
    start, end = {"a": {"0": 2, "1": 7, "2": 9}}, {"a": {"0": 6, "1": 5}}

    found = {(lost.partition, lost.offsets): lost.reason for lost in partition_losses(start, end, {})}

    assert set(found) == {(1, None), (2, None)}
    assert "recreated" in found[1, None]
    assert partition_losses(start, None, {}) == ()


def test_lost_partitions_reported_at_the_start_are_not_reported_by_the_first_batch():
    read, there = {("a", 0): 9, ("a", 1): 3, ("b", 0): 4}, {("a", 0): Bounds(0, 5), ("a", 1): Bounds(2, 7)}
    told = ReportedLosses.of(read, {**read, ("a", 0): 12}, there)
    start, end = {"a": {"0": 12, "1": 3}, "b": {"0": 4}}, {"a": {"0": 5, "1": 1}}

    assert [(lost.topic, lost.partition) for lost in partition_losses(start, end, told.lost_partitions)] == [("a", 1)]
    assert [lost.partition for lost in partition_losses({"a": {"0": 5}}, {"a": {"0": 2}}, told.lost_partitions)] == [0]
