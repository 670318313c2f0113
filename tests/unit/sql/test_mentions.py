from __future__ import annotations

import pytest

from headrace.model.names import QualifiedName
from headrace.sql.mentions import mentioned_names

ORDERS, SILVER, LARGE = QualifiedName("Orders"), QualifiedName("orders", "silver"), QualifiedName("large orders")
VIEW, LAST = QualifiedName("big"), QualifiedName("last_event")
NAMES = {ORDERS, SILVER, LARGE, VIEW, LAST}
VIEWS = {VIEW: "SELECT * FROM `LARGE Orders`", LAST: "SELECT max(id) FROM IDENTIFIER('or' || 'ders')"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT 1", set()),
        ("SELECT * FROM ORDERS", {ORDERS, SILVER}),
        ("WITH x AS (SELECT * FROM silver.`orders`) SELECT * FROM x", {ORDERS, SILVER}),
        ("SELECT * FROM(orders)JOIN`bigger`", {ORDERS, SILVER}),
        ("DESCRIBE silver__orders", {ORDERS, SILVER}),
        # Parts of other names.
        ("SELECT * FROM orders_by_day JOIN my_orders USING (big1)", set()),
        # Of a view also what its query reads, which has the text of the other two.
        ("SELECT * FROM big", {VIEW, LARGE, ORDERS, SILVER}),
        ("SELECT * FROM last_event", NAMES),
        ("SHOW TABLES", NAMES),
        ("SELECT * FROM identifier(:name)", NAMES),
        ("SELECT * FROM ${table}", NAMES),
        ("EXECUTE IMMEDIATE 'SELECT 1'", NAMES),
    ],
)
def test_a_name_is_found_when_a_statement_can_read_it(query, expected):
    assert mentioned_names(query, NAMES, VIEWS) == expected
