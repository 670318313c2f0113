"""Event hubs, over the service's Kafka surface: a real broker with SASL PLAIN and TLS stands for the namespace."""

from __future__ import annotations

import json

import pytest

from headrace.errors import Problems
from headrace.events.types import Warned
from headrace.model.outcome import UpdateState

pytestmark = pytest.mark.spark

HUB = """
    @dp.table
    def read():
        return spark.readStream.format("eventhubs").options(**{options!r}).load()

    @dp.materialized_view
    def whole():
        return spark.read.format("eventhubs").options(**{whole!r}).load()
    """


def options(kafka, hub, **more):
    from tests.servers.kafka import PASSWORD  # noqa: PLC0415 - its client, for tests that need it

    return {
        "eventhubs.connectionString": f"{PASSWORD};EntityPath={hub}",
        "kafka.bootstrap.servers": kafka.secure_servers,
        "kafka.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="$ConnectionString" password="{PASSWORD}";'
        ),
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(kafka.trusted),
        **more,
    }


def everything_below(folder):
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.suffix != ".py")


def test_events_have_the_columns_of_the_vendors_connector_and_the_key_is_not_leaked(kafka, project):
    hub = kafka.topic(partitions=2)
    position = {"offset": None, "seqNo": 1, "enqueuedTime": None, "isInclusive": True}
    positions = {json.dumps({"ehName": hub, "partitionId": 0}): position}
    kafka.produce(hub, "skipped", "first", key="k", headers=[("a", b"1"), ("a", b"2")], timestamp_ms=1_767_225_600_000)
    kafka.produce(hub, "other", partition=1)
    given = options(kafka, hub, **{"eventhubs.startingPositions": json.dumps(positions)})
    stream = {**given, "maxEventsPerTrigger": 1, "eventhubs.prefetchCount": 5}
    pipeline = project(HUB.format(options=stream, whole=given))
    events = []

    result = pipeline.run(on_event=events.append)
    plan = pipeline.plan().describe() + pipeline.project.explain("read").describe()

    assert (result.state, result.error) == (UpdateState.COMPLETED, None)
    first = next(row for row in pipeline.rows("read") if row["partition"] == "0")
    assert (first["body"], first["offset"], first["sequenceNumber"], first["partitionKey"]) == (b"first", "1", 1, "k")
    assert (dict(first["properties"]), first["publisher"], first["systemProperties"]) == ({"a": "2"}, None, [])
    assert first["enqueuedTime"].isoformat() == "2026-01-01T00:00:00+00:00"
    assert {row["body"] for row in pipeline.rows("read")} == {row["body"] for row in pipeline.rows("whole")}
    inert = [event.message for event in events if isinstance(event, Warned) and event.code == "DATASET.WITHOUT_EFFECT"]
    assert [message for message in inert if "eventhubs.prefetchCount" in message] == inert != []
    assert "c2VjcmV0LWtleQ" not in repr(events) + plan + json.dumps(result.outcome.to_json())
    assert b"c2VjcmV0LWtleQ" not in everything_below(pipeline.folder)


def test_a_missing_hub_is_reported_when_its_partitions_are_requested(kafka, project):
    at_five = json.dumps({"offset": None, "seqNo": 5, "enqueuedTime": None, "isInclusive": True})
    given = options(kafka, "no-such-hub", **{"eventhubs.startingPosition": at_five})
    pipeline = project(HUB.format(options=given, whole=given))

    with pytest.raises(Problems) as refused:
        pipeline.plan()

    assert {(problem.code, problem.params.get("hub")) for problem in refused.value} == {
        ("EVENT_HUBS.NO_HUB", "no-such-hub")
    }
