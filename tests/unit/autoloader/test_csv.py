"""CSV through Auto Loader; that Spark reads the same is in tests/spark/test_auto_loader_parity.py."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.reading.csv.blocks import CsvBlocks
from headrace.autoloader.reading.csv.lines import Dialect
from headrace.autoloader.reading.csv.long_separators import create_parser
from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.plan import MalformedRecord, ReadPlan, UnknownFields
from headrace.autoloader.reading.splits import Split, split_files
from headrace.model.ddl import parse_struct
from headrace.model.schema import type_text

PATH = "/in/a.csv"


def values_in(line, **options):
    return create_parser(Dialect.of(options)).values(line)


def plan_of(columns, **changes):
    return ReadPlan("csv", parse_struct(columns), "/in", **{"rescued_column": "_rescued_data", **changes})


def rows_of(text, columns, names=None, **changes):
    plan = plan_of(columns, **changes)
    reader = CsvBlocks(plan, PATH, Dialect.of(plan.format_options), names)
    return [row for batch in reader.read(text.encode()) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("1,x", ["1", "x"]),
        ('2,"a,b"', ["2", "a,b"]),
        ('3,"a""b"', ["3", '"a""b"']),
        ('4,"a\\"b"', ["4", 'a"b']),
        ('5,a"b', ["5", 'a"b']),
        ('6,"a"b', ["6", '"a"b']),
        ("7, x ", ["7", " x "]),
        ("8,", ["8", None]),
        ('9,""', ["9", ""]),
        ("10", ["10"]),
        ('12,"open', ["12", "open"]),
        ("13,\\x", ["13", "\\x"]),
        ('14,"a\\\\b"', ["14", "a\\b"]),
        ('15,"a\\nb"', ["15", "a\\nb"]),
        ('18,""x""', ["18", '""x""']),
        ('19,"x"y"', ["19", '"x"y"']),
        ('20,"",', ["20", "", None]),
        ('21," x "', ["21", " x "]),
        ('"23","x"', ["23", "x"]),
        ('25,"a\\"', ["25", 'a"']),
        ('28,"a" ,b', ["28", "a", "b"]),
        ('29, "a"', ["29", ' "a"']),
        ('30,"', ["30", '"']),
        ('31,"\\\\"""', ["31", '\\""']),
        ('",a"b,c', ['",a"b', "c"]),
        ('33,""""', ["33", '""']),
        ('34,"a""', ["34", 'a"']),
    ],
)
def test_a_line_is_parsed_as_in_spark(line, values):
    assert values_in(line) == values


def test_separator_quote_and_whitespace_options_are_applied():
    assert values_in("a\tb", sep="\\t") == ["a", "b"]
    assert values_in("a||'b||c'", sep="||", quote="'") == ["a", "b||c"]
    assert values_in(' a , "b" ', ignoreLeadingWhiteSpace="true", ignoreTrailingWhiteSpace="true") == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "options", "values"),
    [
        ('"a"\\"b', {}, ['a"\\"b']),
        ('"a"\\,b"c', {}, ['"a"\\b"c']),
        ('"a', {"escape": ""}, ["a"]),
        ('"",x', {"escape": ""}, ["", "x"]),
        ('x,""', {"escape": ""}, ["x", '"']),
        ('"a" b"', {}, ['"a" b""']),
        ("\ta\x01,\tb", {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}, ["a", "b"]),
        ('"a" \t', {}, ["a"]),
        ('x||"a|"', {"sep": "||"}, ["x", "a|"]),
        ("aaab", {"sep": "aab"}, ["aaab"]),
        ('""', {"nullValue": "-"}, [""]),
    ],
)
def test_unusual_lines_are_parsed_as_in_spark(line, options, values):
    assert values_in(line, **options) == values


def test_values_are_converted_as_in_spark_and_type_mismatches_are_rescued():
    text = "+3,.5,True,2024-1-2,1e3\n 2 , 1.5 ,false,2024-01-02,007\n4.0,x,yes,2024-13-01,1234567890.5\n"

    rows = rows_of(text, "a INT, b DOUBLE, c BOOLEAN, d DATE, e DECIMAL(10,2)")

    assert [(row["a"], row["b"], row["c"], str(row["d"]), str(row["e"])) for row in rows] == [
        (3, 0.5, True, "2024-01-02", "1000.00"),
        (None, 1.5, False, "2024-01-02", "7.00"),
        (None, None, None, "None", "None"),
    ]
    assert json.loads(rows[1]["_rescued_data"])["a"] == " 2 "
    assert set(json.loads(rows[2]["_rescued_data"])) == {"a", "b", "c", "d", "e", "_file_path"}


def test_a_line_with_a_wrong_number_of_values_keeps_them_and_is_rescued_whole():
    rows = rows_of("1,2,3\n4,5\n6,7,8,9\n\n   \n,,\n", "a STRING, b STRING, c STRING")

    assert [(row["a"], row["b"], row["c"]) for row in rows] == [
        ("1", "2", "3"),
        ("4", "5", None),
        ("6", "7", "8"),
        (None, None, None),
    ]
    told = [row["_rescued_data"] and json.loads(row["_rescued_data"])["_corrupt_record"] for row in rows]
    assert told == [None, "4,5", "6,7,8,9", None]


def test_modes_keep_or_drop_a_malformed_line_or_fail():
    columns = "a INT, b INT, _corrupt_record STRING"

    (row,) = rows_of("1", columns, corrupt_column="_corrupt_record")
    assert (row["a"], row["_corrupt_record"], row["_rescued_data"]) == (1, "1", None)
    assert rows_of("1", "a INT, b INT", mode="DROPMALFORMED") == []
    with pytest.raises(MalformedRecord):
        rows_of("1", "a INT, b INT", mode="FAILFAST")


def test_columns_are_matched_by_header_names():
    rows = rows_of("x,1,new\n", "id INT, name STRING, other STRING", names=("name", "id", "more"))

    assert rows == [{"id": 1, "name": "x", "other": None, "_rescued_data": f'{{"more":"new","_file_path":"{PATH}"}}'}]
    with pytest.raises(UnknownFields) as raised:
        rows_of("x,1,new\n", "id INT, name STRING", names=("name", "id", "more"), evolves=True)
    assert raised.value.names == ("more",)


def test_the_header_applies_to_every_split_of_a_file(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("# made by hand\nb,a\n" + "".join(f'"x{number}",{number}\n' for number in range(20)))
    options = {"header": "true", "comment": "#"}
    plan = plan_of("a INT, b STRING", format_options=options)
    parts = split_files([(str(file), file.stat().st_size, 0)], divisible=True, max_bytes=23)

    rows = [row for batch in read_splits(plan, parts) for row in batch.to_pylist()]

    assert [(row["a"], row["b"]) for row in rows] == [(number, f"x{number}") for number in range(20)]


def test_skip_rows_skips_lines_of_a_file_without_a_header(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("one\ntwo\n1,2\n")
    split = Split(str(file), file.stat().st_size, 0, 0, file.stat().st_size)
    plan = plan_of("a INT, b INT", format_options={"skipRows": "2"}, rescued_column=None)

    assert [row for batch in read_splits(plan, [split]) for row in batch.to_pylist()] == [{"a": 1, "b": 2}]


@pytest.mark.parametrize(
    ("typed", "columns"),
    [
        ("false", "i string, d string, day string, at string, yes string, empty string, big string"),
        ("true", "i int, d double, day date, at timestamp, yes boolean, empty string, big decimal(20,0)"),
    ],
)
def test_columns_and_types_are_inferred_from_the_header_and_values(tmp_path, data, typed, columns):
    (data / "a.csv").write_text(
        "i,d,day,at,yes,empty,big\n"
        "1,1.5,2024-01-02,2024-01-02 03:04:05,true,,12345678901234567890\n"
        "2,2,2024-01-03,2024-01-02,FALSE,,1\n"
    )
    given = {"cloudFiles.format": "csv", "cloudFiles.inferColumnTypes": typed}

    source = prepare(given, str(data), None, Place(tmp_path, tmp_path / "place", 2 * 10**18))

    found = [f"{field['name']} {type_text(field['type'])}" for field in source.plan.data["fields"]]
    assert ", ".join(found) == columns
    assert source.plan.format_options["header"] == "true"


_TEXTS = st.one_of(
    st.text(alphabet='ab ,"\\é', max_size=6),
    st.sampled_from(["1", "-5", "2.5", "true", "2024-01-02", '"x"', '"a,b"', '""', "+1", " 1"]),
)


@settings(max_examples=300, deadline=None)
@given(lines=st.lists(st.lists(_TEXTS, min_size=2, max_size=4).map(",".join), max_size=6))
def test_arrow_parses_a_block_to_the_same_rows_as_line_by_line_parsing(lines):
    columns = "a STRING, b BIGINT, c DATE"
    block = "\n".join(lines)
    at_once = rows_of(block, columns)
    reader = CsvBlocks(plan_of(columns), PATH, Dialect(), None)
    singly = [row for batch in reader._by_line(block.encode()) for row in batch.to_pylist()]

    assert at_once == singly


def test_a_block_of_plain_lines_is_parsed_by_arrow(monkeypatch):
    monkeypatch.setattr(CsvBlocks, "_by_line", lambda *_: pytest.fail("line by line"))

    assert rows_of('1,x,2024-01-02\n2,"a,b",\n', "a INT, b STRING, c DATE")[1] == {
        "a": 2, "b": "a,b", "c": None, "_rescued_data": None
    }  # fmt: skip
