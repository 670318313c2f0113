"""XML: what elements become, where rows are found in a file, and what is refused or rescued."""

from __future__ import annotations

import gzip
import json
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.autoloader.options import loader_options
from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.plan import MalformedRecord, ReadPlan, UnknownFields
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.reading.xml.texts import rows_between
from headrace.autoloader.schemas.schema_sample import infer_schema
from headrace.errors import Problems
from headrace.model.ddl import parse_struct
from headrace.model.schema import type_text


@pytest.fixture
def write(tmp_path):
    def write(text, name="a.xml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Split(str(path), path.stat().st_size, 0, 0, path.stat().st_size)

    return write


def rows_of(split, columns, options=(), **changes):
    given = {"rescued_column": "_rescued_data", "format_options": {"rowTag": "r", **dict(options)}, **changes}
    plan = ReadPlan("xml", parse_struct(columns), "/", **given)
    return [row for batch in read_splits(plan, [split]) for row in batch.to_pylist()]


def rescued(row):
    text = row["_rescued_data"]
    return None if text is None else {k: v for k, v in json.loads(text).items() if k != "_file_path"}


def columns_of(*splits, **options):
    given = {"cloudFiles.format": "xml", "rowTag": "r", **options}
    struct = infer_schema(splits, loader_options(given))
    return ", ".join(f"{field['name']} {type_text(field['type'])}" for field in struct["fields"])


TYPED = {"cloudFiles.inferColumnTypes": "true"}


@pytest.mark.parametrize(
    ("inner", "columns", "made"),
    [
        ("<a>x</a>", "a STRING", {"a": "x"}),
        ("<a> x </a>", "a STRING", {"a": "x"}),
        ("<a> 1 </a>", "a INT", {"a": 1}),
        ("<a/>", "a STRING", {"a": ""}),
        ("<a></a>", "a INT", {"a": None}),
        ("<a>1</a>", "a INT", {"a": 1}),
        ("<a>1.50</a>", "a DECIMAL(5,2)", {"a": pytest.approx(1.5)}),
        ("<a>1</a><b>false</b>", "a BOOLEAN, b BOOLEAN", {"a": True, "b": False}),
        ("<a>2024-02-29</a>", "a DATE", {"a": date(2024, 2, 29)}),
        ("<a>1</a><a>2</a>", "a ARRAY<INT>", {"a": [1, 2]}),
        ("<a>1</a>", "a ARRAY<INT>", {"a": [1]}),
        ('<a k="v">x</a>', "a STRUCT<_k: STRING, _VALUE: STRING>", {"a": {"_k": "v", "_VALUE": "x"}}),
        ("<a>x</a>", "a STRUCT<_k: STRING, _VALUE: STRING>", {"a": {"_k": None, "_VALUE": "x"}}),
        ('<a><b c="1"/></a>', "a STRUCT<b: STRUCT<_c: INT>>", {"a": {"b": {"_c": 1}}}),
        ("<a>x<b>1</b>y</a>", "a STRUCT<b: INT, _VALUE: ARRAY<STRING>>", {"a": {"b": 1, "_VALUE": ["x", "y"]}}),
        ("<a>x<b c='1'>y</b></a>", "a STRING", {"a": 'x<b c="1">y</b>'}),
        ("<a><k>1</k><l>2</l></a>", "a MAP<STRING,INT>", {"a": [("k", 1), ("l", 2)]}),
        ("<a><![CDATA[<x>&amp;]]></a>", "a STRING", {"a": "<x>&amp;"}),
        ("<a>1<!-- <r> one --></a>", "a INT", {"a": 1}),
        ("<a>&lt;&#233;&#x1F600;</a>", "a STRING", {"a": "<é😀"}),
        ("<?skip this?><a>1</a>", "a INT", {"a": 1}),
        ("<n:a>1</n:a>", "`n:a` INT", {"n:a": 1}),
        ("<r><a>1</a></r>", "r STRUCT<a: INT>", {"r": {"a": 1}}),
    ],
)
def test_elements_are_read_as_columns(write, inner, columns, made):
    (row,) = rows_of(write(f"<all><r>{inner}</r></all>"), columns)

    assert row == {**made, "_rescued_data": None}


def test_attributes_of_a_row_are_read_as_columns(write):
    assert rows_of(write('<r id="5"><a>1</a></r>'), "_id INT, a INT", rescued_column=None) == [{"_id": 5, "a": 1}]


@pytest.mark.parametrize(
    ("options", "columns", "made"),
    [
        ({"attributePrefix": "@"}, "`@id` STRING", {"@id": "5"}),
        ({"attributePrefix": ""}, "id STRING", {"id": "5"}),
        ({"excludeAttribute": "true"}, "_id STRING, a STRING", {"_id": None, "a": "x"}),
        ({"ignoreSurroundingSpaces": "false"}, "_id STRING, a STRING", {"_id": " 5 ", "a": " x "}),
        ({"nullValue": "x"}, "a STRING", {"a": None}),
        ({"valueTag": "text"}, "b STRUCT<_k: STRING, text: STRING>", {"b": {"_k": "1", "text": "y"}}),
        ({"ignoreNamespace": "true"}, "c STRING", {"c": "z"}),
    ],
)
def test_options_control_names_and_values(write, options, columns, made):
    split = write('<r id=" 5 "><a> x </a><b k="1">y</b><n:c>z</n:c></r>')

    assert rows_of(split, columns, options, rescued_column=None) == [made]


def test_unknown_and_mismatched_elements_are_rescued_as_json(write):
    (row,) = rows_of(write('<r><a>x</a><b k="1">y<c/></b><d>1</d><d>2</d></r>'), "a INT")

    assert row["a"] is None
    assert rescued(row) == {"a": "x", "b": {"_k": "1", "_VALUE": "y", "c": ""}, "d": ["1", "2"]}


def test_the_last_repeated_element_is_read_and_the_others_are_rescued(write):
    (row,) = rows_of(write("<r><a>1</a><a>2</a></r>"), "a INT")

    assert (row["a"], rescued(row)) == (2, {"a": "1"})


def test_an_array_with_a_type_mismatch_is_rescued_whole(write):
    (row,) = rows_of(write("<r><a>1</a><a>x</a></r>"), "a ARRAY<INT>")

    assert (row["a"], rescued(row)) == ([1, None], {"a": ["1", "x"]})


@pytest.mark.parametrize(
    "broken",
    [
        "<r><a>1</b></r>",
        "<r a='1' a='2'></r>",
        '<r a="x><a>1</a></r>',
        "<r><a>&other;</a></r>",
        "<r><a>1 < 2</a></r>",
        "<r>" + "<a>" * 500 + "</a>" * 500 + "</r>",
    ],
)
def test_a_malformed_row_does_not_affect_other_rows(write, broken):
    first, second, third = rows_of(write(f"<all><r><a>1</a></r>{broken}<r><a>3</a></r></all>"), "a STRING")

    assert (first["a"], second["a"], third["a"]) == ("1", None, "3")
    assert rescued(second) == {"_corrupt_record": broken}


def test_an_unterminated_row_extends_to_the_end_of_the_file(write):
    first, second = rows_of(write("<r><a>1</a></r><r><a>2</a></all>"), "a STRING")

    assert (first["a"], rescued(second)) == ("1", {"_corrupt_record": "<r><a>2</a></all>"})


def test_modes_keep_or_drop_a_malformed_row_or_fail(write):
    split = write("<r><a>1</a></r><r><a></r>")

    assert len(rows_of(split, "a INT", mode="DROPMALFORMED")) == 1
    with pytest.raises(MalformedRecord):
        rows_of(split, "a INT", mode="FAILFAST")
    corrupt = rows_of(split, "a INT, _c STRING", rescued_column=None, corrupt_column="_c")
    assert corrupt == [{"a": 1, "_c": None}, {"a": None, "_c": "<r><a></r>"}]


def test_document_type_entities_are_ignored_and_no_file_is_opened(write, tmp_path):
    (tmp_path / "secret").write_text("what is in it")
    bomb = f'<!DOCTYPE all [<!ENTITY a "<r>no row</r>"><!ENTITY b SYSTEM "{tmp_path / "secret"}">]>'

    rows = rows_of(write(f"{bomb}<all><r><a>&a;</a></r><r><a>&b;</a></r><r>{bomb}<a>&b;</a></r></all>"), "a STRING")

    assert [row["a"] for row in rows] == [None, None, None]
    assert not any("what is in it" in str(row) for row in rows)
    assert not any("no row" in str(row) for row in rows[:2])


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("BIGINT", " 5 ", 5),
        ("BOOLEAN", "\n1\n", True),
        ("DATE", " 2024-01-02 ", date(2024, 1, 2)),
        ("STRING", " x ", " x "),
    ],
)
def test_surrounding_spaces_are_kept_only_in_string_values(write, kind, text, value):
    split = write(f"<r><a>{text}</a></r>")

    assert rows_of(split, f"a {kind}", {"ignoreSurroundingSpaces": "false"}) == [{"a": value, "_rescued_data": None}]


def test_earlier_values_of_a_repeated_key_or_field_are_rescued_once(write):
    split = write("<r><m><k>1</k><k>2</k><j>3</j></m><n><k>x</k><k>2</k></n><i>x</i><i>y</i><i>7</i></r>")

    (row,) = rows_of(split, "m MAP<STRING, STRING>, n MAP<STRING, INT>, i INT")

    assert (row["m"], row["n"], row["i"]) == ([("k", "2"), ("j", "3")], [("k", 2)], 7)
    assert rescued(row) == {"m": {"k": "1"}, "n": {"k": "x"}, "i": ["x", "y"]}


def test_unknown_fields_stop_an_evolving_stream(write):
    with pytest.raises(UnknownFields) as raised:
        rows_of(write('<r k="1"><a><b>1</b><c>2</c></a><d/></r>'), "a STRUCT<b: INT>", evolves=True)

    assert raised.value.names == ("_k", "a.c", "d")


@pytest.mark.parametrize("name", ["a.xml", "a.xml.gz"])
def test_compressed_files_and_other_encodings_are_read(write, name):
    text = "<r><a>é</a></r>".encode("latin-1")
    split = write(gzip.compress(text) if name.endswith("gz") else text, name)

    assert rows_of(split, "a STRING", {"encoding": "ISO-8859-1"}, rescued_column=None) == [{"a": "é"}]


def test_all_columns_are_strings_without_type_inference(write):
    split = write('<r k="1"><a>1</a><b><c>2024-01-01</c><c>x</c></b><d/></r>')

    assert columns_of(split) == "_k string, a string, b struct<c:array<string>>, d string"


@pytest.mark.parametrize(
    ("inner", "options", "columns"),
    [
        ("<a>1</a>", {}, "a bigint"),
        ("<a>1.5</a>", {}, "a double"),
        ("<a>1.5</a>", {"prefersDecimal": "true"}, "a decimal(2,1)"),
        ("<a>9223372036854775808</a>", {}, "a double"),
        ("<a>true</a>", {}, "a boolean"),
        ("<a>2024-01-02</a>", {}, "a date"),
        ("<a>2024-01-02</a>", {"preferDate": "false"}, "a timestamp"),
        ("<a>02/01/2024</a>", {"dateFormat": "dd/MM/yyyy"}, "a date"),
        ("<a>2024-01-02T03:04:05Z</a>", {}, "a timestamp"),
        ("<a>1</a><a>1.5</a>", {}, "a array<double>"),
        ('<a k="1">x</a>', {}, "a struct<_VALUE:string,_k:bigint>"),
        ("<a>x<b>1</b>y</a>", {}, "a struct<_VALUE:array<string>,b:bigint>"),
        ("<a>1</a></r><r><a>2</a><a>3</a>", {}, "a array<bigint>"),
        ('<a>1</a></r><r><a k="x"/>', {}, "a struct<_VALUE:bigint,_k:string>"),
        ("<a/></r><r><a><b>1</b></a>", {}, "a struct<b:bigint>"),
        ("<a>1</a></r><r><b></r><r><c>2</c>", {}, "a bigint, c bigint"),
    ],
)
def test_inferred_types_fit_all_rows(write, inner, options, columns):
    assert columns_of(write(f"<all><r>{inner}</r></all>"), **TYPED, **options) == columns


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "name of the row element"),
        ({"rowTag": "<r>"}, "without brackets"),
        ({"rowTag": "r", "valueTag": "_"}, "differs from attributePrefix"),
        ({"rowTag": "r", "rowValidationXSDPath": "a.xsd"}, "XSD"),
    ],
)
def test_invalid_or_unsupported_options_are_refused(options, says):
    with pytest.raises(Problems) as raised:
        loader_options({"cloudFiles.format": "xml", **options})

    assert says in next(iter(raised.value)).params["reason"]


PIECES = st.sampled_from(
    [
        "<r>",
        "</r>",
        "<r/>",
        "<r k='<'>",
        '<r k=">">',
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "x",
        "<",
        ">",
        "<ro>",
        '"',
        "'",
    ]
)


@given(st.lists(PIECES, max_size=25), st.integers(min_value=1, max_value=7))
@settings(max_examples=300)
def test_rows_do_not_depend_on_how_the_text_is_split(pieces, step):
    text = "".join(pieces)
    cut = [text[begin : begin + step] for begin in range(0, len(text), step)]

    assert list(rows_between(cut, "r")) == list(rows_between([text], "r"))
