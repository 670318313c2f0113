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


@pytest.fixture
def scripts(headrace_session, tmp_path):
    """Scripts that share one storage."""
    from tests.spark.notebook_scripts import Scripts  # noqa: PLC0415 - the same

    from headrace.testing.warm import unchanged  # noqa: PLC0415 - with Spark, for tests that need it

    with unchanged(headrace_session, tmp_path):
        yield Scripts(tmp_path)
