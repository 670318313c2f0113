"""Debezium's messages in topics: JSON with tombstones, and Avro whose columns the registry knows."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest

pytestmark = pytest.mark.spark

# As the Avro converter registers it for a table of PostgreSQL.
VALUE = {
    "type": "record",
    "name": "Value",
    "connect.name": "pgserver1.public.orders.Value",
    "fields": [
        {"name": "id", "type": "int"},
        {
            "name": "price",
            "type": [
                "null",
                {
                    "type": "bytes",
                    "scale": 2,
                    "precision": 12,
                    "connect.version": 1,
                    "connect.parameters": {"scale": "2", "connect.decimal.precision": "12"},
                    "connect.name": "org.apache.kafka.connect.data.Decimal",
                    "logicalType": "decimal",
                },
            ],
            "default": None,
        },
        {
            "name": "placed",
            "type": ["null", {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"}],
            "default": None,
        },
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "pgserver1.public.orders",
    "connect.name": "pgserver1.public.orders.Envelope",
    "fields": [
        {"name": "before", "type": ["null", VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "namespace": "io.debezium.connector.postgresql",
                "fields": [
                    {"name": "connector", "type": "string"},
                    {"name": "ts_ms", "type": "long"},
                    {"name": "lsn", "type": ["null", "long"], "default": None},
                ],
            },
        },
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}
TEXT = """
    def messages(topic):
        options = {{"kafka.bootstrap.servers": "{servers}", "subscribe": topic, "startingOffsets": "earliest"}}
        return spark.readStream.format("kafka").options(**options).load()

    @dp.temporary_view
    def customer_events():
        return dp.debezium(messages("{json}"), "id INT, name STRING")

    @dp.temporary_view
    def order_events():
        row = "id INT, price DECIMAL(12,2), placed DATE"
        return dp.debezium(messages("{avro}"), row, subject="orders-value", registry="{url}")

    for target in ("customer", "order"):
        dp.create_streaming_table(f"{{target}}s")
        dp.create_auto_cdc_flow(
            target=f"{{target}}s", source=f"{{target}}_events", keys=["id"], sequence_by="_debezium.sequence"
        )
    """


@pytest.fixture
def registry():
    from tests.servers.registry import SchemaRegistry  # noqa: PLC0415 - as the broker's

    server = SchemaRegistry()
    yield server
    server.close()


def change(op, file, pos, name):
    """A change as the connector of MySQL tells it."""
    source = {"connector": "mysql", "ts_ms": 1714000000000, "db": "inventory", "file": file, "pos": pos, "row": 0}
    image = {"id": 1, "name": name}
    told = {"before": image, "after": None} if op == "d" else {"before": None, "after": image}
    return json.dumps({**told, "source": source, "op": op, "ts_ms": 1714000000001})


@pytest.mark.long(
    guard=(
        "tests/spark/test_debezium.py::test_rows_equal_the_table_in_the_database",
        "tests/spark/test_kafka.py::test_each_record_is_written_once_across_updates_rate_limits_and_added_partitions",
    )
)
def test_json_and_avro_topics_produce_the_rows_of_the_database(kafka, registry, project):
    customers, orders = kafka.topic(), kafka.topic()
    old, young = "mysql-bin.999999", "mysql-bin.1000000"
    kafka.produce(customers, change("c", old, 900, "Ada"), change("d", old, 950, "Ada"), None)
    # After a restart a connector tells some of it again.
    kafka.produce(customers, change("c", young, 4, "Bob"), change("d", old, 950, "Ada"), None)
    number = registry.register("orders-value", ENVELOPE)

    def order(op, lsn, key, **row):
        image = {"id": key, "price": None, "placed": None, **row}
        told = {"before": image, "after": None} if op == "d" else {"before": None, "after": image}
        source = {"connector": "postgresql", "ts_ms": 1714000000000, "lsn": lsn}
        return registry.payload(number, {**told, "source": source, "op": op, "ts_ms": None})

    kafka.produce(
        orders,
        order("r", 100, 1, price=Decimal("9.50"), placed=18262),
        order("c", 200, 2),
        order("d", 300, 2),
        None,
        b"no record",
    )
    pipeline = project(TEXT.format(servers=kafka.servers, json=customers, avro=orders, url=registry.url))

    result = pipeline.run()

    assert [(row["id"], row["name"]) for row in result.rows("customers")] == [(1, "Bob")]
    assert [tuple(row.values()) for row in result.rows("orders")] == [(1, Decimal("9.50"), dt.date(2020, 1, 1))]
    (aside,) = result.rows("orders_quarantine")
    assert "does not begin with a zero byte" in aside["row"]["_debezium"]["error"]
