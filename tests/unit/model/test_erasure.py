"""Which rows an erasure means: values are compared as values of their column's type, never as SQL."""

from __future__ import annotations

import base64
import json
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.delta_log.erased_values import contains, without_texts
from headrace.model.erasure import (
    Criterion,
    InvalidCriterion,
    NotComparable,
    find_column,
    matches_text,
    parse_criterion,
    texts_in,
    typed_value,
)
from headrace.model.schema import Schema

DECIMAL = "decimal(5,2)"
ANN = "ann@x.example"


def in_base64(document):
    """A record as sources of messages have it in dead letters."""
    return base64.b64encode(json.dumps(document).encode()).decode()


@pytest.mark.parametrize(
    ("text", "column", "value"),
    [("id=42", ("id",), "42"), ("a.b= x=y ", ("a", "b"), " x=y "), ("`a.b`=", ("a.b",), "")],
)
def test_everything_after_the_first_equals_sign_is_the_value(text, column, value):
    assert parse_criterion(text) == Criterion(column, value)


@pytest.mark.parametrize("text", ["id", "=42", "a..b=1"])
def test_a_text_that_is_no_criterion_is_refused_without_repeating_it(text):
    with pytest.raises(InvalidCriterion) as refused:
        parse_criterion(text)

    assert not str(refused.value)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("42", "integer", 42),
        ("300", "byte", None),
        ("4.0", "long", None),
        ("1' OR '1'='1", "string", "1' OR '1'='1"),
        ("1.50", DECIMAL, Decimal("1.5")),
        ("1.505", DECIMAL, None),
        ("1000", DECIMAL, None),
        ("NaN", DECIMAL, None),
        ("True", "boolean", True),
        ("2026-02-30", "date", None),
        ("2026-02-28", "date", date(2026, 2, 28)),
    ],
)
def test_a_value_has_the_type_of_its_column_or_no_row_has_it(text, kind, value):
    assert typed_value(text, kind) == value


@pytest.mark.parametrize("kind", ["double", "timestamp", {"type": "array", "elementType": "string"}])
def test_types_without_exact_texts_are_not_compared(kind):
    with pytest.raises(NotComparable, match="is not compared"):
        typed_value("1", kind)


def test_columns_are_found_in_any_case_and_in_structs_but_not_in_arrays():
    inner = {"type": "struct", "fields": [{"name": "Id", "type": "integer", "nullable": True, "metadata": {}}]}
    fields = {"who": inner, "items": {"type": "array", "elementType": inner, "containsNull": True}}
    listed = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    schema = Schema.from_json(json.dumps({"type": "struct", "fields": listed}))

    assert find_column(schema, ("WHO", "id")) == (("who", "Id"), "integer")
    assert find_column(schema, ("id",)) is None
    with pytest.raises(NotComparable, match="items is array"):
        find_column(schema, ("items", "id"))


@pytest.mark.parametrize(
    ("record", "matches"),
    [
        ({"id": 42, "email": ANN}, True),
        ({"ID": "42", "email": ANN}, True),
        ({"value": json.dumps({"id": 42, "email": ANN})}, True),
        ({"after": [{"id": 42.0, "email": ANN}]}, True),
        ({"id": 42, "other": {"email": ANN}}, False),
        ({"id": 420, "email": ANN}, False),
        ({"id": True, "email": ANN}, False),
        ({"note": f"42 asked {ANN}", "email": "bob@x.example"}, False),
        ({"key": None, "value": in_base64({"id": 42, "email": ANN}), "topic": "t", "offset": 1}, True),
        ({"value": in_base64({"id": 7, "email": ANN}), "topic": "t", "offset": 1}, False),
    ],
)
def test_a_record_matches_if_one_object_in_it_meets_all_criteria(record, matches):
    criteria = (Criterion(("id",), "42"), Criterion(("email",), ANN))

    assert matches_text(json.dumps(record), criteria, contains) is matches


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"1,{ANN},Rome", True),
        (json.dumps({"value": f"1\n{ANN}"}), True),
        (json.dumps({"value": base64.b64encode(f"1,{ANN}".encode()).decode(), "topic": "t", "offset": 1}), True),
        (json.dumps({"value": json.dumps({"note": ANN})}), False),
        (json.dumps({"value": f"see {ANN}", "id": 1}), False),
        (f"Mail <{ANN}>.", True),
        (f"jo.{ANN}", False),
        (f"{ANN}.org", False),
    ],
)
def test_a_record_that_is_no_json_matches_if_it_contains_the_value_as_a_whole(text, found):
    assert matches_text(text, (Criterion(("email",), ANN),), contains) is found


def test_conditions_of_past_operations_may_write_a_value_as_its_column_does():
    fields = {"id": "integer", "price": DECIMAL, "paid": "boolean"}
    listed = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    schema = Schema.from_json(json.dumps({"type": "struct", "fields": listed}))
    criteria = [Criterion(("id",), "042"), Criterion(("price",), "1.50"), Criterion(("paid",), "TRUE")]

    assert texts_in(criteria, schema) == ("042", "42", "1.50", "1.5", "TRUE", "true", "True")


def test_short_values_are_not_searched_in_texts():
    assert not matches_text("42,ann", (Criterion(("id",), "42"),), contains)


@given(st.text(), st.text(min_size=4), st.text())
def test_a_cleaned_text_does_not_contain_the_value(before, value, after):
    text = f"{before} {value} {after}"

    assert "erased" in value or not contains(without_texts(text, [value]), [value])


def test_the_value_is_in_no_repr():
    assert "42" not in repr(Criterion(("id",), "42"))
