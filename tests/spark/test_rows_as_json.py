"""Rows to JSON texts, and back to the same rows."""

from __future__ import annotations

import pytest

from headrace.spark.deadletter.json_rows import as_json, from_json, whole_row

pytestmark = pytest.mark.spark

VALUES = {
    "numbers": "map(1, 'a', 2, NULL)",
    "times": "map(DATE'2026-01-01', TIMESTAMP'2026-01-01 12:00:00.123456')",
    "keys of several": "map(struct(1 AS a, 'x' AS b), array(map(2, 3)))",
    "in a struct": "named_struct('m', map(true, 1.5D), 'n', NULL)",
    "in an array": "array(map(1, 2), NULL, map())",
    "in a map of texts": "map('a', map(1L, 'b'), 'c', NULL)",
    "nothing": "CAST(NULL AS MAP<INT, INT>)",
    "texts": "map('a', 1)",
    "binary": "X'00FF'",
    "a decimal": "12345678901234567890.123456789BD",
    "a time without a zone": "TIMESTAMP_NTZ'2026-03-29 02:30:00.5'",
}


def test_rows_are_unchanged_after_conversion_to_json_and_back(headrace_session):
    rows = headrace_session.sql(
        f"SELECT 1 AS id, {', '.join(f'{value} AS `{kind}`' for kind, value in VALUES.items())}"
    )

    stored = rows.select(as_json(whole_row(rows)).alias("row"))
    again = from_json(stored, "row", rows.schema)

    assert again.first().asDict() == rows.first().asDict()
    assert again.schema.simpleString() == rows.schema.simpleString()
