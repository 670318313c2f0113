"""Which queries can be answered without Spark, by their text."""

from __future__ import annotations

import pytest

from headrace.sql.plain_select import Comparison, Condition, Output, PlainSelect, plain_select

PLAIN = {
    "select * from t": PlainSelect("`t`", ()),
    "SELECT a, `b c` AS x FROM s.t WHERE a > -5 AND (b = 'x') LIMIT 3": PlainSelect(
        "`s`.`t`",
        (Output("a", "a"), Output("b c", "x")),
        (Condition("a", Comparison.GREATER, -5), Condition("b", Comparison.EQUAL, "x")),
        3,
    ),
    "SELECT count(*), count(1) AS n FROM t WHERE ok = true AND a IS NOT NULL": PlainSelect(
        "`t`",
        (Output(None, "count(1)"), Output(None, "n")),
        (Condition("ok", Comparison.EQUAL, literal=True), Condition("a", Comparison.IS_NOT_NULL)),
    ),
}
FOR_SPARK = (
    "SELECT a FROM t ORDER BY a",
    "SELECT DISTINCT a FROM t",
    "SELECT a FROM t x",
    "SELECT a x FROM t",
    "SELECT , a FROM t",
    "SELECT a, FROM t",
    "SELECT DISTINCT FROM t",
    "SELECT ALL a FROM t",
    "SELECT NULL FROM t",
    "SELECT a FROM t WHERE",
    "SELECT a FROM t WHERE (a = 1",
    "SELECT a FROM t WHERE a = 1 AND",
    "SELECT a FROM t WHERE a < > 1",
    "SELECT a FROM t LIMIT",
    "SELECT a FROM t LIMIT 1 LIMIT 2",
    "FROM t SELECT a",
    "SELECT t.a FROM t",
    "SELECT a.b FROM t",
    "SELECT a, * FROM t",
    "SELECT * EXCEPT (a) FROM t",
    "SELECT a, count(*) FROM t",
    "SELECT count(DISTINCT a) FROM t",
    "SELECT count(*) FILTER (WHERE a) FROM t",
    "SELECT count(*) OVER () FROM t",
    "SELECT current_date FROM t",
    "SELECT 1 FROM t",
    "SELECT a FROM t, u",
    "SELECT a FROM t JOIN u",
    "SELECT a FROM (SELECT a FROM t)",
    "WITH t AS (SELECT 1 a) SELECT a FROM t",
    "SELECT a FROM t UNION ALL SELECT a FROM t",
    "SELECT a FROM t TABLESAMPLE (1 ROWS)",
    "SELECT a FROM t VERSION AS OF 1",
    "SELECT a FROM t@v1",
    "SELECT a FROM t LIMIT 1 OFFSET 1",
    "SELECT a FROM t LIMIT 99999999999",
    "SELECT a FROM t WHERE a = 1 OR a = 2",
    "SELECT a FROM t WHERE a IN (1)",
    "SELECT a FROM t WHERE a = b",
    "SELECT a FROM t WHERE a = NULL",
    "SELECT a FROM t WHERE a <=> 1",
    "SELECT a FROM t WHERE a = 1.5",
    "SELECT a FROM t WHERE a = 1L",
    "SELECT a FROM t WHERE a = DATE '2026-01-01'",
    "SELECT a FROM t WHERE a = 'x' 'y'",
    "SELECT a FROM t WHERE a = 'x\\n'",
    "SELECT a FROM t WHERE a = :p",
    "SELECT /*+ BROADCAST(t) */ a FROM t",
    "SELECT a FROM t -- WHERE a = 1",
    "SELECT a FROM t; SELECT a FROM u",
    "SELECT",
    "",
    "SELECT a FROM t WHERE " + "(" * 200,
)


@pytest.mark.parametrize("query", PLAIN)
def test_a_plain_query_is_read(query):
    assert plain_select(query) == PLAIN[query]


@pytest.mark.parametrize("query", FOR_SPARK)
def test_any_other_query_is_left_to_spark(query):
    assert plain_select(query) is None
