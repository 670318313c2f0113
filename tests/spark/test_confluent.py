"""Payloads of a registry in a pipeline: columns from the latest schema, rows from whichever they were written with."""

from __future__ import annotations

import pytest

from headrace.model.outcome import UpdateState

pytestmark = pytest.mark.spark

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "tags", "type": {"type": "map", "values": "int"}}],
}
LATER = {**ORDER, "fields": [*ORDER["fields"], {"name": "currency", "type": "string", "default": "EUR"}]}
READ = """
    from headrace import from_confluent

    @dp.table
    @dp.expect_or_quarantine("readable", "error IS NULL")
    def orders():
        records = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", "{servers}")
            .option("subscribe", "{topic}")
            .option("startingOffsets", "earliest")
            .load()
        )
        decoded = from_confluent("value", "orders-value", "{url}", on_error="{on_error}")
        return records.select(decoded.alias("decoded")).select({columns})
    """


@pytest.fixture
def registry():
    from tests.servers.registry import SchemaRegistry  # noqa: PLC0415 - as the broker's

    server = SchemaRegistry()
    yield server
    server.close()


def test_records_of_both_schemas_are_read_and_what_is_none_is_set_aside(kafka, registry, project):
    topic = kafka.topic()
    old, new = registry.register("orders-value", ORDER), registry.register("orders-value", LATER)
    kafka.produce(topic, registry.payload(old, {"id": 1, "tags": {"a": 1}}), b"no record")
    kafka.produce(topic, registry.payload(new, {"id": 2, "tags": {}, "currency": "USD"}))
    columns = '"decoded.value.*", "decoded.error"'
    text = READ.format(servers=kafka.servers, topic=topic, url=registry.url, on_error="tell", columns=columns)
    pipeline = project(text)

    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED
    rows = sorted((row["id"], dict(row["tags"]), row["currency"]) for row in pipeline.rows("orders"))
    assert rows == [(1, {"a": 1}, "EUR"), (2, {}, "USD")]
    (aside,) = pipeline.rows("orders_quarantine")
    assert "does not begin with a zero byte" in aside["row"]["error"]


def test_a_payload_that_cannot_be_read_ends_the_flow_with_its_reason(kafka, registry, project):
    topic = kafka.topic()
    registry.register("orders-value", ORDER)
    kafka.produce(topic, b"\x00\x00\x00\x00\x63\x02")
    columns = '"decoded.id", F.lit(None).cast("string").alias("error")'
    text = READ.format(servers=kafka.servers, topic=topic, url=registry.url, on_error="fail", columns=columns)

    result = project(text).run()

    assert result.error == "CONFLUENT.PAYLOAD"
    assert "no schema with the id 99" in result.outcome.error["detail"]
