"""Which versions of a table can be read after commits and files were removed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.delta_log.readable_versions import (
    CommitInfo,
    VersionRange,
    commit_info,
    earliest_version_with_files,
    version_before_last_change,
    version_range,
)
from headrace.delta_log.table_files import live_files


@pytest.fixture
def table(tmp_path):
    """A table of five appends, after the third of which is a checkpoint, and a commit of properties."""
    path = str(tmp_path / "a table")
    for number in range(5):
        write_deltalake(path, pa.table({"id": pa.array([number], pa.int64())}), mode="append")
        if number == 2:
            DeltaTable(path).create_checkpoint()
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "false"})
    return path


def test_versions_begin_with_a_checkpoint_once_commits_are_gone(table):
    assert version_range(table) == VersionRange(0, 5)
    for version in (0, 1):
        Path(table, "_delta_log", f"{version:020}.json").unlink()
    assert version_range(table) == VersionRange(2, 5)
    Path(table, "_delta_log", f"{2:020}.json").unlink()
    assert version_range(table) == VersionRange(2, 5)
    assert version_before_last_change(table, VersionRange(2, 5)) == 3
    assert version_before_last_change(table, VersionRange(4, 5)) is None


def test_versions_before_a_lost_file_are_not_readable(table):
    write_deltalake(table, pa.table({"id": pa.array([7], pa.int64())}), mode="overwrite")
    versions = version_range(table)

    assert earliest_version_with_files(table, versions) == 0
    Path(table, live_files(table, 1)[0].path).unlink()
    assert earliest_version_with_files(table, versions) == 6


def test_the_commit_of_a_version_is_named_while_the_log_has_it(table):
    assert commit_info(table, 1).operation == "WRITE"
    assert str(commit_info(table, 1).committed_at).endswith("+00:00")
    assert commit_info(table, 9) == CommitInfo()
