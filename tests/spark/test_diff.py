"""Versions of a table are compared by their schemas and their rows; only files that they do not share are read."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from headrace.errors import PipelineError
from headrace.model.table_diff import DiffRequest

pytestmark = pytest.mark.spark

TYPES = {
    "i": "INT",
    "d": "DECIMAL(10,2)",
    "f": "DOUBLE",
    "s": "STRUCT<a: INT, b: STRING>",
    "m": "MAP<STRING, ARRAY<DOUBLE>>",
    "v": "VARIANT",
    "b": "BINARY",
    "n": "TIMESTAMP_NTZ",
    "t": "TIMESTAMP",
    "c": "CHAR(3)",
    "`a.b ``c' d`": "ARRAY<MAP<INT, STRING>>",
}
SAME = """
    (1, 1, 1.00, double('NaN'), NULL, map('x', array(1D), 'y', array(double('NaN'), 0D)), parse_json('{"a": 1, "b": [2]}'),
     X'00FF', TIMESTAMP_NTZ '2024-01-01 10:00:00.5', TIMESTAMP '9999-12-31 23:59:59Z', 'a', array(map(1, 'x', 2, NULL)))"""
REWRITTEN = """
    (1, 1, 1.00, double('NaN'), NULL, map('y', array(double('NaN'), -0D), 'x', array(1D)), parse_json('{"b":[2],"a":1}'),
     X'00FF', TIMESTAMP_NTZ '2024-01-01 10:00:00.5', TIMESTAMP '9999-12-31 23:59:59Z', 'a', array(map(2, NULL, 1, 'x')))"""
OTHER = """
    (1, NULL, 2.00, -0D, struct(NULL, NULL), map('x', array(1D), 'y', NULL), parse_json('{"a": 1, "b": [3]}'),
     X'00FE', TIMESTAMP_NTZ '2024-01-01 10:00:00.25', TIMESTAMP '0001-01-01 00:00:00Z', 'b', array(map(1, 'x')))"""


class Tables:
    """A project whose tables a test writes by SQL."""

    def __init__(self, pipeline, session):
        self.pipeline = pipeline
        self.session = session

    def path(self, name="orders"):
        return f"{self.pipeline.settings.layout.root}/tables/default/{name}"

    def sql(self, text, name="orders"):
        return self.session.sql(text.replace("$T", f"delta.`{self.path(name)}`"))

    def diff(self, *versions, key=(), name="orders", **more):
        return self.pipeline.project.diffs.compare(DiffRequest(name, versions, tuple(key), **more))


@pytest.fixture
def tables(project, headrace_session):
    return Tables(project("@dp.table\ndef orders():\n    raise SystemExit\n"), headrace_session)


def counts(diff):
    rows = diff.rows
    return rows.unchanged, rows.changed, rows.only_first, rows.only_second


def test_values_of_every_type_are_compared_and_shown(tables):
    columns = ", ".join(f"{name} {kind}" for name, kind in {"id": "INT", **TYPES}.items())
    properties = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
    tables.sql(f"CREATE TABLE $T ({columns}) USING delta {properties}")
    for rows in (SAME, REWRITTEN, OTHER):
        tables.sql(f"INSERT OVERWRITE $T VALUES {rows}")

    same, other = tables.diff(1, 2, key=["id"]), tables.diff(2, 3, key=["id"])

    assert (same.is_equal, counts(same)) == (True, (1, 0, 0, 0))
    assert counts(other) == (0, 1, 0, 0)
    assert json.loads(json.dumps(other.to_json()))["examples"][0] == {}
