"""Queries that are answered without a JVM return what Spark returns, or are left to Spark."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from headrace.model.names import QualifiedName
from headrace.project.inspection.plain_query import plain_query_rows

pytestmark = pytest.mark.spark

# Of each type values on which readers may differ; the number of values is the number of rows.
VALUES = {
    "id": ("bigint", "1", "-9223372036854775808L", "9223372036854775807L", "NULL", "2", "2"),
    "small": ("tinyint", "1Y", "-128Y", "127Y", "NULL", "0Y", "2Y"),
    "text": ("string", "''", "'a'", "'A '", "'é\\u10ffff'", "concat(repeat('a', 40), 'b')", "NULL"),
    "Day": ("date", "date'2026-01-01'", "date'9999-12-31'", "date'1969-12-31'", "NULL", "date'1900-01-02'", "NULL"),
    "at": (
        "timestamp",
        *("timestamp'2026-03-29 02:30:00.000001'", "timestamp'9999-12-30 23:59:59.999999'"),
        *("timestamp'1969-12-31 23:59:59.5'", "NULL", "timestamp'2300-01-01 00:00:00'", "NULL"),
    ),
    "ok": ("boolean", "true", "false", "NULL", "true", "false", "NULL"),
    "d": ("double", "double('NaN')", "-0.0D", "double('-Infinity')", "1e-300D", "NULL", "0.1D"),
    "f": ("float", "float('NaN')", "0.1F", "-3.4e38F", "NULL", "-0.0F", "1F"),
    "money": ("decimal(38,18)", "1BD", "-0.000000000000000001BD", "12345678901234567890.5BD", "NULL", "0BD", "2BD"),
    "raw": ("binary", "X'00FF'", "X''", "NULL", "X'61'", "NULL", "X'61'"),
    "a`b.c": ("string", "'x'", "NULL", "'y'", "'z'", "''", "'x'"),
}
# Columns that are left to Spark.
OTHER = {"nested": "struct(1 AS a)", "padded": "CAST('x' AS CHAR(3))", "old": "date'1200-01-01'"}
SHAPES = {
    "plain": "TBLPROPERTIES (delta.enableDeletionVectors = false)",
    "marked": "TBLPROPERTIES (delta.enableDeletionVectors = true)",
    "mapped": "TBLPROPERTIES (delta.columnMapping.mode = 'name')",
    "parts": "PARTITIONED BY (text)",
}
NAMES = (*VALUES, *OTHER, "nosuch", "ID", "day", "current_date")
LITERALS = ("1", "-128", "300", "0", "99999999999999999", "''", "'a'", "'A '", "'2026-01-01'", "'1'", "true", "NULL")
COMPARISONS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "IS")


@pytest.fixture(scope="module")
def pipeline(headrace_session, shared_project):
    """A pipeline whose storage has a table of each shape."""
    made = shared_project("from pathlib import Path")
    settings = made.project.settings
    columns = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, (kind, *_) in VALUES.items())
    others = "nested struct<a: int>, padded char(3), old date"
    for shape, more in SHAPES.items():
        path = settings.layout.table(settings.naming, QualifiedName(shape))
        headrace_session.sql(f"CREATE TABLE delta.`{path}` ({columns}, {others}) USING delta {more}")
        rows = [
            f"SELECT {', '.join((*(values[number] for _, *values in VALUES.values()), *OTHER.values()))}"
            for number in range(6)
        ]
        headrace_session.sql(f"INSERT INTO delta.`{path}` {' UNION ALL '.join(rows)}")
        headrace_session.sql(f"INSERT INTO delta.`{path}` {rows[1]}")
        headrace_session.sql(f"DELETE FROM delta.`{path}` WHERE id = 2 AND f = 1")
    return made


def quoted(name):
    return name if name.isidentifier() else f"`{name.replace('`', '``')}`"


columns = st.sampled_from(NAMES).map(quoted)
comparisons = st.tuples(columns, st.sampled_from(COMPARISONS), st.sampled_from(LITERALS)).map(" ".join)
conditions = st.lists(comparisons, max_size=2).map(lambda found: " WHERE " + " AND ".join(found) if found else "")
outputs = st.one_of(
    st.just("*"),
    st.lists(columns, min_size=1, max_size=3).map(", ".join),
    st.sampled_from(("count(*)", "count(1) AS n", "id AS x, id")),
)
limits = st.sampled_from(("", "", " LIMIT 0", " LIMIT 2", " LIMIT 100"))
tables = st.sampled_from((*SHAPES, "plain", "marked", "PLAIN", "`default`.plain"))
queries = st.builds("SELECT {} FROM {}{}{}".format, outputs, tables, conditions, limits)
# What a typing error makes of a query may be another query to one parser, and none to the other.
mangled = st.builds(
    lambda query, place, word: " ".join([*query.split()[:place], *word, *query.split()[place:]]),
    queries,
    st.integers(0, 12),
    st.lists(st.sampled_from((",", "AND", "NOT", "a", "*", "ALL", "IS", "NULL", "(", "LIMIT", "1", "BY")), max_size=1),
)


def same(value):
    """A value with its type; NaN equals itself, and the two zeros differ."""
    return type(value).__name__, repr(value)


@given(query=st.one_of(queries, mangled), limit=st.sampled_from((None, None, 0, 3)))
@settings(max_examples=examples(25, 150), deadline=None)
def test_it_returns_what_spark_returns(pipeline, query, limit):
    rows = plain_query_rows(query, pipeline.project.settings, {}, (), private=False, limit=limit)

    if rows is not None:
        everything = pipeline.project.sql(query.partition(" LIMIT")[0])
        spark = pipeline.project.sql(query, limit=limit)
        assert (rows.columns, len(rows.rows)) == (spark.columns, len(spark.rows))
        found, expected = (Counter(tuple(map(same, row)) for row in one.rows) for one in (rows, everything))
        # Which rows LIMIT leaves is not defined.
        assert found <= expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, small, text, at, ok, d, f, money, raw FROM {} WHERE id = 2",
        "SELECT `a``b.c`, day FROM {} WHERE day >= '1900-01-01' AND text <> 'a' LIMIT 3",
        "SELECT count(*) FROM {} WHERE text IS NULL AND ok = true",
    ],
)
def test_common_queries_start_no_jvm(pipeline, query):
    settings = pipeline.project.settings

    for shape in ("plain", "marked"):
        assert plain_query_rows(query.format(shape), settings, {}, (), private=False, limit=None) is not None
