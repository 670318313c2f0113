"""What Auto Loader makes of records is what Spark's own readers make of them, case by case.

Each line is a record of its own; both read the same file with the same schema. Where they part on purpose, the case is
not here but in the unit tests: a record that Spark gives up as a whole is kept as far as it can be read.
"""

from __future__ import annotations

import pytest

from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.splits import Split
from headrace.model.ddl import parse_struct

pytestmark = pytest.mark.spark

JSON_COLUMNS = (
    "i INT, l BIGINT, d DOUBLE, f FLOAT, n DECIMAL(10,2), b BOOLEAN, s STRING, t TIMESTAMP, y DATE, w TIMESTAMP_NTZ,"
    " a ARRAY<INT>, o STRUCT<x: INT, y: STRING>, m MAP<STRING,INT>, bin BINARY"
)
JSON = {
    "numbers": '{"i":1,"l":9223372036854775807,"d":1.5,"f":0.25,"n":12.34}',
    "numbers as whole": '{"d":3,"f":3,"n":3}',
    "exponents": '{"d":1e3,"n":1e3,"i":1e3}',
    "a big number": '{"l":9223372036854775808,"d":123456789012345678901234567890}',
    "too many digits": '{"n":123456789.5}',
    "digits to round": '{"n":1.255}',
    "minus zero": '{"i":-0,"d":-0.0,"s":-0}',
    "numbers as text": '{"s":1.50}',
    "a big number as text": '{"s":123456789012345678901234567890.10}',
    "an exponent as text": '{"s":1E5}',
    "true as text": '{"s":true}',
    "an object as text": '{"s":{"a" :  [1, 2.50]}}',
    "an array as text": '{"s":[1,  null]}',
    "quoted numbers": '{"i":"1","d":"1.5"}',
    "a quoted decimal": '{"n":"12.5"}',
    "a decimal with commas": '{"n":"1,000.5"}',
    "names of no numbers": '{"d":"NaN","f":"Infinity"}',
    "bare names of no numbers": '{"d":NaN,"f":-Infinity}',
    "booleans": '{"b":true}',
    "a quoted boolean": '{"b":"true"}',
    "nulls": '{"i":null,"s":null,"o":null,"a":null}',
    "nothing": "{}",
    "escapes": '{"s":"\\u00e9\\t\\"\\\\\\/ \\ud83d\\ude00"}',
    "other letters": '{"s":"é😀"}',
    "a time with a zone": '{"t":"2024-01-02T03:04:05.678Z"}',
    "a time with an offset": '{"t":"2024-01-02 03:04:05+02:00"}',
    "a time of no zone": '{"t":"2024-01-02 03:04:05"}',
    "a time with micros": '{"t":"2024-01-02T03:04:05.123456789Z"}',
    "a day as a time": '{"t":"2024-01-02"}',
    "a month as a time": '{"t":"2024-01"}',
    "a short time": '{"t":"2024-1-2 3:4:5"}',
    "seconds as a time": '{"t":1704164645}',
    "no time": '{"t":"soon"}',
    "a day": '{"y":"2024-02-29"}',
    "a short day": '{"y":"2024-2-9"}',
    "a day with a time": '{"y":"2024-02-29T10:00:00"}',
    "no day": '{"y":"2024-02-30"}',
    "a clock face": '{"w":"2024-01-02T03:04:05"}',
    "an array": '{"a":[1,null,3]}',
    "no array": '{"a":5}',
    "an object": '{"o":{"x":1,"y":"z","more":2}}',
    "no object": '{"o":5}',
    "a map": '{"m":{"k":1,"l":null}}',
    "bytes": '{"bin":"aGk="}',
    "names repeated": '{"i":1,"i":2}',
    "names repeated with a misfit": '{"i":1,"i":"x","s":"y"}',
    "another case": '{"I":1}',
    "unknown names": '{"new":1,"i":2}',
    "single quotes": "{'i': 1, 's': 'x'}",
    "broken": "{broken",
    "cut off": '{"i":1',
    "a text": '"x"',
    "in an array": '[{"i":1},{"i":2}]',
    "spaces": '   {"i" : 1 }  ',
    "a control character": '{"s":"a\tb"}',
    "an empty text": '{"s":"","i":""}',
}
CSV_COLUMNS = "i INT, d DOUBLE, n DECIMAL(10,2), b BOOLEAN, s STRING, y DATE, t TIMESTAMP"
CSV = {
    "plain": "1,1.5,2.25,true,x,2024-01-02,2024-01-02 03:04:05",
    "spaces": " 1, 1.5 , 2.25 , true, x ,2024-01-02, 2024-01-02",
    "other forms": "+1,.5,1e3,TRUE,x,2024-1-2,2024-01-02T03:04:05Z",
    "misfits": "1.0,x,y,yes,x,2024-13-01,soon",
    "names of no numbers": ",NaN,,,,,",
    "infinities": ",Inf,,,,,",
    "a float": ",1.5f,,,,,",
    "commas in a decimal": ',,"1,000",,,,',
    "empty": ",,,,,,",
    "quoted empty": '"","","","","","",""',
    "quoted": '"1","1.5","2.25","true","x, y","2024-01-02","2024-01-02"',
    "an escape": ',,,,"a\\"b",,',
    "an escape escaped": ',,,,"a\\\\b",,',
    "quotes within": ',,,,a"b,,',
    "a quote behind": ',,,,"a"b,,',
    "doubled quotes": ',,,,"a""b",,',
    "quotes alone": ',,,,"""",,',
    "quotes behind an escape escaped": ',,,,"\\\\""",,',
    "a separator before a quote within": ',,,,",a"b,,',
    "an open quote": ',,,,x,,"open',
    "a backslash": ",,,,\\x,,",
    "too few": "1,2",
    "too many": "1,2,3,true,x,2024-01-02,2024-01-02,more",
    "other letters": ",,,,é😀,,",
    "a big number": "99999999999,1e400,1,,,,",
}


def ours(kind, columns, path):
    plan = ReadPlan(kind, parse_struct(columns), "/", time_zone="UTC")
    size = path.stat().st_size
    (split,) = [Split(str(path), size, 0, 0, size)]
    return [row for batch in read_splits(plan, [split]) for row in batch.to_pylist()]


def plain(value):
    """A value as either side gives it."""
    if hasattr(value, "asDict"):
        return {name: plain(inner) for name, inner in value.asDict().items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if value != value:  # noqa: PLR0124 - what is no number
        return "NaN"
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


@pytest.fixture(scope="module")
def compared(headrace_session, tmp_path_factory):
    """For each case the rows of Spark and ours."""

    def both(kind, columns, cases):
        folder = tmp_path_factory.mktemp("parity")
        found = {}
        frames = []
        session = headrace_session
        for number, (name, line) in enumerate(cases.items()):
            path = folder / f"{number}.{kind}"
            path.write_text(line + "\n", encoding="utf-8")
            frames.append((name, path))
        reader = session.read.schema(columns).option("timeZone", "UTC")
        rows = getattr(reader, kind)([str(path) for _, path in frames]).select("*", "_metadata.file_name").toArrow()
        theirs = {}
        for row in rows.to_pylist():
            theirs.setdefault(row.pop("file_name"), []).append(row)
        for name, path in frames:
            left = [{column: plain(value) for column, value in row.items()} for row in theirs.get(path.name, [])]
            right = [{column: plain(value) for column, value in row.items()} for row in ours(kind, columns, path)]
            found[name] = (left, right)
        return found

    return {"json": both("json", JSON_COLUMNS, JSON), "csv": both("csv", CSV_COLUMNS, CSV)}


@pytest.mark.parametrize("case", JSON)
def test_json_is_read_as_spark_reads_it(compared, case):
    theirs, found = compared["json"][case]

    assert found == theirs


@pytest.mark.parametrize("case", CSV)
def test_csv_is_read_as_spark_reads_it(compared, case):
    theirs, found = compared["csv"][case]

    assert found == theirs
