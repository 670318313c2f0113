"""Types that grow: ``addNewColumnsWithTypeWidening`` against files whose columns have become wider."""

from __future__ import annotations

import time
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.autoloader.discovery import Clock
from headrace.autoloader.evolution import UnknownFieldException, rows_of
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.schemas.type_widening import widen
from headrace.autoloader.stream import FileStream
from headrace.errors import PipelineError
from headrace.model.ddl import parse_struct
from headrace.model.schema import type_text

CLOCK = Clock(time.time_ns, time.sleep)


@pytest.fixture
def source(tmp_path, data):
    """What a reader of the folder means, each time that its stream is started."""

    def made(**options):
        place = Place(tmp_path / "ledgers", tmp_path / "place", time.time_ns())
        given = {
            "cloudFiles.format": "parquet",
            "cloudFiles.schemaEvolutionMode": "addNewColumnsWithTypeWidening",
            **{f"cloudFiles.{name}": value for name, value in options.items()},
        }
        return prepare(given, str(data), None, place)

    return made


def land(data, name, **columns):
    pq.write_table(pa.table(columns), data / name)


def batch(source, start=None):
    stream = FileStream(source, CLOCK)
    start = start or stream.initial()
    stream.end_at_what_is_there()
    end = stream.latest(start, everything=False)
    return end, [row for one in stream.work(start, end) for b in rows_of(source, one) for row in b.to_pylist()]


def columns(source):
    return [f"{field['name']} {type_text(field['type'])}" for field in source.plan.data["fields"]]


def test_a_wider_type_stops_the_stream_once_and_the_restart_reads_the_same_files(data, source):
    land(data, "a.parquet", id=pa.array([1], pa.int32()), price=pa.array([Decimal("1.50")], pa.decimal128(5, 2)))
    end, _ = batch(source())
    wider = {"id": pa.array([2**40], pa.int64()), "price": pa.array([Decimal("10000000.00")], pa.decimal128(12, 2))}
    land(data, "b.parquet", **wider)

    with pytest.raises(UnknownFieldException, match="id, price"):
        batch(source(), end)
    again = source()
    _, rows = batch(again, end)

    assert columns(again) == ["id bigint", "price decimal(12,2)"]
    assert [(row["id"], row["price"], row["_rescued_data"]) for row in rows] == [(2**40, Decimal("10000000.00"), None)]


def test_an_incompatible_type_is_rescued(data, source):
    land(data, "a.parquet", id=pa.array([1], pa.int32()))
    end, _ = batch(source())
    land(data, "b.parquet", id=pa.array(["x"]))

    _, ((row),) = batch(source(), end)

    assert row["id"] is None
    assert '"id":"x"' in row["_rescued_data"]


def test_a_type_set_by_a_hint_is_not_widened(data, source):
    land(data, "a.parquet", id=pa.array([1], pa.int32()))
    end, _ = batch(source(schemaHints="id INT"))
    land(data, "b.parquet", id=pa.array([2**40], pa.int64()))

    _, (row,) = batch(source(schemaHints="id INT"), end)

    assert (row["id"], columns(source(schemaHints="id INT"))) == (None, ["id int"])


def test_type_widening_with_a_given_schema_is_refused(tmp_path, data):
    land(data, "a.parquet", id=pa.array([1], pa.int32()))
    given = {"cloudFiles.format": "parquet", "cloudFiles.schemaEvolutionMode": "addNewColumnsWithTypeWidening"}

    with pytest.raises(PipelineError) as raised:
        prepare(given, str(data), parse_struct("id INT"), Place(tmp_path, None, time.time_ns()))

    assert raised.value.code == "AUTO_LOADER.GIVEN_SCHEMA_EVOLVES"


@pytest.mark.parametrize(
    ("kind", "seen", "wide"),
    [
        ("TINYINT", "SMALLINT", "SMALLINT"),
        ("SMALLINT", "BIGINT", "BIGINT"),
        ("INT", "DOUBLE", "DOUBLE"),
        ("INT", "DECIMAL(5,2)", "DECIMAL(12,2)"),
        ("BIGINT", "DECIMAL(21,1)", "DECIMAL(21,1)"),
        ("BIGINT", "DOUBLE", "BIGINT"),
        ("FLOAT", "DOUBLE", "DOUBLE"),
        ("DECIMAL(5,2)", "DECIMAL(7,4)", "DECIMAL(7,4)"),
        ("DECIMAL(38,0)", "DECIMAL(10,9)", "DECIMAL(38,0)"),
        ("DATE", "TIMESTAMP_NTZ", "TIMESTAMP_NTZ"),
        ("INT", "STRING", "INT"),
        ("BIGINT", "INT", "BIGINT"),
        ("ARRAY<INT>", "ARRAY<BIGINT>", "ARRAY<BIGINT>"),
        ("STRUCT<x: INT, y: STRING>", "STRUCT<x: BIGINT>", "STRUCT<x: BIGINT, y: STRING>"),
    ],
)
def test_types_are_widened_as_in_databricks(kind, seen, wide):
    made = widen(parse_struct(f"c {kind}"), parse_struct(f"C {seen}"), {"c"}, "parquet")

    assert made == parse_struct(f"c {wide}")


def test_only_the_named_fields_are_widened():
    assert widen(parse_struct("a INT"), parse_struct("a BIGINT"), {"b"}, "json") == parse_struct("a INT")
