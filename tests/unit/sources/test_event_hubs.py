"""Options, positions and connection strings of Event Hubs, as options of Spark's Kafka source."""

from __future__ import annotations

import json

import pytest

from headrace.errors import PipelineError, Problems
from headrace.sources.event_hubs_connection import parse_connection
from headrace.sources.event_hubs_options import event_hubs_options
from headrace.sources.kafka_options import describe_topics, without_effect

KEY = "c2VjcmV0LWtleQ=="
CONNECTION = (
    f"Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=reader;SharedAccessKey={KEY};EntityPath=orders"
)


def read(*, streaming=True, **more):
    given = {"eventhubs.connectionString": CONNECTION, **{name.replace("__", "."): v for name, v in more.items()}}
    return event_hubs_options(given, streaming=streaming, time_zone="UTC", count_partitions=lambda _given, _topic: 3)


def options(**more):
    return read(**more).options


def problems(**more):
    with pytest.raises(Problems) as refused:
        options(**more)
    return {problem.params["option"]: problem.code for problem in refused.value}


def position(**chosen):
    return json.dumps({"offset": None, "seqNo": -1, "enqueuedTime": None, "isInclusive": True, **chosen})


def test_a_connection_string_gives_the_broker_topic_and_login():
    found = options()

    assert found["kafka.bootstrap.servers"] == "ns.servicebus.windows.net:9093"
    assert (found["subscribe"], found["kafka.security.protocol"]) == ("orders", "SASL_SSL")
    assert found["kafka.sasl.jaas.config"].endswith(f'username="$ConnectionString" password="{CONNECTION}";')
    assert (found["startingOffsets"], found["includeHeaders"]) == ("earliest", "true")


def test_the_repr_of_a_connection_hides_its_key():
    assert KEY not in repr(parse_connection(CONNECTION))


@pytest.mark.parametrize(
    "text",
    [
        "bm90IGEgY29ubmVjdGlvbiBzdHJpbmc",
        CONNECTION.replace("EntityPath=orders", ""),
        CONNECTION.replace("sb://", "https://"),
        CONNECTION.replace(f"SharedAccessKey={KEY}", ""),
        CONNECTION + ";Password=hunter2",
        CONNECTION.replace("sb://ns", "sb://[hunter2"),
    ],
)
def test_an_invalid_connection_string_is_refused_without_being_shown(text):
    with pytest.raises(PipelineError) as refused:
        parse_connection(text)

    said = json.dumps(refused.value.to_json()) + refused.value.render()
    assert refused.value.code == "EVENT_HUBS.CONNECTION"
    assert not any(secret in said for secret in (KEY, "hunter2", "bm90"))


def test_event_hubs_options_map_to_kafka_options():
    found = options(
        eventhubs__consumerGroup="team",
        maxEventsPerTrigger=10,
        eventhubs__receiverTimeout="PT3M20S",
        eventhubs__operationTimeout="PT00H01M30S",
    )

    assert (found["kafka.group.id"], found["maxOffsetsPerTrigger"]) == ("team", "10")
    assert (found["kafkaConsumer.pollTimeoutMs"], found["kafka.request.timeout.ms"]) == ("200000", "90000")


def test_a_kafka_client_option_overrides_the_connection_string():
    assert options(kafka__bootstrap__servers="127.0.0.1:1")["kafka.bootstrap.servers"] == "127.0.0.1:1"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"offset": "-1"}, {"startingOffsets": "earliest"}),
        ({"offset": "@latest"}, {"startingOffsets": "latest"}),
        (
            {"enqueuedTime": "1970-01-01T00:00:01.000000Z"},
            {"startingTimestamp": "1000", "startingOffsetsByTimestampStrategy": "latest"},
        ),
        ({"enqueuedTime": "1970-01-01T00:00:01Z", "isInclusive": False}, {"startingTimestamp": "1001"}),
    ],
)
def test_a_starting_position_maps_to_kafka_starting_options(chosen, expected):
    found = options(eventhubs__startingPosition=position(**chosen))

    assert {name: found[name] for name in expected} == expected


def test_positions_of_single_partitions_override_the_default_position():
    keys = [json.dumps({"ehName": "orders", "partitionId": number}) for number in (0, 2)]
    several = json.dumps(
        {keys[0]: json.loads(position(offset="@latest")), keys[1]: json.loads(position(seqNo=100, isInclusive=False))}
    )

    found = options(eventhubs__startingPositions=several)

    assert json.loads(found["startingOffsets"]) == {"orders": {"0": -1, "1": -2, "2": 101}}


def of_partition(number, **chosen):
    return {json.dumps({"ehName": "orders", "partitionId": number}): json.loads(position(**chosen))}


def test_timestamps_of_some_partitions_combine_with_earliest_or_latest_of_others():
    several = {**of_partition(0, enqueuedTime="1970-01-01T00:00:01Z"), **of_partition(1, offset="@latest")}

    found = options(eventhubs__startingPositions=json.dumps(several))

    assert json.loads(found["startingOffsetsByTimestamp"]) == {"orders": {"0": 1000, "1": 253402300799000, "2": 0}}
    assert found["startingOffsetsByTimestampStrategy"] == "latest"


def test_a_sequence_number_applies_to_every_partition():
    found = options(eventhubs__startingPosition=position(seqNo=5))

    assert json.loads(found["startingOffsets"]) == {"orders": {"0": 5, "1": 5, "2": 5}}


@pytest.mark.parametrize("inclusive", [True, False])
def test_an_ending_sequence_number_is_exclusive(inclusive):
    ends = of_partition(0, seqNo=4, isInclusive=inclusive)

    found = options(streaming=False, eventhubs__endingPositions=json.dumps(ends))

    assert json.loads(found["endingOffsets"])["orders"]["0"] == 4


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eventhubs__startingPosition", position(offset="1234")),
        ("eventhubs__startingPosition", position(offset="-1", seqNo=5)),
        ("eventhubs__startingPosition", position(offset="-1", isInclusive="false")),
        ("eventhubs__startingPosition", "earliest"),
        ("eventhubs__startingPositions", json.dumps({"0": {}})),
        ("eventhubs__startingPositions", json.dumps(of_partition(3, seqNo=5))),
        (
            "eventhubs__startingPositions",
            json.dumps({**of_partition(0, seqNo=5), **of_partition(1, enqueuedTime="1970-01-01")}),
        ),
        ("eventhubs__receiverTimeout", "60"),
        ("eventhubs__operationTimeout", "PT"),
        ("maxEventsPerTrigger", "many"),
        ("minPartitions", "0"),
        ("failOnDataLoss", "no"),
    ],
)
def test_an_untranslatable_value_is_refused_with_the_original_option_name(name, value):
    assert problems(**{name: value}) == {name.replace("__", "."): "SOURCE.OPTION_VALUE"}


def test_unknown_and_unsupported_options_give_different_errors():
    assert problems(
        eventhubs__useAadAuth=True,
        eventhubs__consumergroups="x",
        eventhubs__endingPosition=position(offset="-1"),
        kafka__auto__offset__reset="latest",
    ) == {
        "eventhubs.useAadAuth": "SOURCE.OPTION_REFUSED",
        "eventhubs.consumergroups": "SOURCE.OPTION_UNKNOWN",
        "eventhubs.endingPosition": "SOURCE.OPTION_REFUSED",
        "kafka.auto.offset.reset": "SOURCE.OPTION_REFUSED",
    }


def test_a_limit_that_is_set_twice_is_refused():
    assert problems(maxEventsPerTrigger=1, eventhubs__maxEventsPerTrigger=2) == {
        "eventhubs.maxEventsPerTrigger": "SOURCE.OPTION_VALUE"
    }


def test_a_missing_connection_string_is_refused():
    assert problems(eventhubs__connectionString=None) == {"eventhubs.connectionString": "SOURCE.OPTION_MISSING"}


def test_a_source_reports_its_name_and_its_options_without_effect():
    found = read(EVENTHUBS__prefetchCount=5, maxEventsPerTrigger=5).for_reader("eventhubs")

    assert [name for name, _ in without_effect(found)] == ["eventhubs.prefetchCount"]
    assert describe_topics(found) == "eventhubs orders"


def test_the_repr_of_a_reader_hides_its_key():
    assert KEY not in repr(read())


def test_the_port_of_a_connection_string_defaults_to_that_of_the_service():
    ported = CONNECTION.replace("servicebus.windows.net", "servicebus.windows.net:41000")

    assert parse_connection(ported).servers.endswith(".servicebus.windows.net:41000")
    assert parse_connection(CONNECTION).servers.endswith(".servicebus.windows.net:9093")
