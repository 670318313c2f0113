from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.names import Naming, QualifiedName
from headrace.sql.rewrite import rewrite_names

KNOWN = {QualifiedName("orders"): "[o]", QualifiedName("t"): "[t]", QualifiedName("items", "sales"): "[i]"} | {
    QualifiedName("items", "sales", "lake"): "[l]"
}
PIECES = [
    "SELECT",
    "FROM",
    "JOIN",
    "WITH",
    "AS",
    "STREAM",
    "TABLE",
    ",",
    "(",
    ")",
    ".",
    "a",
    "orders",
    "LIVE",
    "`b`",
    "'s'",
    " ",
    "-- c\n",
    "|>",
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map(" ".join)))
def test_text_without_known_names_is_unchanged(text):
    assert rewrite_names(text, Naming(), lambda _: None) == text


@given(st.lists(st.sampled_from([piece for piece in PIECES if piece != "LIVE"])).map(" ".join))
def test_only_known_names_change_in_any_text(text):
    found = rewrite_names(text, Naming(), lambda name: "<o>" if name == QualifiedName("orders") else None)

    assert found.replace("<o>", "orders") == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Several parts: anywhere, the rest of the chain kept.
        ("SELECT sales.items.id FROM sales.items", "SELECT [i].id FROM [i]"),
        ("SELECT * FROM `sales` . `ITEMS` x", "SELECT * FROM [i] x"),
        ("SELECT lake.sales.items.id.a FROM lake.sales.items", "SELECT [l].id.a FROM [l]"),
        ("SELECT * FROM spark_catalog.sales.items", "SELECT * FROM [i]"),
        ("SELECT LIVE.orders.id FROM STREAM(LIVE.orders)", "SELECT [o].id FROM STREAM([o])"),
        ("SELECT live.t.a FROM default.t", "SELECT [t].a FROM [t]"),
        # One part: where a table stands.
        ("SELECT orders, t FROM orders, t", "SELECT orders, t FROM [o], [t]"),
        ("SELECT orders.id FROM orders", "SELECT orders.id FROM [o]"),
        ("FROM orders SELECT t", "FROM [o] SELECT t"),
        ("TABLE orders", "TABLE [o]"),
        ("SELECT * FROM a JOIN t ON t.x = a.x, orders", "SELECT * FROM a JOIN [t] ON t.x = a.x, [o]"),
        ("SELECT * FROM (orders JOIN t USING (t)), t o", "SELECT * FROM ([o] JOIN [t] USING (t)), [t] o"),
        ("SELECT * FROM STREAM orders, STREAM(t) WHERE t", "SELECT * FROM STREAM [o], STREAM([t]) WHERE t"),
        ("SELECT * FROM STREAM t WITH (a = t), orders", "SELECT * FROM STREAM [t] WITH (a = t), [o]"),
        ("SELECT * FROM f(TABLE(orders), t), t(1)", "SELECT * FROM f(TABLE([o]), t), t(1)"),
        ("SELECT * FROM x WHERE a IN (SELECT t FROM t)", "SELECT * FROM x WHERE a IN (SELECT t FROM [t])"),
        ("SELECT 1 FROM x UNION ALL SELECT t, t FROM t", "SELECT 1 FROM x UNION ALL SELECT t, t FROM [t]"),
        ("SELECT * FROM t LATERAL VIEW explode(x) e AS a, t", "SELECT * FROM [t] LATERAL VIEW explode(x) e AS a, t"),
        ("SELECT * FROM t, LATERAL (SELECT * FROM t)", "SELECT * FROM [t], LATERAL (SELECT * FROM [t])"),
        ("FROM t |> EXTEND a AS b, t |> JOIN orders", "FROM [t] |> EXTEND a AS b, t |> JOIN [o]"),
        # FROM that is no FROM clause.
        ("SELECT extract(YEAR FROM t) FROM t", "SELECT extract(YEAR FROM t) FROM [t]"),
        ("SELECT a IS DISTINCT FROM t FROM t", "SELECT a IS DISTINCT FROM t FROM [t]"),
        # Names that WITH defines.
        ("WITH t AS (SELECT 1) SELECT * FROM t, orders", "WITH t AS (SELECT 1) SELECT * FROM t, [o]"),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", "WITH t AS (SELECT * FROM [t]) SELECT * FROM t"),
        (
            "FROM (WITH a AS (SELECT 1), t AS (TABLE a) TABLE t), t",
            "FROM (WITH a AS (SELECT 1), t AS (TABLE a) TABLE t), [t]",
        ),
        ("WITH t AS (SELECT 1) SELECT * FROM LIVE.t", "WITH t AS (SELECT 1) SELECT * FROM [t]"),
        # Text that only looks like it.
        ("'FROM t' -- FROM t\n/* FROM t */ FROM /* x */ t", "'FROM t' -- FROM t\n/* FROM t */ FROM /* x */ [t]"),
        ("SELECT `from t` FROM\r\n  `t`\r\n", "SELECT `from t` FROM\r\n  [t]\r\n"),
    ],
)
def test_names_that_refer_to_a_dataset_are_replaced(text, expected):
    assert rewrite_names(text, Naming(), KNOWN.get) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sales.items(1), a[0].sales.items, p:sales.items",
        "WITH a AS (SELECT 1), t (x) AS (SELECT 1) SELECT * FROM T",
        "SELECT * FROM other.items, sales.other",
        "SELECT * FROM delta.`/a/orders`",
        "SELECT t, t FROM x GROUP BY t, t ORDER BY t, t",
        "SELECT trim(BOTH 'x' FROM t)",
        "SELECT * FROM x JOIN y ON a IS DISTINCT FROM t",
        "WITH RECURSIVE t AS (SELECT * FROM t) TABLE t",
        "SELECT 'FROM t",
    ],
)
def test_names_that_do_not_refer_to_a_dataset_are_unchanged(text):
    assert rewrite_names(text, Naming(), KNOWN.get) == text


def test_names_are_resolved_in_the_current_schema():
    naming = Naming().use(schema="sales")

    assert rewrite_names("SELECT * FROM items, orders, default.orders", naming, KNOWN.get) == (
        "SELECT * FROM [i], orders, [o]"
    )
