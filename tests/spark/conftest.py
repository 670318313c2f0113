"""Fixtures of tests that need Spark and a server."""

from __future__ import annotations

import pytest


@pytest.fixture
def out_orders(postgres):
    """What is in a new table of that name, or in another one; the commits in the database are those of this test."""
    postgres.execute(
        "DROP TABLE IF EXISTS out_orders, headrace_commits",
        "CREATE TABLE out_orders (id int PRIMARY KEY, name text, extra text DEFAULT 'none')",
    )
    return lambda table="out_orders": postgres.rows(table)
