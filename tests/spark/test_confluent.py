"""Payloads of a registry in a pipeline: columns from the latest schema, rows from whichever they were written with."""

from __future__ import annotations

import pytest

from headrace.model.outcome import FlowState

pytestmark = pytest.mark.spark

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "tags", "type": {"type": "map", "values": "int"}}],
}
LATER = {**ORDER, "fields": [*ORDER["fields"], {"name": "currency", "type": "string", "default": "EUR"}]}
READ = """
    from headrace import from_confluent

    def decoded(topic, on_error):
        options = {{"kafka.bootstrap.servers": "{servers}", "subscribe": topic, "startingOffsets": "earliest"}}
        records = spark.readStream.format("kafka").options(**options).load()
        return records.select(from_confluent("value", "orders-value", "{url}", on_error=on_error).alias("decoded"))

    @dp.table
    @dp.expect_or_quarantine("readable", "error IS NULL")
    def orders():
        return decoded("{topic}", "report").select("decoded.value.*", "decoded.error")

    @dp.table
    def strict():
        return decoded("{damaged}", "fail").select("decoded.id")
    """


@pytest.fixture
def registry():
    from tests.servers.registry import SchemaRegistry  # noqa: PLC0415 - as the broker's

    server = SchemaRegistry()
    yield server
    server.close()


@pytest.mark.long(
    guard=(
        "tests/unit/sources/test_confluent.py::test_a_record_with_an_older_schema_is_converted_to_the_latest_schema",
        "tests/unit/sources/test_confluent.py::test_malformed_payloads_and_unknown_schema_ids_are_refused",
        "tests/unit/test_confluent_column.py::test_an_unreadable_payload_is_reported_in_the_error_column",
    )
)
def test_both_schemas_are_decoded_and_bad_payloads_are_quarantined_or_fail_the_flow(kafka, registry, project):
    topic, damaged = kafka.topic(), kafka.topic()
    old, new = registry.register("orders-value", ORDER), registry.register("orders-value", LATER)
    kafka.produce(topic, registry.payload(old, {"id": 1, "tags": {"a": 1}}), b"no record")
    kafka.produce(topic, registry.payload(new, {"id": 2, "tags": {}, "currency": "USD"}))
    kafka.produce(damaged, b"\x00\x00\x00\x00\x63\x02")
    pipeline = project(READ.format(servers=kafka.servers, topic=topic, damaged=damaged, url=registry.url))

    result = pipeline.run()

    assert result.states == {"orders": FlowState.COMPLETED, "strict": FlowState.FAILED}
    rows = sorted((row["id"], dict(row["tags"]), row["currency"]) for row in pipeline.rows("orders"))
    assert rows == [(1, {"a": 1}, "EUR"), (2, {}, "USD")]
    (aside,) = pipeline.rows("orders_quarantine")
    assert "does not begin with a zero byte" in aside["row"]["error"]
    assert result.error == "CONFLUENT.PAYLOAD"
    assert "no schema with the id 99" in result.outcome.error["detail"]
