"""Parquet through Auto Loader: columns by name, types that fit, what is rescued, row groups in parts."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.autoloader.options import loader_options
from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields
from headrace.autoloader.reading.splits import Split, split_files
from headrace.autoloader.schemas.inference import parquet_struct
from headrace.autoloader.schemas.schema_sample import infer_schema
from headrace.model.ddl import parse_struct
from headrace.model.schema import type_text


@pytest.fixture
def write(tmp_path):
    def written(name="a.parquet", **columns):
        path = tmp_path / name
        pq.write_table(pa.table(columns), path, row_group_size=2)
        return Split(str(path), path.stat().st_size, 0, 0, path.stat().st_size)

    return written


def rows_of(split, columns, **changes):
    plan = ReadPlan("parquet", parse_struct(columns), "/", **{"rescued_column": "_rescued_data", **changes})
    return [row for batch in read_splits(plan, [split]) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("values", "kind", "made"),
    [
        (pa.array([1], pa.int32()), "BIGINT", 1),
        (pa.array([1], pa.int32()), "DOUBLE", 1.0),
        (pa.array([1], pa.int64()), "DECIMAL(20,0)", Decimal(1)),
        (pa.array([1.5], pa.float32()), "DOUBLE", 1.5),
        (pa.array([Decimal("1.5")], pa.decimal128(5, 1)), "DECIMAL(10,2)", Decimal("1.50")),
        (pa.array(["x"]).dictionary_encode(), "STRING", "x"),
        (pa.array([date(2024, 1, 2)]), "TIMESTAMP_NTZ", datetime(2024, 1, 2)),  # noqa: DTZ001 - of no zone
        (pa.array([0], pa.timestamp("ms", "UTC")), "TIMESTAMP", datetime(1970, 1, 1, tzinfo=UTC)),
        (pa.array([{"a": 1}]), "STRUCT<a: BIGINT, b: STRING>", {"a": 1, "b": None}),
        (pa.array([[1]], pa.list_(pa.int32())), "ARRAY<BIGINT>", [1]),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())), "MAP<STRING,BIGINT>", [("k", 1)]),
    ],
)
def test_a_compatible_type_is_read_as_the_type_of_the_schema(write, values, kind, made):
    (row,) = rows_of(write(a=values), f"a {kind}")

    assert row == {"a": made, "_rescued_data": None}


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        (pa.array(["x"]), "INT", "x"),
        (pa.array([2**40]), "INT", 2**40),
        (pa.array([1.5]), "FLOAT", 1.5),
        (pa.array([{"a": "x"}]), "STRUCT<a: INT>", {"a": "x"}),
        (pa.array([Decimal("1.55")]), "DECIMAL(3,1)", "1.55"),
    ],
)
def test_an_incompatible_type_is_rescued(write, values, kind, said):
    (row,) = rows_of(write(a=values), f"a {kind}")

    assert row["a"] is None
    assert json.loads(row["_rescued_data"])["a"] == said


def test_unknown_columns_are_rescued_or_stop_an_evolving_stream(write):
    split = write(a=[1], b=["x"], s=[{"x": 1, "y": 2}])

    (row,) = rows_of(split, "a BIGINT, s STRUCT<x: BIGINT, y: BIGINT>")
    assert json.loads(row["_rescued_data"])["b"] == "x"
    with pytest.raises(UnknownFields) as raised:
        rows_of(split, "a BIGINT, s STRUCT<x: BIGINT>", evolves=True)
    assert raised.value.names == ("b", "s.y")


def test_missing_columns_are_null(write):
    assert rows_of(write(a=[1]), "a BIGINT, b STRING", rescued_column=None) == [{"a": 1, "b": None}]


def test_each_row_group_is_read_by_exactly_one_split(write):
    whole = write(a=list(range(9)))
    parts = split_files([(whole.path, whole.size, 0)], divisible=True, max_bytes=97)

    assert [row["a"] for part in parts for row in rows_of(part, "a BIGINT")] == list(range(9))


def test_schema_inference_takes_the_widest_type_and_keeps_the_column_order():
    first = pa.schema([("b", pa.int32()), ("a", pa.string()), ("c", pa.decimal128(5, 1))])
    second = pa.schema([("b", pa.int64()), ("c", pa.decimal128(6, 3)), ("d", pa.float32())])

    struct = parquet_struct([first, second])

    assert [f"{field['name']} {type_text(field['type'])}" for field in struct["fields"]] == [
        *("b bigint", "a string", "c decimal(7,3)", "d float")
    ]


def test_int96_times_are_read_as_timestamps(tmp_path):
    path = tmp_path / "a.parquet"
    values = [datetime(1, 1, 1), datetime(2024, 12, 31)]  # noqa: DTZ001 - the form has no zone
    pq.write_table(pa.table({"t": pa.array(values, pa.timestamp("us"))}), path, use_deprecated_int96_timestamps=True)
    split = Split(str(path), path.stat().st_size, 0, 0, path.stat().st_size)

    rows = rows_of(split, "t TIMESTAMP")

    assert [row["t"].replace(tzinfo=None) for row in rows] == values
    assert infer_schema([split], loader_options({"cloudFiles.format": "parquet"}))["fields"][0]["type"] == "timestamp"


def test_nanoseconds_are_truncated_to_microseconds(write):
    assert [
        row["t"].second
        for row in rows_of(write(t=pa.array([10**9, 10**9 + 1], pa.timestamp("ns", "UTC"))), "t TIMESTAMP")
    ] == [1, 1]


def test_unknown_nested_fields_are_rescued_or_stop_an_evolving_stream(write):
    split = write(s=[{"x": 1, "y": 2}], l=[[{"x": 1, "y": 2}]])
    columns = "s STRUCT<x: BIGINT>, l ARRAY<STRUCT<x: BIGINT>>"

    (row,) = rows_of(split, columns)
    assert row["s"] == {"x": 1}
    assert json.loads(row["_rescued_data"])["l"] == [{"x": 1, "y": 2}]
    with pytest.raises(UnknownFields) as raised:
        rows_of(split, columns, evolves=True)
    assert raised.value.names == ("l.y", "s.y")
