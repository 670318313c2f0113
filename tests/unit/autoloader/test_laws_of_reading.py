"""Two laws of reading, over formats, updates and schemas, for shapes that have broken readers.

Each value of a file is in a column or rescued; and the stream goes on, with columns that a table can have.
"""

from __future__ import annotations

import csv
import io
import json
import re
from itertools import product
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from headrace.autoloader.evolution import UnknownFieldException, parse_new_fields, rows_of
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.stream import all_tasks
from headrace.graph.column_checks import column_problems
from headrace.model.datasets import Dataset, Flow, Kind, PythonQuery
from headrace.model.ddl import parse_struct
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.model.schema import Schema

HERE = Location("a.py", 1)


class Pairs(list):
    """An object whose names may be repeated."""


def deep(depth, around):
    value: Any = "v9"
    for _ in range(depth):
        value = around(value)
    return value


# Records, each value of which is a text that nothing else is.
SHAPES: dict[str, list[Any]] = {
    "plain": [{"id": "v1", "a": "v2"}, {"id": "v3"}],
    "names that need mapping": [{"id": "v1", "a b": "v2", "c,d;e{}()=": "v3", "f\tg\nh": "v4"}],
    "names that need quotes": [{"id": "v1", "a.b": "v2", "c`d": "v3", "e'f\"g\\h": "v4", "%20": "v5"}],
    "names of nothing": [{"id": "v1", "": "v2", " ": "v3"}],
    "names that say how they are told": [{"id": "v1", "details=": "v2", "headrace.problem={": "v3"}],
    "names with nul": [{"id": "v1", "a\0b": "v2"}, {"id": "v3", "o": {"c\0": "v4", "d": "v5"}}],
    "names of columns of ours": [{"id": "v1", "_rescued_data": "v2", "_metadata": "v3", "_file_path": "v4"}],
    "names of other alphabets": [
        {"id": "v1", "größe": "v2", "\u0131": "v3", "i": "v4", "😀": "v5", "\u017f": "v6", "s": "v7"}
    ],
    "names in another case": [{"id": "v1", "a": "v2"}, {"ID": "v3", "A": "v4"}],
    "names in another case beside each other": [{"id": "v1", "a": "v2", "A": "v3", "Id": "v4"}],
    "names in another case within": [{"id": "v1", "o": {"a": "v2", "A": {"b": "v3"}}, "l": [{"x": "v4", "X": "v5"}]}],
    "names that are repeated": [Pairs([("id", "v1"), ("a", "v2"), ("a", "v3"), ("a", "v4")])],
    "types of nothing": [{"id": "v1", "o": {}, "l": [], "m": [{}], "n": None, "k": [None], "p": {"q": {}}}],
    "types that change": [{"id": "v1", "a": "v2"}, {"id": "v3", "a": {"b": "v4"}}, {"id": "v5", "a": ["v6"]}],
    "types that change within": [{"id": "v1", "o": {"a": ["v2"]}}, {"id": "v3", "o": {"a": {"b": "v4"}}}, {"o": "v5"}],
    "objects in one another": [{"id": "v1", "t": deep(45, lambda value: {"t": value})}],
    "objects deeper than any reader": [{"id": "v1", "t": deep(150, lambda value: {"t": value})}],
    "arrays in one another": [{"id": "v1", "t": deep(130, lambda value: [value])}],
    "many names": [{"id": "v0", **{f"n{number}": f"v{number + 1}" for number in range(120)}}],
    "texts with line ends": [{"id": "v1", "a": "v2\nv3\r\nv4", "b": "v5"}],
    "texts with quotes": [{"id": "v1", "a": '"v2', "b": 'v3"', "c": 'v4"v5', "d": "v6,v7"}],
}


def as_json(records):
    return "".join(_json(record) + "\n" for record in records).encode()


def _json(value):
    if isinstance(value, dict):
        value = Pairs(value.items())
    if isinstance(value, Pairs):
        return "{" + ", ".join(f"{json.dumps(name)}: {_json(inner)}" for name, inner in value) + "}"
    return "[" + ", ".join(map(_json, value)) + "]" if isinstance(value, list) else json.dumps(value)


def as_documents(records):
    """JSON of several lines."""
    return as_json(records).replace(b", ", b",\n") if "\\n" not in as_json(records).decode() else None


def as_csv(records):
    pairs = [list(record.items()) if isinstance(record, dict) else list(record) for record in records]
    if any(not isinstance(value, str) for record in pairs for _, value in record):
        return None
    names = list(dict.fromkeys(name for record in pairs for name, _ in record))
    repeats = any(len({name for name, _ in record}) < len(record) for record in pairs)
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\n", escapechar="\\", doublequote=False)
    if repeats:
        writer.writerow([name for name, _ in pairs[0]])
        writer.writerows([[value for _, value in record] for record in pairs])
    else:
        writer.writerow(names)
        writer.writerows([[dict(record).get(name, "") for name in names] for record in pairs])
    return held.getvalue().encode()


def as_xml(records):
    try:
        return f"<rows>{''.join(f'<row>{_xml(record)}</row>' for record in records)}</rows>".encode()
    except ValueError:
        return None


def _xml(value):
    if isinstance(value, dict):
        value = Pairs(value.items())
    if isinstance(value, Pairs):
        return "".join(_element(name, inner) for name, inner in value)
    return "" if value is None else escape(value)


def _element(name, value):
    if not name.isidentifier():
        raise ValueError("no name of XML")
    if isinstance(value, list) and not isinstance(value, Pairs):
        if any(isinstance(inner, list) for inner in value):
            raise ValueError("XML has no arrays of arrays")
        return "".join(_element(name, inner) for inner in value)
    return f"<{name}>{_xml(value)}</{name}>"


def as_attributes(records):
    """XML with the values in attributes."""
    flat = all(isinstance(record, dict) and all(isinstance(v, str) for v in record.values()) for record in records)
    if not flat or not all(name.isidentifier() for record in records for name in record):
        return None
    values = (" ".join(f"{name}={quoteattr(value)}" for name, value in record.items()) for record in records)
    return f"<rows>{''.join(f'<row {pairs}/>' for pairs in values)}</rows>".replace("\n", "&#10;").encode()


def as_table(records):
    """The records as Arrow has them; None where it has no such table."""
    if any(isinstance(record, Pairs) for record in records):
        return None
    names = dict.fromkeys(name for record in records for name in record)
    try:
        return pa.table({name: pa.array([record.get(name) for record in records]) for name in names})
    except (pa.ArrowInvalid, pa.ArrowTypeError, RecursionError):
        return None


def as_parquet(records):
    table, held = as_table(records), io.BytesIO()
    if table is None or _depth(table.schema) > 60:
        return None
    try:
        pq.write_table(table, held)
    except pa.ArrowNotImplementedError:
        # It has no objects of nothing.
        return None
    return held.getvalue()


def as_orc(records):
    table, held = as_table(records), io.BytesIO()
    if table is None or any(_holds_nothing(field.type) for field in table.schema) or _depth(table.schema) > 60:
        return None
    if not all(name.isidentifier() and "\0" not in name for name in table.schema.names):
        return None
    orc.write_table(table, held)
    return held.getvalue()


def _holds_nothing(kind):
    return pa.types.is_null(kind) or any(_holds_nothing(kind.field(place).type) for place in range(kind.num_fields))


def _depth(schema):
    return str(schema).count("<") if isinstance(schema, pa.Schema) else 0


def as_avro(records):
    table = as_table(records)
    if table is None:
        return None
    held = io.BytesIO()
    counted = iter(range(10_000))

    def kind_of(kind):
        if pa.types.is_struct(kind):
            fields = [{"name": field.name, "type": kind_of(field.type)} for field in kind]
            return ["null", {"type": "record", "name": f"R{next(counted)}", "fields": fields}]
        if pa.types.is_list(kind):
            return ["null", {"type": "array", "items": kind_of(kind.value_type)}]
        return "null" if pa.types.is_null(kind) else ["null", "string"]

    try:
        schema = kind_of(pa.struct(list(table.schema)))[1]
        fastavro.writer(held, fastavro.parse_schema(schema), table.to_pylist())
    except (fastavro.schema.SchemaParseException, RecursionError):
        return None
    return held.getvalue()


FORMATS = {
    "json": ("json", as_json, {}),
    "json typed": ("json", as_json, {"cloudFiles.inferColumnTypes": "true"}),
    "json of several lines": ("json", as_documents, {"multiLine": "true"}),
    "csv": ("csv", as_csv, {"header": "true"}),
    "csv of several lines": ("csv", as_csv, {"header": "true", "multiLine": "true"}),
    "xml": ("xml", as_xml, {"rowTag": "row"}),
    "xml attributes": ("xml", as_attributes, {"rowTag": "row"}),
    "avro": ("avro", as_avro, {}),
    "parquet": ("parquet", as_parquet, {}),
    "orc": ("orc", as_orc, {}),
}
WHEN = ("first", "later")
SCHEMAS = ("inferred", "given")


def texts(value):
    """The values that records say."""
    if isinstance(value, dict):
        return [text for inner in value.values() for text in texts(inner)]
    if isinstance(value, Pairs):
        return [text for _, inner in value for text in texts(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in texts(inner)]
    return [] if value is None else re.findall(r"v\d+", value)


class Reader:
    """A stream that is started again when its schema has grown."""

    def __init__(self, folder, kind, options, schema):
        self.data = folder / "in"
        self.data.mkdir()
        self._place = Place(folder / "ledgers", folder / "schemas", now_ns=2**62)
        self._options = {"cloudFiles.format": kind, "rescuedDataColumn": "_rescued_data", **options}
        self._schema = schema and parse_struct(schema)

    def read(self):
        for _ in range(4):
            source = prepare(self._options, str(self.data), self._schema, self._place)
            try:
                return source, [row for work in all_tasks(source, 2**62) for row in self._rows(source, work)]
            except UnknownFieldException as error:
                if parse_new_fields(str(error)).version is None:
                    raise
        raise AssertionError("the stream does not go on")

    def _rows(self, source, work):
        return [row for batch in rows_of(source, work) for row in batch.to_pylist()]


@pytest.mark.parametrize("shape", SHAPES)
def test_each_value_is_in_a_column_or_rescued_and_the_stream_continues(tmp_path, shape):
    records, broken, tried = SHAPES[shape], {}, 0

    for (name, (kind, write, options)), when, schema in product(FORMATS.items(), WHEN, SCHEMAS):
        content = write(records)
        if content is not None and (schema == "given" or kind != "orc"):
            tried += 1
            folder = tmp_path / str(tried)
            folder.mkdir()
            reader = Reader(folder, kind, options, "id STRING" if schema == "given" else None)
            if when == "later":
                (reader.data / "0").write_bytes(write([{"id": "before"}]))
                reader.read()
            (reader.data / "1").write_bytes(content)
            wrong = problems(reader, records)
            broken |= {f"{name}, {when}, {schema}": wrong} if wrong else {}

    assert tried >= 4
    assert broken == {}


def problems(reader, records):
    """What of two laws is broken."""
    try:
        source, rows = reader.read()
    except Exception as error:  # noqa: BLE001 - whatever it is, the stream does not go on
        return f"{type(error).__name__}: {error}"
    said = json.dumps(rows, default=str, ensure_ascii=False)
    lost = [text for text in texts(records) if text not in said]
    count = len([row for row in rows if row.get("id") != "before"])
    refused = [problem.code for problem in column_problems(*storing(source))]
    return f"lost {lost}, {count} rows, {refused}" if lost or refused or count < len(records) else ""


def storing(source):
    dataset = Dataset(QualifiedName("t"), Kind.STREAMING_TABLE, HERE)
    flow = Flow("t", dataset.name, PythonQuery(lambda: None, Naming()), HERE)
    return dataset, flow, Schema.from_json(json.dumps(source.plan.all_columns))
