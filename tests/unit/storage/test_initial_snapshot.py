"""When a new stream reads the commits of a table from the first one: where it gets the rows that the table holds."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.delta_log.tables import commit_file, table_state
from headrace.storage.initial_snapshot import MOST_COMMITS, reads_commits


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "table")


@pytest.fixture
def append(path):
    """Appends one row, in a commit of its own."""

    def appended(times=1):
        for _ in range(times):
            write_deltalake(path, pa.table({"id": pa.array([1], pa.int32())}), mode="append")

    return appended


@pytest.fixture
def reads(path, tmp_path):
    """The answer for the table as it is now."""
    return lambda: reads_commits(table_state(path), tmp_path / "checkpoint")


@pytest.fixture
def first_batch(path, tmp_path):
    """A checkpoint whose first batch ends before a version."""

    def planned(version, *, starting=False, done=False):
        table = table_state(path)
        offset = {"reservoirId": table.table_id, "reservoirVersion": version, "isStartingVersion": starting}
        for folder, lines in (("offsets", [{}, offset]), ("commits", [{}]))[: 2 if done else 1]:
            file = tmp_path / "checkpoint" / folder / "0"
            file.parent.mkdir(parents=True)
            file.write_text("\n".join(["v1", *map(json.dumps, lines)]))

    return planned


CHANGES = {
    "rows were deleted": lambda table: table.delete("id = 1"),
    "files were put together": lambda table: table.optimize.compact(),
    "a property was set": lambda table: table.alter.set_table_properties({"delta.appendOnly": "true"}),
    "the first commit is gone": lambda table: commit_file(Path(table.table_uri.removeprefix("file://")), 0).unlink(),
}


def test_the_commits_are_read_if_they_are_all_appends(append, reads):
    append(3)

    assert reads()


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_snapshot_is_read_if_a_commit_is_not_an_append_or_is_missing(append, reads, path, change):
    append(2)
    table = DeltaTable(path)
    table.create_checkpoint()
    change(table)

    assert not reads()


def test_the_snapshot_is_read_if_the_table_has_too_many_commits(append, reads):
    append(MOST_COMMITS)
    assert reads()
    append()
    assert not reads()


def test_a_first_batch_interrupted_by_a_crash_is_read_as_planned(append, reads, first_batch, path):
    append(2)
    first_batch(2)
    append(MOST_COMMITS)
    DeltaTable(path).delete("id = 1")

    assert reads()


@pytest.mark.parametrize("planned", [{"starting": True}, {"done": True}])
def test_a_started_stream_does_not_switch_to_reading_commits(append, reads, first_batch, planned):
    append(2)
    first_batch(2, **planned)

    assert not reads()
