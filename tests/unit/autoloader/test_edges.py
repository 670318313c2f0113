"""Names that meet, types that are none, and settings that cannot be followed: an error with a code, not a traceback."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.autoloader.evolution import rows_of
from headrace.autoloader.options import loader_options
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.stream import all_tasks
from headrace.errors import PipelineError, Problems
from headrace.model.ddl import parse_struct
from headrace.model.schema import type_text


@pytest.fixture
def reader(tmp_path):
    """A reader of files that are written first."""
    folder = tmp_path / "in"
    folder.mkdir()

    def make(kind, files=(), schema=None, path=None, *, metadata=False, **options):
        for name, content in dict(files).items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, pa.Table):
                pq.write_table(content, file)
            else:
                file.write_bytes(content if isinstance(content, bytes) else content.encode())
        place = Place(tmp_path / "ledgers", tmp_path / "schemas", now_ns=2**62)
        given = {"cloudFiles.format": kind, **options}
        return prepare(given, path or str(folder), schema and parse_struct(schema), place, metadata=metadata)

    return make


def rows(source):
    return [row for work in all_tasks(source, 2**62) for batch in rows_of(source, work) for row in batch.to_pylist()]


def columns(source):
    return ", ".join(f"{field['name']} {type_text(field['type'])}" for field in source.plan.all_columns["fields"])


def code_of(error):
    return (error.code, error.params)


def test_a_file_column_named_like_the_metadata_column_overrides_it(reader):
    source = reader("json", {"a.json": '{"_metadata": "mine"}'}, metadata=True)

    assert columns(source) == "_metadata string, _rescued_data string"
    assert rows(source) == [{"_metadata": "mine", "_rescued_data": None}]


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_a_file_column_named_like_the_rescued_data_column_is_rescued(reader, kind):
    contents = {
        "json": '{"a": "1", "_rescued_data": "mine"}',
        "csv": "a,_rescued_data\n1,mine\n",
        "parquet": pa.table({"a": ["1"], "_rescued_data": ["mine"]}),
    }
    source = reader(kind, {f"a.{kind}": contents[kind]})

    (row,) = rows(source)

    assert columns(source) == "a string, _rescued_data string"
    assert (row["a"], json.loads(row["_rescued_data"])["_rescued_data"]) == ("1", "mine")


def test_a_file_column_named_like_the_corrupt_record_column_does_not_fill_it(reader):
    text = '{"a": 1, "_corrupt_record": "no"}\n{"a": 2}\n'

    found = rows(reader("json", {"a.json": text}, schema="a INT, _corrupt_record STRING"))

    assert [row["_corrupt_record"] for row in found] == [None, None]


@pytest.mark.parametrize(
    ("folder", "column"),
    [
        ("p=2024-01", "p string"),
        ("p=2024-01-02", "p date"),
        ("p=2024-01-02T03", "p string"),
        ("p=2024-01-02 03%3A04%3A05", "p timestamp"),
        ("p=2024", "p int"),
        ("p=5000000000", "p bigint"),
        ("p=1.5", "p double"),
        ("p=x", "p string"),
    ],
)
def test_partition_column_types_are_inferred_as_in_spark(reader, folder, column):
    source = reader("json", {f"{folder}/a.json": '{"a": 1}'}, **{"cloudFiles.inferColumnTypes": "true"})

    assert columns(source) == f"a bigint, {column}, _rescued_data string"


@pytest.mark.parametrize(
    ("values", "column"),
    [
        (["9223372036854775807", "-9223372036854775808"], "a bigint"),
        (["9223372036854775808"], "a decimal(19,0)"),
        (["1000000000000000000"], "a bigint"),
        (["0000000000000000000001"], "a int"),
        (["-2147483648", "2147483647"], "a int"),
        (["2147483648"], "a bigint"),
        (["1" * 39], "a double"),
    ],
)
def test_csv_integers_are_inferred_as_the_narrowest_type_that_fits(reader, values, column):
    text = "\n".join(["a", *values, ""])

    source = reader("csv", {"a.csv": text}, **{"cloudFiles.inferColumnTypes": "true"})

    assert columns(source) == f"{column}, _rescued_data string"
    assert all(row["_rescued_data"] is None for row in rows(source))


@pytest.mark.parametrize("separator", ["§", "||", "\\t"])
def test_a_csv_separator_can_be_any_string(reader, separator):
    written = separator.replace("\\t", "\t")

    found = rows(reader("csv", {"a.csv": f'a{written}b\n1{written}"x{written}y"\n'}, sep=separator))

    assert [(row["a"], row["b"]) for row in found] == [("1", f"x{written}y")]


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"quote": "ab"}, "quote"),
        ({"escape": "ab"}, "escape"),
        ({"comment": "//"}, "comment"),
        ({"sep": ""}, "sep"),
        ({"sep": '"'}, "sep"),
        ({"quote": "\n"}, "quote"),
    ],
)
def test_invalid_csv_separators_and_quotes_are_refused(options, wrong):
    with pytest.raises(Problems) as raised:
        loader_options({"cloudFiles.format": "csv", **options})

    assert [(error.code, error.params["option"]) for error in raised.value] == [("AUTO_LOADER.OPTION_VALUE", wrong)]


def test_text_uses_the_column_name_of_the_schema_and_drops_the_byte_order_mark(reader):
    found = rows(reader("text", {"a.txt": b"\xef\xbb\xbfone\ntwo\n"}, schema="line STRING"))

    assert found == [{"line": "one"}, {"line": "two"}]


@pytest.mark.parametrize(
    ("kind", "schema"), [("text", "a INT"), ("text", "a STRING, b STRING"), ("binaryFile", "path STRING, size INT")]
)
def test_a_wrong_schema_for_a_format_with_fixed_columns_is_refused(reader, kind, schema):
    with pytest.raises(PipelineError) as raised:
        reader(kind, schema=schema)

    assert raised.value.code == "AUTO_LOADER.SCHEMA"


@pytest.mark.parametrize(("option", "value"), [("timeZone", "Nowhere/Land"), ("encoding", "utf-7000"), ("lineSep", "")])
def test_an_invalid_time_zone_encoding_or_line_separator_is_refused(option, value):
    with pytest.raises(Problems) as raised:
        loader_options({"cloudFiles.format": "text", option: value})

    assert [error.params["option"] for error in raised.value] == [option]


def test_legacy_time_zone_names_are_accepted(reader):
    found = rows(reader("json", {"a.json": '{"t": "2024-01-02T00:00:00"}'}, schema="t TIMESTAMP", timeZone="PST"))

    assert found[0]["t"].hour == 8


def test_a_path_with_an_unclosed_bracket_is_refused(reader):
    with pytest.raises(PipelineError) as raised:
        reader("json", path="/in/[a", schema="a INT")

    assert raised.value.code == "AUTO_LOADER.PATH_PATTERN"


TIME = pa.table({"t": pa.array([1], pa.time64("us")), "a": [1]})
TWICE = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])


def test_duplicate_parquet_columns_fail_schema_inference(reader):
    with pytest.raises(PipelineError) as raised:
        reader("parquet", {"a.parquet": TWICE})

    assert code_of(raised.value)[0] == "AUTO_LOADER.FILE_COLUMN"
    assert raised.value.params["column"] == "a"


@pytest.mark.parametrize("hints", [{}, {"cloudFiles.schemaHints": "t STRING"}])
@pytest.mark.parametrize("before", [{}, {"0.parquet": pa.table({"a": [0]})}], ids=["first", "later"])
def test_a_parquet_column_of_an_unsupported_type_is_rescued(reader, hints, before):
    reader("parquet", before or {"0.parquet": TIME}, **hints)
    source = reader("parquet", {"a.parquet": TIME}, **hints)

    (row,) = (row for row in rows(source) if row["a"] == 1 and row["_rescued_data"].find("a.parquet") > 0)

    assert row.get("t") is None
    assert json.loads(row["_rescued_data"])["t"] == "00:00:00.000001"


def test_duplicate_parquet_columns_fail_the_batch(reader):
    with pytest.raises(PipelineError) as raised:
        rows(reader("parquet", {"a.parquet": TWICE}, schema="a INT"))

    assert raised.value.code == "AUTO_LOADER.FILE_COLUMN"


@pytest.mark.parametrize(
    ("options", "columns_made"),
    [
        ({"inferTimestamp": "true"}, "a decimal(2,1), t timestamp"),
        ({"inferTimestamp": "true", "timestampFormat": "dd.MM.yyyy"}, "a decimal(2,1), t string"),
        ({"prefersDecimal": "false"}, "a double, t string"),
    ],
)
def test_json_timestamps_and_decimals_are_inferred_only_on_request(reader, options, columns_made):
    given = {"cloudFiles.inferColumnTypes": "true", "prefersDecimal": "true", **options}

    source = reader("json", {"a.json": '{"a": 1.5, "t": "2024-01-02T03:04:05Z"}'}, **given)

    assert columns(source) == f"{columns_made}, _rescued_data string"


def test_csv_dates_are_inferred_as_timestamps_if_dates_are_not_preferred(reader):
    given = {"cloudFiles.inferColumnTypes": "true", "preferDate": "false"}

    assert columns(reader("csv", {"a.csv": "a\n2024-01-02\n"}, **given)) == "a timestamp, _rescued_data string"
