"""Avro, ORC and XML, patterns and modes: what Auto Loader makes of them is what Spark's own readers make of them."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, time

import fastavro
import pytest
from pyspark.sql import functions as F

from headrace.autoloader.options import loader_options
from headrace.autoloader.reading.conversion.converters import Times, text_converter
from headrace.autoloader.reading.conversion.datetime_patterns import date_pattern
from headrace.autoloader.reading.conversion.values import TypeMismatch
from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.schemas.schema_sample import infer_schema
from headrace.model.ddl import parse_struct
from headrace.model.schema import type_text

pytestmark = pytest.mark.spark

XML_COLUMNS = (
    "i INT, l BIGINT, d DOUBLE, n DECIMAL(10,2), b BOOLEAN, s STRING, y DATE, t TIMESTAMP, a ARRAY<INT>,"
    " o STRUCT<_k: INT, _VALUE: STRING, x: INT>, c ARRAY<STRUCT<_k: INT, x: STRING>>, m MAP<STRING,INT>, _id INT,"
    " p STRUCT<_VALUE: ARRAY<STRING>, x: INT>"
)
# A misfit is the last of its row: Spark loses what follows it, and Auto Loader does not.
XML = {
    "numbers": "<i>1</i><l>9223372036854775807</l><d>1.5</d><n>12.345</n>",
    "signs": "<i>+1</i><l>-1</l><d>-1e3</d>",
    "spaces": "<s> x </s><i> 1 </i>",
    "booleans": "<b>TRUE</b>",
    "a boolean of a number": "<b>0</b>",
    "a day": "<y>2024-02-29</y>",
    "a time": "<t>2024-01-02T03:04:05.678Z</t>",
    "a time of no zone": "<t>2024-01-02 03:04:05</t>",
    "a misfit": "<l>2</l><i>x</i>",
    "empty": "<s/><i/><o/><a/>",
    "empty pairs": "<s></s><i></i><o></o>",
    "a space": "<s> </s><i> </i>",
    "one of an array": "<a>1</a>",
    "an array": "<a>1</a><s>x</s><a>2</a>",
    "an array of structs": '<c _k="0" k="1"><x>a</x></c><c><x>b</x></c>',
    "a struct of a text": "<o>text</o>",
    "a struct with an attribute": '<o k="1">text</o>',
    "a struct with elements": '<o k="1"><x>2</x></o>',
    "a map": "<m><k>1</k><l>2</l></m>",
    "mixed content": "<p>a<x>1</x>b</p>",
    "elements as a text": '<s>a<x k="1">b</x><y/></s>',
    "repeated": "<i>1</i><i>2</i>",
    "unknown": "<q>1</q><i>2</i>",
    "another case": "<I>1</I>",
    "a namespace": "<n:i>1</n:i>",
    "data in a section": "<s><![CDATA[<x>&amp;]]></s>",
    "a text beside a section": "<s>a<![CDATA[b]]>c</s>",
    "escapes": "<s>&lt;&amp;&#233;</s>",
    "an instruction": "<?x y?><i>1</i>",
    "a row in a row": "<r><i>1</i></r><i>2</i>",
    "broken": "<i>1</s>",
}
PATTERNS = [
    ("date", "yyyy-MM-dd", "2024-01-02"),
    ("date", "yyyy-MM-dd", "2024-1-2"),
    ("date", "dd/MM/yyyy", "02/01/2024"),
    ("date", "d/M/yyyy", "2/1/2024"),
    ("date", "d/M/yyyy", "12/11/2024"),
    ("date", "yyyyMMdd", "20240102"),
    ("date", "yyMMdd", "240102"),
    ("date", "dd-MMM-yyyy", "02-Jan-2024"),
    ("date", "dd-MMM-yyyy", "02-JAN-2024"),
    ("date", "MMMM d, yyyy", "February 3, 2024"),
    ("date", "yyyy-MM-dd", "2024-02-30"),
    ("date", "yyyy-DDD", "2024-060"),
    ("date", "MM/yyyy", "05/2024"),
    ("date", "yyyy", "2024"),
    ("date", "yyyy-MM-dd", "2024-01-02T03:04:05"),
    ("date", "yyyy-MM-dd", " 2024-01-02"),
    ("timestamp", "yyyy-MM-dd HH:mm:ss", "2024-01-02 03:04:05"),
    ("timestamp", "yyyy-MM-dd HH:mm:ss", "2024-01-02 24:00:00"),
    ("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2024-01-02T03:04:05.678+02:00"),
    ("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2024-01-02T03:04:05.6Z"),
    ("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSS", "2024-01-02T03:04:05.6789"),
    ("timestamp", "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "2024-01-02T03:04:05"),
    ("timestamp", "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "2024-01-02T03:04:05.5+01:00"),
    ("timestamp", "dd/MM/yyyy hh:mm a", "02/01/2024 03:04 PM"),
    ("timestamp", "dd/MM/yyyy hh:mm a", "02/01/2024 12:04 am"),
    ("timestamp", "dd/MM/yyyy hh:mm a", "02/01/2024 13:04 PM"),
    ("timestamp", "yyyy-MM-dd HH:mm:ss xx", "2024-01-02 03:04:05 +0200"),
    ("timestamp", "yyyy-MM-dd HH:mm:ss Z", "2024-01-02 03:04:05 +0200"),
    ("timestamp", "yyyy-MM-dd HH:mm VV", "2024-01-02 03:04 Europe/Berlin"),
    ("timestamp", "yyyy-MM-dd kk:mm", "2024-01-02 24:04"),
    ("timestamp", "yyyy-MM-dd", "2024-01-02"),
    ("timestamp", "HH:mm", "03:04"),
    ("timestamp", "yyyy''MM", "2024'05"),
    ("timestamp_ntz", "yyyy-MM-dd HH:mm", "2024-01-02 03:04"),
    ("timestamp_ntz", "yyyy-MM-dd HH:mmXXX", "2024-01-02 03:04+01:00"),
]
INFERRED_XML = [
    "<a>1</a><b>1.5</b><c>true</c><d>2024-01-02</d><e>2024-01-02T03:04:05Z</e><f>x</f><g/>",
    '<a k="1">x</a><b k="1"/>',
    "<a>1</a><a>1.5</a>",
    "<a>x<b>1</b>y</a>",
    "<a>1</a></r><r><a>2</a><a>x</a>",
    '<a>1</a></r><r><a k="x">2</a>',
    "<a/></r><r><a><b>1</b></a>",
    "<a>9223372036854775808</a><b>1e3</b><c>.5</c><d>+5</d><e>2024</e>",
]
AVRO = {
    "type": "record",
    "name": "R",
    "namespace": "my",
    "fields": [
        {"name": "u", "type": ["null", "int", "string"]},
        {"name": "w", "type": ["int", "long"]},
        {"name": "f", "type": ["float", "double", "null"]},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "g", "type": ["null", "E"]},
        {"name": "m", "type": {"type": "map", "values": ["null", {"type": "array", "items": "int"}]}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "k", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "x", "type": {"type": "fixed", "name": "X", "size": 3}},
    ],
}


def split_of(path):
    return Split(str(path), path.stat().st_size, 0, 0, path.stat().st_size)


def ours(kind, columns, path, **changes):
    plan = ReadPlan(kind, parse_struct(columns) if isinstance(columns, str) else columns, "/", **changes)
    return [comparable(row) for batch in read_splits(plan, [split_of(path)]) for row in batch.to_pylist()]


def theirs(frame):
    return [comparable(row) for row in frame.toArrow().to_pylist()]


def comparable(value):
    """A value as either side gives it."""
    if isinstance(value, dict):
        return {name: comparable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [tuple(map(comparable, inner)) if isinstance(inner, tuple) else comparable(inner) for inner in value]
    return value.astimezone(UTC) if getattr(value, "tzinfo", None) else value


def typed(split, kind, **options):
    struct = infer_schema(
        [split], loader_options({"cloudFiles.format": kind, "cloudFiles.inferColumnTypes": "true", **options})
    )
    return {field["name"]: type_text(field["type"]) for field in struct["fields"]}


def simple(frame):
    return {field.name: field.dataType.simpleString() for field in frame.schema}


@pytest.fixture(scope="module")
def xml(headrace_session, tmp_path_factory):
    folder = tmp_path_factory.mktemp("xml")
    for number, inner in enumerate(XML.values()):
        (folder / f"{number}.xml").write_text(f'<all><r id="7">{inner}</r></all>', encoding="utf-8")
    reader = headrace_session.read.format("xml").schema(XML_COLUMNS).option("rowTag", "r").option("timeZone", "UTC")
    frame = reader.load(str(folder)).select("*", F.col("_metadata.file_name").alias("file"))
    found = {}
    for row in theirs(frame):
        found.setdefault(row.pop("file"), []).append(row)
    options = {"rowTag": "r"}
    return {
        name: (
            found.get(f"{number}.xml", []),
            ours("xml", XML_COLUMNS, folder / f"{number}.xml", format_options=options, case_sensitive=False),
        )
        for number, name in enumerate(XML)
    }


@pytest.mark.parametrize("case", XML)
def test_xml_is_read_as_spark_reads_it(xml, case):
    spark, found = xml[case]

    assert found == spark


@pytest.mark.parametrize("inner", INFERRED_XML)
def test_xml_types_are_inferred_as_spark_infers_them(headrace_session, tmp_path, inner):
    path = tmp_path / "a.xml"
    path.write_text(f"<all><r>{inner}</r></all>", encoding="utf-8")

    spark = simple(headrace_session.read.format("xml").option("rowTag", "r").load(str(path)))

    assert typed(split_of(path), "xml", rowTag="r") == spark


@pytest.fixture(scope="module")
def patterns(headrace_session):
    """What Spark makes of each text, all at once."""
    columns = {"date": "dateFormat", "timestamp": "timestampFormat", "timestamp_ntz": "timestampNTZFormat"}
    frame = headrace_session.range(1).select(
        *(
            F.from_json(
                F.lit(json.dumps({"a": text})), f"a {kind}", {columns[kind]: pattern, "timeZone": "Asia/Tokyo"}
            )["a"].alias(str(number))
            for number, (kind, pattern, text) in enumerate(PATTERNS)
        )
    )
    (row,) = theirs(frame)
    return row


@pytest.mark.parametrize("number", range(len(PATTERNS)), ids=[" ".join(case) for case in PATTERNS])
def test_a_datetime_pattern_parses_text_as_spark_parses_it(patterns, number):
    kind, pattern, text = PATTERNS[number]
    times = Times(Times.of("Asia/Tokyo", {}).zone, {kind: date_pattern(pattern)})

    try:
        found = text_converter(kind, times)(text)
    except TypeMismatch:
        found = None

    assert comparable(found) == patterns[str(number)]


TYPES = (
    *("CAST(id AS INT) AS i", "id AS l", "CAST(id AS SHORT) AS h", "CAST(id AS FLOAT) / 3 AS f", "id / 7 AS d"),
    *("id % 2 = 0 AS b", "CAST(id AS STRING) AS s", "CAST(CAST(id AS STRING) AS BINARY) AS bin"),
    *("CAST(id AS DECIMAL(10,2)) / 3 AS n", "date_add(DATE'2024-01-01', CAST(id AS INT)) AS y"),
    *("TIMESTAMP'2024-07-01 12:00:00.123456 Asia/Tokyo' AS t", "TIMESTAMP_NTZ'2024-07-01 12:00:00' AS w"),
    *("array(id, NULL) AS a", "map('k', id) AS m", "IF(id % 2 = 0, NULL, id) AS e"),
    "named_struct('x', id, 'y', array(named_struct('z', id))) AS o",
)


ALSO = pytest.mark.long(guard="its other cases")


@pytest.mark.parametrize(
    ("kind", "codec"),
    [
        *(("avro", codec) for codec in ("uncompressed", "deflate", "snappy")),
        *(pytest.param("avro", codec, marks=ALSO) for codec in ("zstandard", "bzip2", "xz")),
        *(("orc", "snappy"), pytest.param("orc", "zstd", marks=ALSO)),
    ],
)
def test_avro_and_orc_files_from_spark_are_read_as_spark_reads_them(headrace_session, tmp_path, kind, codec):
    folder = tmp_path / "out"
    writer = headrace_session.range(0, 500, 1, 1).selectExpr(*TYPES).write.format(kind)
    writer.option("compression", codec).save(str(folder))
    (path,) = folder.glob(f"*.{kind}")
    frame = headrace_session.read.format(kind).load(str(path))

    found = ours(
        kind, json.loads(frame.schema.json()), path, time_zone=headrace_session.conf.get("spark.sql.session.timeZone")
    )

    assert found == theirs(frame)
    if kind == "avro":
        assert typed(split_of(path), "avro") == simple(frame)


def test_avro_unions_and_logical_types_are_read_as_spark_reads_them(headrace_session, tmp_path):
    moment = datetime(1900, 1, 1, 0, 0, 0, 1000, UTC)
    shared = {"e": "B", "m": {"k": [1, 2], "l": None}, "t": moment, "k": 5, "x": b"abc"}
    rows = [
        {"u": 1, "w": 1, "f": 0.5, "g": None, **shared},
        {"u": "x", "w": 2**40, "f": None, "g": "A", **shared},
        {"u": None, "w": 2, "f": 1e300, "g": "B", **shared},
    ]
    made = io.BytesIO()
    fastavro.writer(made, AVRO, [{**row, "k": time(0, 0, 5)} for row in rows])
    path = tmp_path / "a.avro"
    path.write_bytes(made.getvalue())
    frame = headrace_session.read.format("avro").load(str(path))

    assert typed(split_of(path), "avro") == simple(frame)
    assert ours("avro", json.loads(frame.schema.json()), path) == theirs(frame)


MODES_JSON = ['{"i":1,"s":"x"}', '{"i":"x","s":"y"}', "{broken", '{"i":null}', '{"i":1.5,"s":"z","o":{"x":"q"}}']
MODES_CSV = ["1,x,1.5", "x,y,1.5", "1", "1,x,z", ",,"]


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
@pytest.mark.parametrize(
    ("kind", "lines", "columns"),
    [
        ("json", MODES_JSON, "i INT, s STRING, o STRUCT<x: INT>"),
        ("csv", MODES_CSV, "i INT, s STRING, d DOUBLE"),
        # One row in a file: behind one that is broken, Spark reads no other.
        *(("xml", [row], "i INT, s STRING") for row in ("<r><s>y</s><i>x</i></r>", "<r><i></r>", "<r><i>1</i></r>")),
    ],
)
def test_parse_modes_treat_corrupt_records_as_spark_does(headrace_session, tmp_path, kind, lines, columns, mode):
    columns += ", _corrupt_record STRING"
    path = tmp_path / f"a.{kind}"
    path.write_text("\n".join(lines), encoding="utf-8")
    options = {"rowTag": "r"} if kind == "xml" else {}
    reader = headrace_session.read.format(kind).schema(columns).options(**options).option("mode", mode)

    found = ours(kind, columns, path, mode=mode, corrupt_column="_corrupt_record", format_options=options)

    assert found == theirs(reader.load(str(path)))


def loaded(session, kind, folder, **options):
    options = {"cloudFiles.schemaLocation": str(folder.parent / "schemas"), **options}
    return session.read.format("cloudFiles").option("cloudFiles.format", kind).options(**options).load(str(folder))


def test_json_records_are_loaded_as_variants_and_stored_in_delta(headrace_session, tmp_path):
    (tmp_path / "in").mkdir()
    texts = ['{"a": {"b": [1, 2.50, "x"]}, "c": null}', "[true]", '"text"', "12345678901234567890"]
    (tmp_path / "in" / "a.json").write_text("\n".join(texts) + "\n", encoding="utf-8")
    frame = loaded(headrace_session, "json", tmp_path / "in", singleVariantColumn="v")

    frame.write.format("delta").save(str(tmp_path / "table"))

    kept = headrace_session.read.format("delta").load(str(tmp_path / "table"))
    assert simple(kept) == {"v": "variant"}
    expected = headrace_session.createDataFrame([(text,) for text in texts], "t STRING").selectExpr(
        "parse_json(t) AS v"
    )
    seen = "to_json(v)", "schema_of_variant(v)", "variant_get(v, '$.a.b[1]', 'decimal(5,2)')"
    assert set(kept.selectExpr(*seen).collect()) == set(expected.selectExpr(*seen).collect())


@pytest.mark.parametrize("kind", ["avro", "orc", "xml"])
def test_auto_loader_loads_each_format(headrace_session, tmp_path, kind):
    rows = headrace_session.range(0, 50, 1, 1).selectExpr("id", "CAST(id AS STRING) AS s", "array(id, 1) AS l")
    given = {"rowTag": "r"} if kind == "xml" else {}
    rows.write.format(kind).options(**given).save(str(tmp_path / "in"))
    hints = {"cloudFiles.schemaHints": "id BIGINT, s STRING, l ARRAY<BIGINT>"}

    found = loaded(headrace_session, kind, tmp_path / "in", **hints, **given).select("id", "s", "l", "_rescued_data")

    assert theirs(found.orderBy("id")) == [
        {"id": number, "s": str(number), "l": [number, 1], "_rescued_data": None} for number in range(50)
    ]
