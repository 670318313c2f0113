"""Avro: what each of its types becomes, where files are divided, and what becomes of what does not fit."""

from __future__ import annotations

import io
import json
import uuid
import zlib
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.autoloader.options import loader_options
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.reading.avro.avro_schema import parse_avro_schema
from headrace.autoloader.reading.avro.container import encode_long, read_blocks, read_header
from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.opening import CorruptFile
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields
from headrace.autoloader.reading.splits import Split, split_files
from headrace.autoloader.schemas.schema_sample import infer_schema
from headrace.errors import PipelineError, Problems
from headrace.model.ddl import parse_struct
from headrace.model.schema import type_text

INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}
NOON = datetime(2024, 1, 2, 12, tzinfo=UTC)


def record(**types):
    return {"type": "record", "name": "Row", "fields": [{"name": name, "type": kind} for name, kind in types.items()]}


def written(schema, rows, **options):
    made = io.BytesIO()
    fastavro.writer(made, schema, rows, **options)
    return made.getvalue()


@pytest.fixture
def write(tmp_path):
    def write(schema, rows, name="a.avro", **options):
        path = tmp_path / name
        path.write_bytes(written(schema, rows, **options))
        return split_of(path)

    return write


def split_of(path):
    size = path.stat().st_size
    return Split(str(path), size, 0, 0, size)


def rows_of(split, columns, **changes):
    plan = ReadPlan("avro", parse_struct(columns), "/", **{"rescued_column": "_rescued_data", **changes})
    return [row for batch in read_splits(plan, [split]) for row in batch.to_pylist()]


def columns_of(*splits, **options):
    struct = infer_schema(splits, loader_options({"cloudFiles.format": "avro", **options}))
    return ", ".join(f"{field['name']} {type_text(field['type'])}" for field in struct["fields"])


@pytest.mark.parametrize(
    ("kind", "value", "column", "made"),
    [
        ("boolean", True, "boolean", True),
        ("int", -1, "int", -1),
        ("long", 2**40, "bigint", 2**40),
        ("float", 0.5, "float", 0.5),
        ("double", 1.5, "double", 1.5),
        ("bytes", b"hi", "binary", b"hi"),
        ("string", "é😀", "string", "é😀"),
        (["null", "string"], None, "string", None),
        (["string", "null"], "x", "string", "x"),
        (["int", "long"], 2**40, "bigint", 2**40),
        (["double", "null", "float"], 1.5, "double", 1.5),
        ([{"type": "int"}, "long"], 2**40, "bigint", 2**40),
        ([{"type": "float"}, {"type": "double"}, {"type": "null"}], 1.5, "double", 1.5),
        ([{"type": "null"}, "string"], None, "string", None),
        (["null", "int", "string"], "x", "struct<member0:int,member1:string>", {"member0": None, "member1": "x"}),
        (["null", "int", "string"], None, "struct<member0:int,member1:string>", None),
        (
            ["string", INNER],
            {"x": 1},
            "struct<member0:string,member1:struct<x:int>>",
            {"member0": None, "member1": {"x": 1}},
        ),
        (INNER, {"x": 1}, "struct<x:int>", {"x": 1}),
        ({"type": "array", "items": ["null", "int"]}, [1, None], "array<int>", [1, None]),
        ({"type": "map", "values": "long"}, {"k": 1}, "map<string,bigint>", [("k", 1)]),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "string", "B"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", "binary", b"ab"),
        ({"type": "int", "logicalType": "date"}, date(1500, 1, 1), "date", date(1500, 1, 1)),
        ({"type": "int", "logicalType": "time-millis"}, 5, "int", 5),
        ({"type": "long", "logicalType": "time-micros"}, 5, "bigint", 5),
        ({"type": "long", "logicalType": "timestamp-millis"}, NOON, "timestamp", NOON),
        ({"type": "long", "logicalType": "timestamp-micros"}, NOON, "timestamp", NOON),
        (
            {"type": "long", "logicalType": "local-timestamp-millis"},
            NOON.replace(tzinfo=None),
            "timestamp_ntz",
            NOON.replace(tzinfo=None),
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            NOON.replace(tzinfo=None),
            "timestamp_ntz",
            NOON.replace(tzinfo=None),
        ),
        ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=1), "string", str(uuid.UUID(int=1))),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
            Decimal("-12.34"),
            "decimal(6,2)",
            Decimal("-12.34"),
        ),
        (
            {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 6, "scale": 2},
            Decimal("12.30"),
            "decimal(6,2)",
            Decimal("12.30"),
        ),
    ],
)
def test_avro_types_map_to_spark_types(write, kind, value, column, made):
    split = write(record(a=kind), [{"a": value}])

    assert columns_of(split) == f"a {column}"
    assert rows_of(split, f"a {column}") == [{"a": made, "_rescued_data": None}]


def test_a_reference_to_a_named_type_is_resolved(write):
    space = {**record(a=INNER, b=["null", "Inner"], c={"type": "array", "items": "my.Inner"}), "namespace": "my"}
    split = write(space, [{"a": {"x": 1}, "b": {"x": 2}, "c": [{"x": 3}]}])

    assert columns_of(split) == "a struct<x:int>, b struct<x:int>, c array<struct<x:int>>"
    assert rows_of(split, columns_of(split), rescued_column=None) == [{"a": {"x": 1}, "b": {"x": 2}, "c": [{"x": 3}]}]


def test_a_union_of_records_sets_only_the_written_branch(write):
    other = {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "int"}]}
    split = write(record(a=[INNER, other]), [{"a": ("Other", {"x": 1})}, {"a": ("Inner", {"x": 2})}])

    assert [row["a"] for row in rows_of(split, columns_of(split))] == [
        {"member0": None, "member1": {"x": 1}},
        {"member0": {"x": 2}, "member1": None},
    ]


def test_a_compatible_type_is_widened_and_an_incompatible_type_is_rescued(write):
    split = write(record(a="int", b="string"), [{"a": 1, "b": "x"}])

    (row,) = rows_of(split, "a DOUBLE, b INT")

    assert (row["a"], row["b"]) == (1.0, None)
    assert json.loads(row["_rescued_data"]) == {"b": "x", "_file_path": split.path}


def test_unknown_columns_are_rescued_or_stop_an_evolving_stream(write):
    split = write(record(a="long", b="bytes", s=INNER), [{"a": 1, "b": b"hi", "s": {"x": 1}}])

    (row,) = rows_of(split, "a BIGINT, s STRUCT<y: INT>")
    assert json.loads(row["_rescued_data"]) == {"b": "aGk=", "s": {"x": 1}, "_file_path": split.path}
    with pytest.raises(UnknownFields) as raised:
        rows_of(split, "a BIGINT, s STRUCT<y: INT>", evolves=True)
    assert raised.value.names == ("b", "s.x")


def test_missing_columns_are_null_even_if_the_file_has_none_of_the_columns(write):
    split = write(record(b="int"), [{"b": 1}, {"b": 2}])

    assert rows_of(split, "a BIGINT", rescued_column=None) == [{"a": None}, {"a": None}]


def test_schemas_of_files_are_merged_to_the_widest_types(write):
    first = write(record(a="int", b="string"), [], "a.avro")
    second = write(record(c="float", a="long", b="int"), [], "b.avro")

    assert columns_of(first, second) == "a bigint, b string, c float"


def test_the_avro_schema_option_sets_the_columns(write):
    split = write(record(a="int", b="string"), [{"a": 1, "b": "x"}])

    assert columns_of(split, avroSchema=json.dumps(record(a=["null", "long"]))) == "a bigint"


def test_new_fields_in_the_avro_schema_option_create_a_schema_version(tmp_path):
    (tmp_path / "in").mkdir()

    def columns(**fields):
        given = {"cloudFiles.format": "avro", "avroSchema": json.dumps(record(**fields))}
        source = prepare(given, str(tmp_path / "in"), None, Place(tmp_path / "ledgers", tmp_path / "place", 0))
        return source.version, [f"{field['name']} {type_text(field['type'])}" for field in source.plan.data["fields"]]

    assert columns(a="long") == (0, ["a bigint"])
    assert columns(a="long", b="string") == columns(b="string") == (1, ["a bigint", "b string"])


def with_field(**asks):
    return {"type": "record", "name": "Deep", "fields": [{"name": "x", "type": "int", **asks}]}


# What a type may lie in.
AROUND = (
    lambda inner: inner,
    lambda inner: ["null", inner],
    lambda inner: {"type": "array", "items": inner},
    lambda inner: {"type": "map", "values": ["null", inner]},
    lambda inner: {"type": {"type": "array", "items": inner}},
)


@pytest.mark.parametrize("around", AROUND)
def test_the_avro_schema_option_accepts_null_defaults_at_any_depth(around):
    given = record(a=around({**with_field(type=["null", "int"], default=None), "aliases": ["Other"]}))

    options = loader_options({"cloudFiles.format": "avro", "avroSchema": json.dumps(given)})

    assert json.loads(options.format_options["avroSchema"]) == given


def test_a_given_schema_together_with_the_avro_schema_option_is_refused(tmp_path, write):
    write(record(a="int"), [{"a": 1}])
    given = {"cloudFiles.format": "avro", "avroSchema": json.dumps(record(a="long"))}
    place = Place(tmp_path / "ledgers", tmp_path / "schemas", now_ns=0)

    with pytest.raises(PipelineError) as raised:
        prepare(given, str(tmp_path), parse_struct("a INT"), place)

    assert raised.value.code == "AUTO_LOADER.TWO_SCHEMAS"


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("{", "not JSON"),
        ('"string"', "not that of a record"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Other"}]}', "is not defined"),
        (json.dumps(record(a=["null", "Row"])), "contains itself"),
        (json.dumps({**record(), "fields": [{"name": "a", "type": "int", "aliases": ["b"]}]}), "aliases"),
        (json.dumps({**record(), "fields": [{"name": "a", "type": "int", "default": 5}]}), "default"),
        (json.dumps(record(a={"type": "bytes", "logicalType": "decimal", "precision": 40})), "38 at most"),
        *(
            (json.dumps(record(a=around(with_field(**asks)))), f'"a.x" has {says}')
            for around in AROUND
            for asks, says in (({"aliases": ["y"]}, "aliases"), ({"default": 5}, "a default"))
        ),
        (
            json.dumps(record(a=["null", {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"}])),
            'enum "a" has a default',
        ),
    ],
)
def test_an_unsupported_avro_schema_is_refused_with_the_reason(schema, says):
    with pytest.raises(Problems) as raised:
        loader_options({"cloudFiles.format": "avro", "avroSchema": schema})

    assert says in next(iter(raised.value)).params["reason"]


def test_a_type_name_resolves_in_the_enclosing_namespace_first():
    flat = {"type": "fixed", "name": "Code", "size": 2}
    near = {"type": "enum", "name": "shop.Code", "symbols": ["A"]}
    inner = {"type": "record", "name": "shop.Item", "fields": [{"name": "code", "type": "Code"}]}

    columns = parse_avro_schema(json.dumps(record(a=flat, b=near, c=inner))).columns

    assert str(columns.field("c").type) == "struct<code: string>"


def recompressed(data, codec, compress):
    """The same file in a codec that the library which writes for the tests lacks."""
    file = io.BytesIO(data)
    header = read_header(file)
    entry = encode_long(10) + b"avro.codec" + encode_long(4) + b"null"
    other = encode_long(10) + b"avro.codec" + encode_long(len(codec)) + codec.encode()
    made = data[: header.length].replace(entry, other)
    for block in read_blocks(file, header, 0, len(data)):
        packed = compress(block.data)
        made += encode_long(block.count) + encode_long(len(packed)) + packed + header.sync_marker
    return made


def snappy(data):
    return pa.Codec("snappy").compress(data, asbytes=True) + zlib.crc32(data).to_bytes(4, "big")


def zstandard(data):
    return pa.Codec("zstd").compress(data, asbytes=True)


ROWS = [{"a": number, "b": "x" * (number % 7)} for number in range(2000)]
PAIR = record(a="long", b="string")
PLAIN = written(PAIR, ROWS, sync_interval=500)
FILES = {
    "null": PLAIN,
    "deflate": written(PAIR, ROWS, codec="deflate", sync_interval=500),
    "bzip2": written(PAIR, ROWS, codec="bzip2", sync_interval=500),
    "xz": written(PAIR, ROWS, codec="xz", sync_interval=5000),
    "snappy": recompressed(PLAIN, "snappy", snappy),
    "zstandard": recompressed(PLAIN, "zstandard", zstandard),
}


@pytest.mark.parametrize("codec", FILES)
def test_each_codec_is_read(tmp_path, codec):
    path = tmp_path / "a.avro"
    path.write_bytes(FILES[codec])

    assert rows_of(split_of(path), "a BIGINT, b STRING", rescued_column=None) == ROWS


def test_enum_symbols_that_are_not_valid_avro_names_are_read(write):
    symbols = ["a-b", "2 c", "d"]
    # The library that writes for the tests takes names alone; both are written as one number.
    plain = {"type": "enum", "name": "E", "symbols": ["A", "B", "D"]}
    split = write(record(e=plain, l={"type": "array", "items": ["null", "E"]}), [{"e": "B", "l": ["A", None, "D"]}])
    path = Path(split.path)
    named = json.dumps(["A", "B", "D"]).encode()
    path.write_bytes(with_schema(path.read_bytes(), lambda text: text.replace(named, json.dumps(symbols).encode())))
    split = split_of(path)

    assert columns_of(split) == "e string, l array<string>"
    assert rows_of(split, columns_of(split), rescued_column=None) == [{"e": "2 c", "l": ["a-b", None, "d"]}]


def test_a_field_whose_name_is_not_a_valid_avro_name_is_read(write):
    path = Path(write(record(abc="int"), [{"abc": 1}]).path)
    path.write_bytes(path.read_bytes().replace(b'"abc"', b'"a-c"'))

    (row,) = rows_of(split_of(path), "`a-c` INT", rescued_column=None)

    assert row == {"a-c": 1}


def with_schema(data, change):
    """The same file with another text for its schema."""
    header = read_header(io.BytesIO(data))
    text = header.schema.encode()
    other = change(text)
    assert other != text
    return data.replace(encode_long(len(text)) + text, encode_long(len(other)) + other)


@pytest.mark.parametrize("size", [2**45, 2**62])
def test_a_block_that_claims_to_exceed_the_file_is_corrupt(tmp_path, size):
    path = tmp_path / "a.avro"
    header = read_header(io.BytesIO(PLAIN))
    path.write_bytes(PLAIN[: header.length] + encode_long(5) + encode_long(size) + PLAIN[header.length + 4 :])

    with pytest.raises(CorruptFile, match="larger than the file"):
        rows_of(split_of(path), "a BIGINT")


def test_a_snappy_block_that_claims_an_impossible_size_is_corrupt(tmp_path):
    path = tmp_path / "a.avro"
    path.write_bytes(recompressed(PLAIN, "snappy", lambda _: b"\xff\xff\xff\xff\xff\xff\x0f" + bytes(20)))

    with pytest.raises(CorruptFile, match="more than the data can hold"):
        rows_of(split_of(path), "a BIGINT")


def test_a_snappy_block_with_a_wrong_checksum_raises_an_error(tmp_path):
    path = tmp_path / "a.avro"
    path.write_bytes(recompressed(PLAIN, "snappy", lambda data: snappy(data)[:-4] + b"\x00\x00\x00\x00"))

    with pytest.raises(OSError, match="checksum"):
        rows_of(split_of(path), "a BIGINT")


@given(st.integers(min_value=150, max_value=5000))
@settings(max_examples=60)
def test_rows_do_not_depend_on_how_the_file_is_split(tmp_path_factory, step):
    path = tmp_path_factory.getbasetemp() / "divided.avro"
    path.write_bytes(PLAIN)
    parts = split_files([(str(path), len(PLAIN), 0)], divisible=True, max_bytes=step)

    assert [row["a"] for part in parts for row in rows_of(part, "a BIGINT")] == list(range(2000))


@given(st.binary(max_size=60), st.integers(min_value=0, max_value=len(PLAIN)))
@settings(max_examples=100)
def test_ignore_corrupt_files_handles_any_invalid_bytes(tmp_path_factory, junk, place):
    path = tmp_path_factory.getbasetemp() / "junk.avro"
    path.write_bytes(PLAIN[:place] + junk)

    with suppress(OSError):
        rows_of(split_of(path), "a BIGINT")
    assert len(rows_of(split_of(path), "a BIGINT", corrupt_files=True)) <= len(ROWS)
