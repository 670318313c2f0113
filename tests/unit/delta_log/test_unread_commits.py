"""What a stream has not read of a Delta table, by its position."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.delta_log.unread_commits import UnreadCommits, unread_commits


@pytest.fixture
def table(tmp_path):
    """A table with 3, 2 and 1 rows in its versions 0, 1 and 3; version 2 changes a property."""
    path = str(tmp_path / "table")
    for number, rows in enumerate((3, 2, 1)):
        write_deltalake(path, pa.table({"id": pa.array(range(rows), pa.int64())}), mode="append")
        if number == 1:
            DeltaTable(path).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    return path


@pytest.mark.parametrize(
    ("version", "index", "commits", "rows"),
    [(0, -1, 3, 6), (0, 0, 2, 3), (1, -1, 2, 3), (2, -1, 1, 1), (3, 0, 0, 0), (4, -1, 0, 0)],
)
def test_rows_of_commits_after_the_position_are_counted(table, version, index, commits, rows):
    found = unread_commits(table, version, index, in_snapshot=False)

    assert (found.commits, found.rows) == (commits, rows)


def test_the_age_is_that_of_the_oldest_unread_commit(table):
    (_, _, first) = DeltaTable(table).history()[-3:]

    assert unread_commits(table, 0, -1, in_snapshot=False).oldest_at_ms == first["timestamp"]
    assert unread_commits(table, 4, -1, in_snapshot=False) == UnreadCommits()


def test_rows_of_a_snapshot_that_is_being_read_are_unknown(table):
    found = unread_commits(table, 3, 0, in_snapshot=True)

    assert (found.commits, found.rows, found.size_bytes) == (1, None, None)


def test_rows_of_a_commit_that_log_cleanup_has_removed_are_unknown(table):
    DeltaTable(table).create_checkpoint()
    (Path(table) / "_delta_log" / f"{0:020}.json").unlink()

    found = unread_commits(table, 0, -1, in_snapshot=False)

    assert (found.commits, found.rows) == (3, None)
