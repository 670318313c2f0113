"""Types in DDL, hints, what is inferred from JSON, how a schema grows, and where its versions lie."""

from __future__ import annotations

import json

import pytest

from headrace.autoloader.schemas.apply_hints import HintMismatch, with_hints
from headrace.autoloader.schemas.inference import add_new_fields, finalize_struct, json_struct
from headrace.autoloader.schemas.schema_store import SchemaStore
from headrace.errors import PipelineError
from headrace.model.ddl import InvalidDdl, parse_named_types, parse_struct
from headrace.model.schema import type_text


def text_of(struct):
    return ", ".join(f"{field['name']} {type_text(field['type'])}" for field in struct["fields"])


def hinted(columns, hints):
    return text_of(with_hints(parse_struct(columns), parse_named_types(hints)))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("a INT, b BIGINT", "a int, b bigint"),
        ("a STRUCT<x: INT, y: ARRAY<STRING>>", "a struct<x:int,y:array<string>>"),
        ("a struct<x int not null comment 'it''s'>", None),
        (
            "a struct<x int not null comment 'so'>, b map<string,decimal(18, 2)>",
            "a struct<x:int>, b map<string,decimal(18,2)>",
        ),
        ("`a b` DECIMAL, c VARCHAR(10), d TIMESTAMP_NTZ", "a b decimal(10,0), c string, d timestamp_ntz"),
        ("STRUCT<a: INT>", "a int"),
        ("`a.b` DATE NOT NULL COMMENT 'x'", "a.b date"),
    ],
)
def test_ddl_is_parsed_as_in_spark(written, read):
    if read is None:
        with pytest.raises(InvalidDdl):
            parse_struct(written)
    else:
        assert text_of(parse_struct(written)) == read


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("a", "expected a type at the end"),
        ("a INTT", "expected a type but found 'INTT' at position 3"),
        ("a ARRAY<INT", 'expected ">" at the end'),
        ("a INT b INT", "expected \",\" but found 'b'"),
        ("a INT; drop", "';' at position 6 is not part of a type"),
        ("a DECIMAL(50, 2)", "decimal(50,2) needs 1 to 38 digits"),
        ("a.b INT", "a.b has a dot"),
    ],
)
def test_invalid_ddl_is_refused_with_the_reason(written, says):
    with pytest.raises(InvalidDdl) as raised:
        parse_struct(written)

    assert says in str(raised.value)


def test_hints_set_types_at_any_depth_and_add_missing_columns():
    columns = (
        "date STRING, quantity INT, user_info STRUCT<id: STRING, name: STRING, dob: STRING>,"
        " purchase_options STRUCT<delivery_address: STRING>"
    )
    hints = "date DATE, user_info.dob DATE, purchase_options MAP<STRING,STRING>, time TIMESTAMP"

    assert hinted(columns, hints) == (
        "date date, quantity int, user_info struct<id:string,name:string,dob:date>,"
        " purchase_options map<string,string>, time timestamp"
    )


def test_hints_apply_inside_arrays_and_maps():
    columns = (
        "products ARRAY<STRING>, locations ARRAY<INT>, users ARRAY<STRUCT<id: STRING>>, names MAP<STRING,STRING>,"
        " prices MAP<STRING,STRING>, discounts MAP<STRUCT<id: STRING>,STRING>,"
        " descriptions MAP<STRING,STRUCT<content: INT>>"
    )
    hints = (
        "products ARRAY<INT>, locations.element STRING, users.element.id INT, ids MAP<STRING,INT>, names.key INT,"
        " prices.value INT, discounts.key.id INT, descriptions.value.content STRING"
    )

    assert hinted(columns, hints) == (
        "products array<int>, locations array<string>, users array<struct<id:int>>, names map<int,string>,"
        " prices map<string,int>, discounts map<struct<id:int>,string>,"
        " descriptions map<string,struct<content:string>>, ids map<string,int>"
    )


def test_a_hint_sets_the_case_of_a_column_name():
    assert hinted("ABC STRING", "abc INT") == "abc int"


def test_a_hint_for_a_field_inside_a_number_is_refused():
    with pytest.raises(HintMismatch, match="a is of type integer"):
        hinted("a INT", "a.b INT")


@pytest.mark.parametrize(
    ("lines", "typed", "untyped"),
    [
        (['{"b":1,"a":"x"}'], "a string, b bigint", "a string, b string"),
        (['{"a":1}', '{"a":2.5}'], "a double", "a string"),
        (['{"a":1}', '{"a":"x"}'], "a string", "a string"),
        (['{"a":{"y":1,"x":true}}', '{"a":{"z":null}}'], "a struct<x:boolean,y:bigint,z:string>", None),
        (['{"a":[1,2]}', '{"a":[]}'], "a array<bigint>", "a array<string>"),
        (['{"a":[{"b":1}]}', '{"a":[{"c":"x"}]}'], "a array<struct<b:bigint,c:string>>", None),
        (['{"a":{},"b":1}'], "b bigint", "b string"),
        (['{"a":1}', '{"A":2}'], "a bigint", "a string"),
        (['{"a":12345678901234567890}'], "a decimal(20,0)", "a string"),
        (['{"a":"2024-01-01T00:00:00"}'], "a string", "a string"),
        (["{'a':1}", "{broken"], "a bigint", "a string"),
        (['[{"a":1},{"b":2}]'], "a bigint, b bigint", "a string, b string"),
    ],
)
def test_json_types_are_inferred_as_in_spark(lines, typed, untyped):
    struct = json_struct(["\n".join(lines).encode()], {})

    assert text_of(finalize_struct(struct, typed=True)) == typed
    if untyped is not None:
        assert text_of(finalize_struct(struct, typed=False)) == untyped


def test_schema_evolution_appends_columns_and_nested_fields_and_keeps_types():
    schema = parse_struct("b INT, s STRUCT<x: INT>, l ARRAY<STRUCT<x: INT>>")
    seen = parse_struct("a STRING, b STRING, s STRUCT<w: INT, x: STRING>, l ARRAY<STRUCT<y: INT>>")

    assert text_of(add_new_fields(schema, seen)) == (
        "b int, s struct<x:int,w:int>, l array<struct<x:int,y:int>>, a string"
    )


def test_an_element_repeated_in_only_some_files_gains_new_fields():
    schema = parse_struct("many ARRAY<STRUCT<a: INT>>, one STRUCT<a: INT, s: STRUCT<x: INT>>")
    seen = parse_struct("many STRUCT<b: INT>, one ARRAY<STRUCT<b: INT, s: ARRAY<STRUCT<y: INT>>>>")

    grown = "many array<struct<a:int,b:int>>, one struct<a:int,s:struct<x:int,y:int>,b:int>"
    assert text_of(add_new_fields(schema, seen, repeated=True)) == grown
    assert add_new_fields(schema, seen) == schema


def test_schema_versions_are_numbered_files_with_a_header(tmp_path):
    store = SchemaStore(tmp_path)

    assert store.latest() is None
    assert store.add(parse_struct("a INT"), 0)
    header, body = (tmp_path / "_schemas" / "0").read_text().split("\n")
    assert header == "v1"
    assert json.loads(body)["fields"][0]["name"] == "a"


def test_only_one_of_two_writers_creates_a_schema_version(tmp_path):
    first, second = SchemaStore(tmp_path), SchemaStore(tmp_path)

    assert first.add(parse_struct("a INT"), 0)
    assert not second.add(parse_struct("b INT"), 0)
    assert text_of(second.read(0).schema) == "a int"
    assert [file.name for file in (tmp_path / "_schemas").iterdir()] == ["0"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["-9223372036854775808", "9223372036854775807"], "bigint"),
        (["9223372036854775808"], "decimal(19,0)"),
        (["1", "123456789012345678901234567890"], "decimal(30,0)"),
        (["1.5", "9223372036854775808"], "double"),
        (["1" * 39], "double"),
        (["9223372036854775808", '"x"'], "string"),
    ],
)
def test_large_json_integers_are_inferred_as_decimals_up_to_38_digits(values, kind):
    (field,) = json_struct(["\n".join(f'{{"a":{value}}}' for value in values).encode()], {})["fields"]

    assert type_text(field["type"]) == kind


def test_a_schema_version_in_the_databricks_format_is_read(tmp_path):
    parts = {
        "dataSchemaJson": json.dumps(parse_struct("a INT")),
        "partitionSchemaJson": json.dumps(parse_struct("p STRING")),
    }
    (tmp_path / "_schemas").mkdir()
    (tmp_path / "_schemas" / "3").write_text(f"v1\n{json.dumps(parts)}")

    latest = SchemaStore(tmp_path).latest()

    assert (latest.number, text_of(latest.schema)) == (3, "a int, p string")


def test_a_damaged_schema_version_raises_an_error(tmp_path):
    (tmp_path / "_schemas").mkdir()
    (tmp_path / "_schemas" / "0").write_text("v2\n{}")

    with pytest.raises(PipelineError) as raised:
        SchemaStore(tmp_path).latest()

    assert raised.value.code == "AUTO_LOADER.SCHEMA_UNREADABLE"
