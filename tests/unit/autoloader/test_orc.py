"""ORC: columns by name, times by the clock on the wall, and a schema that has to be given."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pyarrow as pa
import pytest
from pyarrow import orc

from headrace.autoloader.ddl import parse_struct
from headrace.autoloader.options import loader_options
from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.source import Place, prepare
from headrace.errors import PipelineError, Problems

NOON = datetime(2024, 7, 1, 12)  # noqa: DTZ001 - of no zone


@pytest.fixture
def write(tmp_path):
    def write(**columns):
        path = tmp_path / "a.orc"
        orc.write_table(pa.table(columns), path)
        return Split(str(path), path.stat().st_size, 0, 0, path.stat().st_size)

    return write


def rows_of(split, columns, **changes):
    plan = ReadPlan("orc", parse_struct(columns), "/", **{"rescued_column": "_rescued_data", **changes})
    return [row for batch in read_splits(plan, [split]) for row in batch.to_pylist()]


def prepared(folder, schema=None, **options):
    place = Place(folder / "ledgers", folder / "schemas", now_ns=0)
    return prepare({"cloudFiles.format": "orc", **options}, str(folder), schema and parse_struct(schema), place)


def test_columns_are_read_by_name_and_what_has_no_place_is_rescued(write):
    split = write(a=[1, None], b=["x", None], s=[{"x": 1, "y": 2}, None])

    first, second = rows_of(split, "s STRUCT<x: INT>, a BIGINT, c STRING")

    assert (first["a"], first["s"], first["c"]) == (1, None, None)
    assert json.loads(first["_rescued_data"]) == {"b": "x", "s": {"x": 1, "y": 2}, "_file_path": split.path}
    assert second == {"s": None, "a": None, "c": None, "_rescued_data": None}


def test_columns_that_the_file_lacks_are_null_even_when_it_has_none(write):
    assert rows_of(write(b=[1, 2]), "a BIGINT", rescued_column=None) == [{"a": None}, {"a": None}]


def test_a_field_that_the_schema_lacks_ends_a_stream_that_is_to_fail_with_it(write):
    with pytest.raises(UnknownFields) as raised:
        rows_of(write(a=[1], b=[2]), "a BIGINT", evolves=True)

    assert raised.value.names == ("b",)


def test_times_without_a_zone_are_those_of_a_clock_in_the_readers_zone(write):
    split = write(
        t=pa.array([NOON], pa.timestamp("us")), s=pa.array([{"t": NOON}], pa.struct([("t", pa.timestamp("us"))]))
    )

    (plain,) = rows_of(split, "t TIMESTAMP_NTZ", rescued_column=None)
    (zoned,) = rows_of(split, "t TIMESTAMP, s STRUCT<t: TIMESTAMP>", rescued_column=None, time_zone="Europe/Berlin")

    assert plain["t"] == NOON
    assert zoned["t"] == zoned["s"]["t"] == datetime(2024, 7, 1, 10, tzinfo=timezone.utc)


def test_times_with_a_zone_are_points_in_time_whatever_the_zone(write):
    split = write(t=pa.array([NOON], pa.timestamp("us", "UTC")))

    (row,) = rows_of(split, "t TIMESTAMP", time_zone="Europe/Berlin")

    assert row["t"] == NOON.replace(tzinfo=timezone.utc)


def test_a_file_that_is_no_orc_is_one_that_ignore_corrupt_files_knows(tmp_path):
    path = tmp_path / "a.orc"
    path.write_bytes(b"no orc")
    split = Split(str(path), 6, 0, 0, 6)

    with pytest.raises((OSError, pa.ArrowException)):
        rows_of(split, "a INT")
    assert rows_of(split, "a INT", corrupt_files=True) == []


def test_no_schema_is_inferred(tmp_path, write):
    write(a=[1])

    with pytest.raises(PipelineError) as raised:
        prepared(tmp_path)
    assert raised.value.code == "AUTO_LOADER.NOT_INFERRED"


def test_hints_are_the_schema_where_none_is_given(tmp_path, write):
    write(a=[1])

    source = prepared(tmp_path, **{"cloudFiles.schemaHints": "a BIGINT, b STRING"})

    assert source.plan.data == parse_struct("a BIGINT, b STRING")
    assert (source.plan.evolves, source.plan.rescued_column) == (False, "_rescued_data")


def test_a_schema_that_is_not_inferred_does_not_grow():
    with pytest.raises(Problems) as raised:
        loader_options({"cloudFiles.format": "orc", "cloudFiles.schemaEvolutionMode": "addNewColumns"})

    assert "not inferred" in next(iter(raised.value)).params["reason"]
