"""What Spark's workers do with a column of payloads: pickled as Spark does, on Arrow, without a JVM."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType
from tests.servers.registry import SchemaRegistry

from headrace.sources.confluent import BadPayload, RegistryUnavailable
from headrace.sources.confluent_schema import spark_type
from headrace.sources.worker_errors import SourceFailed, relayed_problem
from headrace.spark.readers.confluent import OnError, _payload_decoder

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "tags", "type": {"type": "map", "values": "long"}}],
}
COLUMNS = StructType([StructField("id", LongType()), StructField("tags", MapType(StringType(), LongType()))])
TOLD = StructType([StructField("value", COLUMNS), StructField("error", StringType())])


@pytest.fixture
def registry():
    server = SchemaRegistry()
    yield server
    server.close()


def in_a_worker(registry, on_error):
    result = TOLD if on_error is OnError.REPORT else COLUMNS
    settings = json.dumps({"url": registry.url, "max.retries": 0})
    decode = _payload_decoder(settings, json.dumps(ORDER), spark_type(ORDER), result, on_error)
    return cloudpickle.loads(cloudpickle.dumps(decode))


def payloads(registry):
    number = registry.register("orders-value", ORDER)
    return pa.array([registry.payload(number, {"id": 1, "tags": {"a": 2}}), b"none", None], pa.binary())


def test_an_unreadable_payload_is_reported_in_the_error_column(registry):
    found = in_a_worker(registry, OnError.REPORT)(payloads(registry))

    assert [row["value"] for row in found.to_pylist()] == [{"id": 1, "tags": [("a", 2)]}, None, None]
    assert [row["error"] is None for row in found.to_pylist()] == [True, False, True]


def test_an_unreadable_payload_becomes_null_with_on_error_null(registry):
    found = in_a_worker(registry, OnError.NULL)(payloads(registry))

    assert found.to_pylist() == [{"id": 1, "tags": [("a", 2)]}, None, None]


def test_an_unreadable_payload_fails_the_batch_with_on_error_fail(registry):
    with pytest.raises(BadPayload):
        in_a_worker(registry, OnError.FAIL)(payloads(registry))


def test_a_worker_without_the_client_library_relays_the_error_code(registry, monkeypatch):
    column, read = payloads(registry), in_a_worker(registry, OnError.NULL)
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)

    with pytest.raises(SourceFailed) as raised:
        read(column)

    assert relayed_problem(str(raised.value)) == ("CONFLUENT.NO_CLIENT", {})


@pytest.mark.parametrize("on_error", OnError)
def test_an_unavailable_registry_always_fails_the_batch(registry, on_error):
    column = payloads(registry)
    registry.close()

    with pytest.raises(RegistryUnavailable):
        in_a_worker(registry, on_error)(column)


def test_the_earlier_name_of_report_still_works():
    assert OnError("tell") is OnError.REPORT
