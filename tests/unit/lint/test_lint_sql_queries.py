"""Which query of a statement reads the stream: what is found fault with beside it is none where it stands elsewhere."""

from __future__ import annotations

import pytest

OVER = "row_number() OVER (PARTITION BY id ORDER BY at DESC) AS n"


@pytest.mark.parametrize(
    ("query", "rules"),
    [
        (f"SELECT *, {OVER} FROM STREAM(orders)", ["stream-window-function"]),
        (f"SELECT *, {OVER} FROM (SELECT * FROM STREAM(orders)) AS o", ["stream-window-function"]),
        (f"SELECT a.* FROM STREAM(orders) AS a JOIN (SELECT *, {OVER} FROM customers) AS c ON a.id = c.id", []),
        (f"WITH c AS (SELECT *, {OVER} FROM customers) SELECT a.* FROM STREAM orders AS a JOIN c ON a.id = c.id", []),
        ("SELECT a.* FROM STREAM(o) AS a JOIN (SELECT id, sum(b) AS b FROM c GROUP BY id) AS c ON a.id = c.id", []),
        ("SELECT id, count(*) AS n FROM (SELECT id FROM STREAM(orders)) GROUP BY id", ["no-watermark"]),
    ],
)
def test_only_the_query_that_reads_the_stream_is_checked(found, query, rules):
    text = f"CREATE OR REFRESH STREAMING TABLE t AS {query}"

    assert [rule for rule, _ in found(text, ".sql")] == rules


@pytest.mark.parametrize(
    ("query", "rules"),
    [
        ("SELECT count(DISTINCT id) AS n FROM orders", ["stream-distinct-count"]),
        ("SELECT count(DISTINCT id) AS n FROM ORDERS", ["stream-distinct-count"]),
        ("SELECT a.* FROM Orders AS a JOIN (SELECT id, count(DISTINCT b) AS n FROM c) AS c ON a.id = c.id", []),
    ],
)
def test_view_of_a_stream_is_recognized_regardless_of_case(found, query, rules):
    text = f"""
        rows = spark.readStream.table("a").withWatermark("at", "1 hour")
        rows.createOrReplaceTempView("Orders")
        spark.sql("{query}")
        """
    assert [rule for rule, _ in found(text)] == rules
