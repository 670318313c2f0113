"""What has to change in a table so that it takes the rows of a query."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.schema import Column, Schema
from headrace.model.type_changes import schema_change, widens

ATOMS = [
    *("byte", "short", "integer", "long", "float", "double", "string", "date", "timestamp", "timestamp_ntz"),
    *("decimal(10,0)", "decimal(12,2)", "decimal(20,0)", "decimal(20,5)"),
]
NAMES = st.sampled_from(["a", "B", "c", "d"])


def struct(*fields):
    return {
        "type": "struct",
        "fields": [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in fields],
    }


def array(element):
    return {"type": "array", "elementType": element, "containsNull": True}


def mapping(key, value):
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def schema(*columns, nullable=True):
    return Schema(tuple(Column(name, json.dumps(type_, sort_keys=True), nullable) for name, type_ in columns))


def said(fields):
    return [(str(field), field.before, field.after) for field in fields]


def unique(fields):
    return list({name.casefold(): (name, type_) for name, type_ in fields}.values())


types = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.lists(st.tuples(NAMES, inner), min_size=1, max_size=3).map(lambda fields: struct(*unique(fields))),
        inner.map(array),
        inner.map(lambda value: mapping("string", value)),
    ),
    max_leaves=6,
)
schemas = st.lists(st.tuples(NAMES, types), min_size=1, max_size=4).map(lambda columns: schema(*unique(columns)))


def test_new_columns_and_nested_fields_are_added():
    table = schema(("s", struct(("a", "integer"))), ("l", array(struct(("x", "string")))))
    query = schema(
        ("S", struct(("b", "string"), ("A", "integer"))),
        ("l", array(struct(("y", "date"), ("x", "string")))),
        ("m", mapping("string", "long")),
    )

    change = schema_change(table, query)

    assert said(change.added) == [
        ("s.b", "", "string"),
        ("l.element.y", "", "date"),
        ("m", "", "map<string,bigint>"),
    ]
    assert str(change.result) == ("s struct<a:int,b:string>, l array<struct<x:string,y:date>>, m map<string,bigint>")


def test_wider_types_are_adopted_and_narrower_types_are_ignored():
    table = schema(
        ("i", "integer"), ("l", "long"), ("s", struct(("f", "float"), ("n", "integer"))), ("k", array("date"))
    )
    query = schema(
        ("i", "long"), ("l", "short"), ("s", struct(("f", "double"), ("n", "void"))), ("k", array("timestamp_ntz"))
    )

    change = schema_change(table, query)

    assert said(change.widened) == [
        ("i", "int", "bigint"),
        ("s.f", "float", "double"),
        ("k.element", "date", "timestamp_ntz"),
    ]
    assert str(change.result) == "i bigint, l bigint, s struct<f:double,n:int>, k array<timestamp_ntz>"
    assert not change.refused


@pytest.mark.parametrize(
    ("table", "query", "refused"),
    [
        (schema(("a", "integer")), schema(("a", "string")), [("a", "int", "string")]),
        (schema(("a", "integer")), schema(("a", array("integer"))), [("a", "int", "array<int>")]),
        (schema(("a", struct(("b", "date")))), schema(("a", struct(("b", "string")))), [("a.b", "date", "string")]),
        (
            schema(("m", mapping(struct(("a", "integer")), "long"))),
            schema(("m", mapping(struct(("a", "integer"), ("b", "integer")), "long"))),
            [("m.key.b", "", "int")],
        ),
        (schema(("a", "long"), nullable=False), schema(("b", "long")), [("a", "bigint not null", "")]),
        (schema(("a", "long")), schema(("a", "long"), nullable=False), [("a", "bigint", "bigint not null")]),
    ],
)
def test_incompatible_schema_changes_are_rejected(table, query, refused):
    assert said(schema_change(table, query).refused) == refused


def test_not_null_column_can_become_nullable():
    change = schema_change(schema(("a", "long"), nullable=False), schema(("a", "long")))

    assert (change.relaxed, change.refused) == (("a",), ())


@given(schemas, schemas)
def test_evolved_schema_accepts_rows_of_table_and_query(table, query):
    change = schema_change(table, query)
    if change.refused:
        return

    assert schema_change(change.result, query).is_empty
    assert schema_change(change.result, table).is_empty
    assert change.result.names[: len(table.columns)] == table.names
    assert (change.result == table) == change.is_empty


@given(*[st.sampled_from(ATOMS)] * 3)
def test_type_widening_is_antisymmetric_and_transitive(first, second, third):
    assert not (widens(first, second) and widens(second, first))
    if widens(first, second) and widens(second, third):
        assert widens(first, third)
