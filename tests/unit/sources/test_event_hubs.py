"""Options, positions and connection strings of Event Hubs, as options of Spark's Kafka source."""

from __future__ import annotations

import json

import pytest

from headrace.errors import PipelineError, Problems
from headrace.sources.event_hubs_connection import parse_connection
from headrace.sources.event_hubs_options import OPTIONS, event_hubs_options, without_effect

KEY = "c2VjcmV0LWtleQ=="
CONNECTION = (
    f"Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=reader;SharedAccessKey={KEY};EntityPath=orders"
)


def options(*, streaming=True, **more):
    given = {"eventhubs.connectionString": CONNECTION, **{name.replace("__", "."): v for name, v in more.items()}}
    return event_hubs_options(given, streaming=streaming, time_zone="UTC", partitions_of=lambda _given, _topic: 3)


def position(**chosen):
    return json.dumps({"offset": None, "seqNo": -1, "enqueuedTime": None, "isInclusive": True, **chosen})


def test_a_connection_string_is_a_broker_a_topic_and_a_login():
    found = options()

    assert found["kafka.bootstrap.servers"] == "ns.servicebus.windows.net:9093"
    assert (found["subscribe"], found["kafka.security.protocol"]) == ("orders", "SASL_SSL")
    assert found["kafka.sasl.jaas.config"].endswith(f'username="$ConnectionString" password="{CONNECTION}";')
    assert (found["startingOffsets"], found["includeHeaders"]) == ("earliest", "true")


def test_a_connection_does_not_show_its_key():
    assert KEY not in repr(parse_connection(CONNECTION))


@pytest.mark.parametrize(
    "text",
    [
        "bm90IGEgY29ubmVjdGlvbiBzdHJpbmc",
        CONNECTION.replace("EntityPath=orders", ""),
        CONNECTION.replace("sb://", "https://"),
        CONNECTION.replace(f"SharedAccessKey={KEY}", ""),
        CONNECTION + ";Password=hunter2",
    ],
)
def test_a_connection_string_that_is_none_is_refused_without_being_repeated(text):
    with pytest.raises(PipelineError) as refused:
        parse_connection(text)

    said = json.dumps(refused.value.to_json()) + refused.value.render()
    assert refused.value.code == "EVENT_HUBS.CONNECTION"
    assert not any(secret in said for secret in (KEY, "hunter2", "bm90"))


def test_the_options_of_the_connector_are_those_of_kafka():
    found = options(
        eventhubs__consumerGroup="team",
        maxEventsPerTrigger=10,
        eventhubs__receiverTimeout="PT3M20S",
        eventhubs__operationTimeout="PT00H01M30S",
    )

    assert (found["kafka.group.id"], found["maxOffsetsPerTrigger"]) == ("team", "10")
    assert (found["kafkaConsumer.pollTimeoutMs"], found["kafka.request.timeout.ms"]) == ("200000", "90000")


def test_an_option_of_the_client_wins():
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
def test_a_position_is_where_reading_begins(chosen, expected):
    found = options(eventhubs__startingPosition=position(**chosen))

    assert {name: found[name] for name in expected} == expected


def test_positions_of_partitions_go_before_that_of_all():
    keys = [json.dumps({"ehName": "orders", "partitionId": number}) for number in (0, 2)]
    several = json.dumps(
        {keys[0]: json.loads(position(offset="@latest")), keys[1]: json.loads(position(seqNo=100, isInclusive=False))}
    )

    found = options(eventhubs__startingPositions=several)

    assert json.loads(found["startingOffsets"]) == {"orders": {"0": -1, "1": -2, "2": 101}}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eventhubs__startingPosition", position(offset="1234")),
        ("eventhubs__startingPosition", position(seqNo=5)),
        ("eventhubs__startingPosition", position(offset="-1", seqNo=5)),
        ("eventhubs__startingPosition", "earliest"),
        ("eventhubs__startingPositions", json.dumps({"0": {}})),
        ("eventhubs__receiverTimeout", "60"),
    ],
)
def test_a_value_that_cannot_be_translated_is_refused(name, value):
    with pytest.raises(PipelineError) as refused:
        options(**{name: value})

    assert refused.value.code == "EVENT_HUBS.POSITION"
    assert refused.value.params["option"] == name.replace("__", ".")


def test_options_that_are_unknown_or_mean_nothing_here_are_told_apart():
    with pytest.raises(Problems) as refused:
        options(
            eventhubs__useAadAuth=True, eventhubs__consumergroups="x", eventhubs__endingPosition=position(offset="-1")
        )

    assert {problem.params["option"]: problem.code for problem in refused.value} == {
        "eventhubs.useAadAuth": "EVENT_HUBS.OPTION_REFUSED",
        "eventhubs.consumergroups": "EVENT_HUBS.OPTION_UNKNOWN",
        "eventhubs.endingPosition": "EVENT_HUBS.OPTION_REFUSED",
    }
    assert [name for name, _ in without_effect({"EVENTHUBS.prefetchCount": 5, "maxEventsPerTrigger": 5})] == [
        "EVENTHUBS.prefetchCount"
    ]


def test_the_page_has_every_option(request):
    page = (request.config.rootpath / "docs" / "reference" / "event-hubs.md").read_text(encoding="utf-8")

    assert [option.name for option in OPTIONS if f"`{option.name}`" not in page] == []
