"""ORC: columns by name, times by the clock on the wall, and a schema that has to be given."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyarrow import orc

from headrace.autoloader.options import loader_options
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields
from headrace.autoloader.reading.splits import Split
from headrace.errors import PipelineError, Problems
from headrace.model.ddl import parse_struct

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


def test_columns_are_matched_by_name_and_unknown_or_incompatible_ones_are_rescued(write):
    split = write(a=[1, None], b=["x", None], s=[{"x": 1, "y": 2}, None])

    first, second = rows_of(split, "s STRUCT<x: INT>, a BIGINT, c STRING")

    assert (first["a"], first["s"], first["c"]) == (1, None, None)
    assert json.loads(first["_rescued_data"]) == {"b": "x", "s": {"x": 1, "y": 2}, "_file_path": split.path}
    assert second == {"s": None, "a": None, "c": None, "_rescued_data": None}


def test_missing_columns_are_null_even_if_the_file_has_none_of_the_columns(write):
    assert rows_of(write(b=[1, 2]), "a BIGINT", rescued_column=None) == [{"a": None}, {"a": None}]


def test_unknown_columns_stop_an_evolving_stream(write):
    with pytest.raises(UnknownFields) as raised:
        rows_of(write(a=[1], b=[2]), "a BIGINT", evolves=True)

    assert raised.value.names == ("b",)


def test_times_without_a_zone_are_local_times_in_the_time_zone_of_the_reader(write):
    split = write(
        t=pa.array([NOON], pa.timestamp("us")), s=pa.array([{"t": NOON}], pa.struct([("t", pa.timestamp("us"))]))
    )

    (plain,) = rows_of(split, "t TIMESTAMP_NTZ", rescued_column=None)
    (zoned,) = rows_of(split, "t TIMESTAMP, s STRUCT<t: TIMESTAMP>", rescued_column=None, time_zone="Europe/Berlin")

    assert plain["t"] == NOON
    assert zoned["t"] == zoned["s"]["t"] == datetime(2024, 7, 1, 10, tzinfo=UTC)


def test_daylight_saving_time_applies_after_2037(write):
    split = write(t=pa.array([NOON, None, NOON.replace(year=2053)], pa.timestamp("us")))

    rows = rows_of(split, "t TIMESTAMP", rescued_column=None, time_zone="Europe/Berlin")

    assert [row["t"] and row["t"].hour for row in rows] == [10, None, 10]


def test_times_with_a_zone_do_not_depend_on_the_time_zone_of_the_reader(write):
    split = write(t=pa.array([NOON], pa.timestamp("us", "UTC")))

    (row,) = rows_of(split, "t TIMESTAMP", time_zone="Europe/Berlin")

    assert row["t"] == NOON.replace(tzinfo=UTC)


def test_ignore_corrupt_files_skips_an_invalid_orc_file(tmp_path):
    path = tmp_path / "a.orc"
    path.write_bytes(b"no orc")
    split = Split(str(path), 6, 0, 0, 6)

    with pytest.raises((OSError, pa.ArrowException)):
        rows_of(split, "a INT")
    assert rows_of(split, "a INT", corrupt_files=True) == []


def test_null_lists_maps_and_structs_are_read_in_stripes_of_any_length(write):
    count = 2 * 32_768 + 10
    lists = [None if number % 3 == 0 else [number] for number in range(count)]
    maps = [None if number % 5 == 0 else [("k", number)] for number in range(count)]
    structs = [None if number % 7 == 0 else {"x": [number]} for number in range(count)]
    split = write(
        a=pa.array(lists, pa.list_(pa.int32())),
        m=pa.array(maps, pa.map_(pa.string(), pa.int32())),
        s=pa.array(structs, pa.struct([("x", pa.list_(pa.int32()))])),
    )

    rows = rows_of(split, "a ARRAY<BIGINT>, m MAP<STRING, BIGINT>, s STRUCT<x: ARRAY<BIGINT>>", rescued_column=None)

    assert [row["a"] for row in rows] == lists
    assert [row["m"] for row in rows] == maps
    assert [row["s"] for row in rows] == structs


@pytest.mark.parametrize("columns", ["t TIMESTAMP_NTZ", "a INT, t STRING", "s STRUCT<t: TIMESTAMP>"])
def test_a_time_beyond_the_nanosecond_range_is_reported_with_file_and_column(write, columns):
    late = datetime(9999, 12, 31)  # noqa: DTZ001 - of no zone
    times = pa.timestamp("us")
    kept = {
        "a": [1, 2],
        "t": pa.array([NOON, late], times),
        "s": pa.array([{"t": late}, None], pa.struct([("t", times)])),
    }
    name = columns.split()[-2] if "<" not in columns else "s"
    split = write(a=kept["a"], **{name: kept[name]})

    with pytest.raises(PipelineError) as raised:
        rows_of(split, columns, corrupt_files=True)

    assert raised.value.code == "AUTO_LOADER.FILE_COLUMN"
    assert (raised.value.params["file"], raised.value.params["column"]) == (split.path, name)


def test_an_unreadable_time_does_not_affect_other_columns(write):
    late = datetime(9999, 12, 31)  # noqa: DTZ001 - of no zone
    split = write(a=[1], t=pa.array([late], pa.timestamp("us")))

    assert rows_of(split, "a BIGINT", rescued_column=None) == [{"a": 1}]


def test_an_orc_schema_is_not_inferred(tmp_path, write):
    write(a=[1])

    with pytest.raises(PipelineError) as raised:
        prepared(tmp_path)
    assert raised.value.code == "AUTO_LOADER.NOT_INFERRED"


def test_schema_hints_become_the_schema_if_none_is_given(tmp_path, write):
    write(a=[1])

    source = prepared(tmp_path, **{"cloudFiles.schemaHints": "a BIGINT, b STRING"})

    assert source.plan.data == parse_struct("a BIGINT, b STRING")
    assert (source.plan.evolves, source.plan.rescued_column) == (False, "_rescued_data")


def test_schema_evolution_without_inference_is_refused():
    with pytest.raises(Problems) as raised:
        loader_options({"cloudFiles.format": "orc", "cloudFiles.schemaEvolutionMode": "addNewColumns"})

    assert "not inferred" in next(iter(raised.value)).params["reason"]
