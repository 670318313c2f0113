"""Entries of the catalog that are made without SQL are those that SQL makes."""

from __future__ import annotations

import pytest

from headrace.graph.session_names import SessionName
from headrace.spark.session.catalog_tables import add_table, remove_table

pytestmark = pytest.mark.spark

NAME = SessionName("default", "entered")


@pytest.fixture(scope="module")
def table(headrace_session, tmp_path_factory):
    """The path of a Delta table with two rows."""
    path = str(tmp_path_factory.mktemp("a table") / "of two rows")
    headrace_session.range(2).write.format("delta").save(path)
    return path


def entry(session):
    """What the catalog says of the table, without the time and the version of Spark."""
    rows = session.sql("DESCRIBE EXTENDED default.entered").collect()
    return {row["col_name"]: row["data_type"] for row in rows if not row["col_name"].startswith("Created")}


def test_an_added_table_is_the_one_that_create_table_makes(headrace_session, table):
    add_table(headrace_session, NAME, table)
    added, rows = entry(headrace_session), headrace_session.table("entered").count()
    remove_table(headrace_session, NAME)
    exists = headrace_session.catalog.tableExists("default.entered")
    headrace_session.catalog.createTable("default.entered", path=table, source="delta")
    created = entry(headrace_session)
    headrace_session.sql("DROP TABLE default.entered")

    assert (added, rows, exists) == (created, 2, False)
    assert (created["Type"], created["Provider"]) == ("EXTERNAL", "delta")


def test_rows_of_a_removed_table_stay_and_are_no_longer_cached(headrace_session, table):
    add_table(headrace_session, NAME, table)
    headrace_session.table("entered").cache()
    remove_table(headrace_session, NAME)
    read = headrace_session.read.format("delta").load(table)

    assert (read.is_cached, read.storageLevel.useMemory, read.count()) == (False, False, 2)
    assert not headrace_session.catalog.tableExists("default.entered")
