"""Payloads of Confluent's wire format against a registry over HTTP, without Spark."""

from __future__ import annotations

import socket
from datetime import UTC, date, datetime
from decimal import Decimal
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers.registry import SchemaRegistry

from headrace.autoloader.reading.avro.schema_walker import UnsupportedAvroSchema
from headrace.errors import PipelineError
from headrace.sources.confluent import BadPayload, Registry, RegistryUnavailable, decoder
from headrace.sources.confluent_schema import (
    converter,
    spark_type,
    without_unsupported_logical_types,
)

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": "string"}]}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "currency", "type": "string", "default": "EUR"}],
}


@pytest.fixture
def registry():
    server = SchemaRegistry()
    yield server
    # Its end takes half a second, for which no test has to wait.
    Thread(target=server.close, daemon=True).start()


def reading(registry, subject="orders-value", **more):
    client = Registry({"url": registry.url, "max.retries": 0, **more})
    return decoder(client, client.reader_schema(subject, None))


def test_a_record_with_an_older_schema_is_converted_to_the_latest_schema(registry):
    old = registry.register("orders-value", OLD)
    new = registry.register("orders-value", NEW)
    decode = reading(registry)

    assert decode(registry.payload(old, {"id": 1, "note": "x"})) == {"id": 1, "currency": "EUR"}
    assert decode(registry.payload(new, {"id": 2, "currency": "USD"})) == {"id": 2, "currency": "USD"}


def test_each_schema_is_requested_once(registry):
    old, _ = registry.register("orders-value", OLD), registry.register("orders-value", NEW)
    decode = reading(registry)

    for number in range(5):
        decode(registry.payload(old, {"id": number, "note": ""}))

    assert sum(path.startswith(f"/schemas/ids/{old}") for path in registry.asked) == 1


def test_a_schema_is_cached_until_it_is_refreshed(registry):
    client = Registry({"url": registry.url, "max.retries": 0})
    registry.register("orders-value", OLD)
    found = client.reader_schema("orders-value", None)
    registry.register("orders-value", NEW)

    assert client.reader_schema("orders-value", None, refresh=False) == found
    assert client.reader_schema("orders-value", None) != found


def test_a_schema_may_reference_another_subject(registry):
    money = {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}
    registry.register("money", money)
    order = {"type": "record", "name": "Order", "fields": [{"name": "price", "type": "Money"}]}
    number = registry.register("orders-value", order, references=[{"name": "Money", "subject": "money", "version": 1}])

    decode = reading(registry)

    assert decode(registry.payload(number, {"price": {"cents": 5}}, named=[money])) == {"price": {"cents": 5}}


@pytest.mark.parametrize("payload", [b"", b"\x00\x00", b"\x01\x00\x00\x00\x01\x02", b"{}", b"\x00\x00\x00\x00\x63\x02"])
def test_malformed_payloads_and_unknown_schema_ids_are_refused(registry, payload):
    registry.register("orders-value", NEW)

    with pytest.raises(BadPayload):
        reading(registry)(payload)


def test_a_payload_with_extra_bytes_after_the_record_is_refused(registry):
    number = registry.register("orders-value", NEW)
    payload = registry.payload(number, {"id": 1, "currency": "EUR"})

    with pytest.raises(BadPayload, match="extra bytes after the record"):
        reading(registry)(payload + b"\x00")


def test_an_unknown_schema_id_is_requested_once_per_batch(registry):
    registry.register("orders-value", NEW)
    decode = reading(registry)

    for _ in range(3):
        with pytest.raises(BadPayload, match="no schema with the id 99"):
            decode(b"\x00\x00\x00\x00\x63\x02")

    assert sum("/schemas/ids/99" in path for path in registry.asked) == 1


@given(st.binary(max_size=30), st.integers(0, 30))
def test_a_damaged_payload_is_either_decoded_or_refused(tail, cut):
    server = _shared()
    payload = server.payload(1, {"id": 7, "currency": "EUR"})
    damaged = payload[: max(len(payload) - cut, 5)] + tail

    try:
        found = _decode(damaged)
    except BadPayload:
        return
    assert set(found) == {"id", "currency"}


_SERVERS = []


def _shared():
    if not _SERVERS:
        _SERVERS.append(SchemaRegistry())
        _SERVERS[0].register("orders-value", NEW)
        _SERVERS.append(reading(_SERVERS[0]))
    return _SERVERS[0]


def _decode(payload):
    return _SERVERS[1](payload)


def test_an_unavailable_registry_is_not_reported_as_a_bad_payload(registry):
    old, _ = registry.register("orders-value", OLD), registry.register("orders-value", NEW)
    payload = registry.payload(old, {"id": 1, "note": "x"})
    decode = reading(registry)
    registry.close()

    with pytest.raises(RegistryUnavailable):
        decode(payload)


@pytest.mark.parametrize(
    ("subject", "more", "code"),
    [
        ("orders", {}, "CONFLUENT.NO_SUBJECT"),
        ("json-value", {}, "CONFLUENT.NOT_AVRO"),
        ("orders-value", {"url": "http://127.0.0.1:1"}, "CONFLUENT.UNREACHABLE"),
        ("orders-value", {"basic.auth.user.inf": "a:hunter2"}, "CONFLUENT.SETTINGS"),
    ],
)
def test_registry_errors_do_not_show_the_registry_settings(registry, subject, more, code):
    registry.register("orders-value", NEW)
    registry.register("json-value", {}, schemaType="JSON")

    with pytest.raises(PipelineError) as refused:
        reading(registry, subject, **more)

    assert refused.value.code == code
    assert "hunter2" not in refused.value.render()


@pytest.fixture
def deaf_server():
    """Takes connections, and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_registry_that_does_not_answer_times_out(deaf_server):
    # As little patience as the test has; without any given, the client would wait without end.
    assert Registry({"url": "http://127.0.0.1:1"})._client._rest_client.timeout is not None

    with pytest.raises(PipelineError) as refused:
        Registry({"url": deaf_server, "timeout": 0.1, "max.retries": 0}).reader_schema("orders-value", None)

    assert refused.value.code == "CONFLUENT.UNREACHABLE"


def test_a_missing_reference_and_a_schema_of_another_type_give_different_errors(registry):
    lost = registry.register("orders-value", NEW, references=[{"name": "Money", "subject": "money", "version": 1}])
    other = registry.register("json-value", {}, schemaType="JSON")
    registry.register("whole", NEW)
    decode = reading(registry, "whole")

    for number, said in ((lost, 'no version 1 of the subject "money"'), (other, "is JSON")):
        with pytest.raises(BadPayload, match=said):
            decode(b"\x00" + number.to_bytes(4, "big") + b"\x02")


def test_an_invalid_avro_schema_is_refused_with_its_subject(registry):
    registry.register("orders-value", {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "number"}]})

    with pytest.raises(PipelineError) as refused:
        reading(registry)

    assert (refused.value.code, refused.value.params["subject"]) == ("CONFLUENT.SCHEMA", "orders-value")


def test_a_type_may_be_nested_in_another_type(registry):
    order = {"type": "record", "name": "Order", "fields": [{"name": "note", "type": {"type": ["null", "string"]}}]}
    number = registry.register("orders-value", order)
    plain = registry.register("plain", without_unsupported_logical_types(order))
    payload = registry.payload(plain, {"note": "x"})

    decode = reading(registry)

    assert decode(b"\x00" + number.to_bytes(4, "big") + payload[5:]) == {"note": "x"}
    assert spark_type(without_unsupported_logical_types(order))["fields"][0]["type"] == "string"


def test_type_names_are_resolved_in_their_enclosing_namespace():
    inner = {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}
    other = {**inner, "namespace": "other", "fields": [{"name": "text", "type": "string"}]}
    fields = [{"name": name, "type": kind} for name, kind in (("a", inner), ("b", other), ("c", "Money"))]

    types = spark_type({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})["fields"]

    assert types[2]["type"] == types[0]["type"] != types[1]["type"]


def test_a_referenced_type_may_be_named_without_its_own_namespace(registry):
    money = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}
    order = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "price", "type": "Money"}]}
    registry.register("money", money)
    references = [{"name": "shop.Money", "subject": "money", "version": 1}]
    number = registry.register("orders-value", order, references=references)

    assert reading(registry)(registry.payload(number, {"price": {"cents": 5}}, named=[money])) == {
        "price": {"cents": 5}
    }


@pytest.mark.parametrize("more", [{}, {"precision": 50, "scale": 2}, {"precision": 2, "scale": 5}])
def test_a_decimal_that_spark_does_not_support_is_read_as_binary(more):
    schema = without_unsupported_logical_types({"type": "bytes", "logicalType": "decimal", **more})

    assert spark_type(schema) == "binary"


TYPES = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "other", "type": ["null", "Kind"], "default": None},
        {"name": "amount", "type": ["int", "long"]},
    ],
}


def test_decoded_values_have_spark_types(registry):
    number = registry.register("orders-value", TYPES)
    value = {
        "day": date(2026, 1, 2),
        "at": datetime(2026, 1, 2, 3, tzinfo=UTC),
        "time": 5,
        "price": Decimal("12.50"),
        "tags": {"a": [1]},
        "kind": "A",
        "other": None,
        "amount": 3,
    }
    plain = without_unsupported_logical_types(TYPES)
    again = registry.register("plain", plain)

    found = reading(registry)(registry.payload(again, value))

    assert number
    assert found == value
    assert converter(spark_type(TYPES))(found)["tags"] == [("a", [1])]
    types = {field["name"]: field["type"] for field in spark_type(plain)["fields"]}
    assert (types["day"], types["at"], types["time"]) == ("date", "timestamp", "integer")
    assert (types["price"], types["kind"], types["other"], types["amount"]) == (
        "decimal(9,2)",
        "string",
        "string",
        "long",
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]},
        {"type": "record", "name": "Either", "fields": [{"name": "one", "type": ["string", "int"]}]},
    ],
)
def test_a_schema_without_a_spark_type_is_refused(schema):
    with pytest.raises(UnsupportedAvroSchema):
        spark_type(schema)
