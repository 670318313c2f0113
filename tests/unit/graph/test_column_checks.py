"""Columns that no table can have, or that other readers of Delta do not open, are told before anything runs."""

from __future__ import annotations

import json

import pytest

from headrace.graph.column_checks import column_problems
from headrace.graph.unavailable_sources import is_source_problem
from headrace.model.datasets import Dataset, Flow, Kind, PythonQuery
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.model.schema import Column, Schema

HERE = Location("a.py", 1)
UNMAPPED = {"delta.columnMapping.mode": "none"}


def struct(*fields):
    made = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields]
    return {"type": "struct", "fields": made}


def array(kind):
    return {"type": "array", "elementType": kind, "containsNull": True}


def nested(depth, around=lambda kind: struct(("t", kind))):
    kind = "string"
    for _ in range(depth):
        kind = around(kind)
    return kind


def found(kind, name="c", properties=None, target=Kind.STREAMING_TABLE):
    dataset = Dataset(QualifiedName("t"), target, HERE, properties=properties or {})
    flow = Flow("f", dataset.name, PythonQuery(lambda: None, Naming()), HERE)
    return column_problems(dataset, flow, Schema((Column(name, json.dumps(kind)),)))


@pytest.mark.parametrize(
    ("kind", "inside"),
    [
        ("void", "c"),
        (array("void"), "c.element"),
        (struct(("a", "long"), ("b", array(struct(("x", "void"))))), "c.b.element.x"),
        ({"type": "map", "keyType": "string", "valueType": "void", "valueContainsNull": True}, "c.value"),
    ],
)
def test_void_column_fails_the_project_and_the_error_names_its_path(kind, inside):
    (problem,) = found(kind)

    assert (problem.code, problem.params["inside"]) == ("DATASET.NO_TYPE", inside)
    assert not is_source_problem(problem)


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        (nested(40), []),
        (nested(41), ["DATASET.TOO_DEEP"]),
        (nested(121, array), []),
        (nested(122, array), ["DATASET.TOO_DEEP"]),
    ],
    ids=["40 structs", "41 structs", "121 arrays", "122 arrays"],
)
def test_too_deeply_nested_column_fails_only_its_flow(kind, codes):
    problems = found(kind)

    assert [problem.code for problem in problems] == codes
    assert all(map(is_source_problem, problems))


@pytest.mark.parametrize(
    ("name", "properties", "codes"),
    [
        ("a b", {}, []),
        ("a b", UNMAPPED, ["DATASET.UNMAPPED_NAME"]),
        ("größe/m²", UNMAPPED, []),
        ("a\0b", {}, ["DATASET.COLUMN_NAME"]),
        ("a\0b", UNMAPPED, ["DATASET.COLUMN_NAME"]),
    ],
)
def test_unsupported_column_name_fails_only_its_flow(name, properties, codes):
    problems = found("long", name, properties) + found(struct((name, "long")), properties=properties)

    assert [problem.code for problem in problems] == codes * 2
    assert all(map(is_source_problem, problems))


def test_temporary_view_accepts_void_columns():
    assert not found("void", target=Kind.TEMPORARY_VIEW)
