"""Schemas of two versions are compared, and which columns and types their rows have in common."""

from __future__ import annotations

import json

import pytest

from headrace.model.comparable_types import TEXT, Array, Atomic, Map, Struct, common_type, compared_columns
from headrace.model.field_pairs import has_same_storage, without_ids
from headrace.model.schema_difference import schema_differences
from headrace.model.table_diff import Example, ExampleKind, shared_examples

CHAR = "__CHAR_VARCHAR_TYPE_STRING"


def field(name, kind="integer", *, nullable=True, number=None, stored=None, char=None):
    metadata = {} if number is None else {"delta.columnMapping.id": number}
    metadata |= {} if stored is None else {"delta.columnMapping.physicalName": stored}
    metadata |= {} if char is None else {CHAR: char}
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def array(element):
    return {"type": "array", "elementType": element, "containsNull": True}


FIRST = [
    field("id", nullable=False),
    field("gone", "string"),
    field("Old", number=7),
    field("c", "string", char="char(3)"),
    field("s", struct(field("a"), field("odd. name", array(struct(field("x")))))),
    field("m", {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True}),
]
SECOND = [
    field("id", "long"),
    field("new name", number=7),
    field("C", "string", char="varchar(9)"),
    field("s", struct(field("b"), field("odd. name", array(struct(field("x", "string")))))),
    field("m", array("string")),
]


def test_each_difference_of_two_schemas_is_named():
    assert [line.describe() for line in schema_differences(FIRST, SECOND)] == [
        "- gone string",
        "~ id not null -> null allowed",
        "~ id int -> bigint",
        "~ `new name` was Old",
        "~ C was c",
        "~ C char(3) -> varchar(9)",
        "- s.a int",
        "+ s.b int",
        "~ s.`odd. name`.element.x int -> string",
        "~ m map<string,int> -> array<string>",
    ]
    assert schema_differences(SECOND, SECOND) == ()


def test_columns_of_two_tables_are_not_matched_by_their_ids():
    names = [column.names for column in compared_columns(without_ids(FIRST), without_ids(SECOND))]

    assert names == [("id", "id"), ("c", "C"), ("s", "s"), ("m", "m")]


@pytest.mark.parametrize(
    ("first", "second", "common"),
    [
        ("integer", "long", "long"),
        ("decimal(10,2)", "decimal(12,4)", "decimal(12,4)"),
        ("decimal(10,0)", "decimal(5,4)", "decimal(14,4)"),
        ("long", "decimal(5,2)", "decimal(21,2)"),
        ("decimal(38,0)", "decimal(38,10)", TEXT),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("float", "double", "double"),
        ("long", "double", TEXT),
        ("void", "variant", "variant"),
        ("string", "integer", TEXT),
        (struct(field("a")), "string", TEXT),
    ],
)
def test_values_of_two_types_are_compared_as_the_wider_one_or_as_text(first, second, common):
    assert common_type(first, second) == common_type(second, first) == Atomic(common)


def test_nested_values_are_compared_by_what_both_types_have():
    columns = {column.name: column.type for column in compared_columns(FIRST, SECOND)}

    assert columns["s"] == Struct(
        ((("odd. name", "odd. name"), Array(Struct(((("x", "x"), Atomic(TEXT)),)))),),
    )
    of_map = FIRST[-1]["type"]
    assert common_type(of_map, of_map) == Map(Atomic("string"), Atomic("integer"))


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ([field("a", stored="col-1")], [field("A", stored="col-1"), field("b", stored="col-2")], True),
        ([field("a", stored="col-1")], [field("a", stored="col-2")], False),
        ([field("a", struct(field("x")))], [field("a", struct(field("x", stored="col-2")))], False),
        ([field("a", array(struct(field("x", stored="x"))))], [field("a", array(struct(field("x"))))], True),
        ([field("a", stored="1"), field("b", stored="2")], [field("a", stored="2"), field("b", stored="1")], False),
    ],
)
def test_files_have_the_same_values_if_they_store_the_columns_under_the_same_names(first, second, same):
    assert has_same_storage(first, second) is same


def test_kinds_of_differences_share_the_examples():
    kinds = [ExampleKind.CHANGED] * 5 + [ExampleKind.ONLY_FIRST] + [ExampleKind.ONLY_SECOND] * 3
    found = [Example(kind, {"n": number}) for number, kind in enumerate(kinds)]

    assert [example.key["n"] for example in shared_examples(found, 6)] == [0, 1, 2, 5, 6, 7]
    assert shared_examples(found, 0) == ()
    assert shared_examples(found, 20) == tuple(found)
    assert json.dumps([example.to_json() for example in found])
