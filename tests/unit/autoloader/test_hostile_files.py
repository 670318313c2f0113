"""Files made to stop, flood or mislead a reader: they cost what they weigh, and say what was wrong with them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import time
import tracemalloc
import zlib

import fastavro
import pytest

from headrace.autoloader.evolution import UnknownFieldException, parse_new_fields, rows_of
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.reading.avro.container import encode_long
from headrace.autoloader.reading.opening import CorruptFile
from headrace.autoloader.reading.plan import MalformedRecord
from headrace.autoloader.stream import all_tasks
from headrace.errors import PipelineError
from headrace.model.ddl import parse_struct

MARK = b"\x07" * 16
NOTHING = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "null"}]}
NULLS = {"type": "record", "name": "R", "fields": [{"name": "l", "type": {"type": "array", "items": "null"}}]}
PAIR = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}
PACKED = {
    "deflate": lambda data: zlib.compress(data, 9)[2:-4],
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


@pytest.fixture
def reader(tmp_path):
    """A reader of files that are written first."""
    folder = tmp_path / "in"
    folder.mkdir()

    def make(kind, files, schema=None, **options):
        for name, content in files.items():
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        place = Place(tmp_path / "ledgers", tmp_path / "schemas", now_ns=2**62)
        given = {"cloudFiles.format": kind, **options}
        return prepare(given, str(folder), schema and parse_struct(schema), place)

    return make


def rows(source):
    return [row for work in all_tasks(source, 2**62) for batch in rows_of(source, work) for row in batch.to_pylist()]


def rescued(row):
    return {name: value for name, value in json.loads(row["_rescued_data"]).items() if name != "_file_path"}


def container(schema, count, data, codec="null"):
    """A file of Avro with one block, which claims so many records."""
    entries = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    head = b"Obj\x01" + encode_long(len(entries))
    for name, value in entries.items():
        head += encode_long(len(name)) + name.encode() + encode_long(len(value)) + value
    return head + b"\x00" + MARK + encode_long(count) + encode_long(len(data)) + data + MARK


def encoded(schema, *records):
    held = io.BytesIO()
    for record in records:
        fastavro.schemaless_writer(held, fastavro.parse_schema(schema), record)
    return held.getvalue()


@pytest.mark.parametrize(
    ("schema", "count", "data"),
    [
        (PAIR, 2, encoded(PAIR, *({"a": n, "b": "x"} for n in range(5)))),
        (PAIR, 2**40, encoded(PAIR, {"a": 1, "b": "x"})),
        (NOTHING, 2**40, b""),
        (NULLS, 1, encode_long(2**33) + b"\x00"),
    ],
    ids=["fewer than there are", "more than there are", "records of nothing", "nulls of an array"],
)
def test_an_avro_block_with_a_wrong_record_count_is_corrupt(reader, schema, count, data):
    source = reader("avro", {"a.avro": container(schema, count, data)}, schema="a BIGINT, l ARRAY<STRING>")

    with pytest.raises(CorruptFile, match=r"a\.avro .*claims"):
        rows(source)


def test_avro_records_of_zero_bytes_are_read(reader):
    source = reader("avro", {"a.avro": container(NOTHING, 3, b""), "b.avro": container(NULLS, 1, b"\x04\x00")}, "n INT")

    assert len(rows(source)) == 4


@pytest.mark.parametrize("codec", PACKED)
def test_an_avro_block_that_decompresses_beyond_the_limit_is_corrupt(reader, codec):
    data = PACKED[codec](encoded(PAIR, {"a": 1, "b": "x" * 5_000_000}))
    source = reader("avro", {"a.avro": container(PAIR, 1, data, codec)}, **{"headrace.maxRecordBytes": "1m"})

    with pytest.raises(CorruptFile, match=r"headrace\.maxRecordBytes"):
        rows(source)


def test_a_compressed_file_that_decompresses_beyond_the_limit_is_corrupt(reader):
    limits = {"headrace.maxRecordBytes": "100k", "headrace.maxExpansion": "10"}
    source = reader("json", {"a.json.gz": gzip.compress(b'{"a": 1}\n' * 200_000)}, "a INT", **limits)

    with pytest.raises(CorruptFile, match=r"headrace\.maxExpansion"):
        rows(source)


@pytest.mark.parametrize("kind", ["json", "csv", "text"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_that_is_too_long_is_rescued_with_little_memory(reader, kind, packed):
    schema = {"json": "a INT", "csv": "a STRING", "text": "value STRING"}[kind]
    whole = b"x" * 30_000_000 + b"\n" + {"json": b'{"a": 1}', "csv": b"1", "text": b"1"}[kind] + b"\n"
    name, content = (f"a.{kind}.gz", gzip.compress(whole, 1)) if packed else (f"a.{kind}", whole)
    options = {"headrace.maxRecordBytes": "1m", "rescuedDataColumn": "_rescued_data"}
    source = reader(kind, {name: content}, schema, **options)
    del whole, content

    tracemalloc.start()
    first, second = rows(source)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert rescued(first)["_record_too_long"]["bytes"] == 30_000_001
    assert next(iter(second.values())) in (1, "1")
    assert most < 8_000_000


@pytest.mark.parametrize("given", [{"mode": "FAILFAST"}, {}], ids=["failfast", "no column"])
def test_a_record_that_is_too_long_raises_an_error_if_no_column_can_hold_it(reader, given):
    source = reader(
        "json", {"a.json": '{"a": "' + "x" * 100 + '"}'}, "a STRING", **{"headrace.maxRecordBytes": "50"} | given
    )

    with pytest.raises((CorruptFile, MalformedRecord), match=r"a\.json"):
        rows(source)


@pytest.mark.parametrize(
    "content",
    ["<r><row><a>1</a></row><row " + "a" * 3_000_000, "<r><row><a>1</a></row><!--" + "<row " * 600_000],
    ids=["a tag", "a comment"],
)
def test_unterminated_xml_is_read_in_linear_time(reader, content):
    source = reader("xml", {"a.xml": content}, "a INT", rowTag="row", rescuedDataColumn="_rescued_data")

    began = time.process_time()
    found = rows(source)

    assert found[0]["a"] == 1
    # It was minutes, and grew with the square.
    assert time.process_time() - began < 5


def test_an_xml_row_that_is_too_long_is_rescued_and_the_next_row_is_read(reader):
    long = "<row><b>" + "y" * 3_000_000 + "</b></row>"
    limits = {"headrace.maxRecordBytes": "1m", "rowTag": "row", "rescuedDataColumn": "_rescued_data"}
    source = reader("xml", {"a.xml": f"<r>{long}<row><a>1</a></row></r>"}, "a INT", **limits)

    first, second = rows(source)

    assert rescued(first)["_record_too_long"]["bytes"] == len(long)
    assert second["a"] == 1


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_field_name_that_is_not_utf8_is_rescued(reader, kind):
    content = {"json": b'{"a":1}\n{"a":2,"\xff\xfe":3}\n', "csv": b"a,\xff\xfe\n1,\n2,3\n"}[kind]
    source = reader(kind, {f"a.{kind}": content})

    first, second = rows(source)

    assert [field["name"] for field in source.plan.data["fields"]] == ["a"]
    assert (first["a"], first["_rescued_data"]) == ("1", None)
    assert "\ufffd\ufffd" in rescued(second)


@pytest.mark.parametrize(
    "name", ["details=", 'x details={"fields": []}', "[UNKNOWN_FIELD_EXCEPTION] details=details=", "\n"]
)
def test_a_new_field_with_a_misleading_name_is_detected(reader, name):
    source = reader("json", {"a.json": '{"id": 1}'})
    reader("json", {"b.json": json.dumps({"id": 2, name: 3})})

    with pytest.raises(UnknownFieldException) as raised:
        rows(source)

    assert parse_new_fields(f"org.apache.spark: {raised.value}\n\tat java").names == (name,)


@pytest.mark.parametrize(
    ("kind", "deep"),
    [
        ("json", lambda depth: '{"id": 1, "t": ' + '{"t":' * depth + "1" + "}" * depth + "}"),
        ("json", lambda depth: '{"id": 1, "t": ' + "[" * depth + "1" + "]" * depth + "}"),
        ("xml", lambda depth: "<row><id>1</id>" + "<t>" * depth + "1" + "</t>" * depth + "</row>"),
    ],
    ids=["objects", "arrays", "elements"],
)
@pytest.mark.parametrize("depth", [45, 130, 900, 20_000])
def test_deeply_nested_values_are_read_as_text_or_rescued(reader, kind, deep, depth):
    options = {"rowTag": "row"} if kind == "xml" else {}
    shallow = "<row><id>2</id></row>" if kind == "xml" else '{"id": 2}'
    source = reader(kind, {f"a.{kind}": deep(depth) + "\n", f"b.{kind}": shallow + "\n"}, **options)

    found = rows(source)

    assert len(found) == 2
    assert _depth(source.plan.all_columns) <= 100
    assert any(str(row).count("t") >= depth or str(row).count("[") >= depth for row in found)


def _depth(value):
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


@pytest.mark.parametrize(
    ("kind", "name", "content"),
    [
        # Without the time of now, which would be part of the case's name.
        ("json", "a.json.gz", gzip.compress(b'{"id": 1}\n{"id": 2}\n', mtime=0)[:-6]),
        ("csv", "a.csv.gz", b"id,name\n1,ann\n"),
        ("parquet", "a.parquet", b"PAR1 and no more"),
        ("avro", "a.avro", b"Obj\x01 and no more"),
    ],
)
def test_schema_inference_names_the_only_file_if_it_is_corrupt(reader, kind, name, content):
    with pytest.raises(PipelineError) as raised:
        reader(kind, {name: content})

    assert raised.value.code == "AUTO_LOADER.SAMPLE_CORRUPT"
    assert raised.value.params["path"].endswith(name)


@pytest.mark.parametrize(
    ("kind", "content"),
    [("json", '{"a": "x", "b": "' + "y" * 300_000 + '"}\n'), ("csv", '"x",' + "y" * 300_000 + '"z\n')],
)
def test_a_type_mismatch_in_a_long_line_is_rescued(reader, kind, content):
    source = reader(kind, {f"a.{kind}": content}, "a INT, b STRING", rescuedDataColumn="_rescued_data")

    (row,) = rows(source)

    assert rescued(row) == {"a": "x"}
    assert len(row["b"]) >= 300_000
