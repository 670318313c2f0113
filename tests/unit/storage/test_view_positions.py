"""The input versions of a view are found in its newest commit, or the reason why its rows cannot be relied on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headrace.model.names import Naming
from headrace.model.refresh import Refresh, RefreshMethod
from headrace.settings.storage import StorageLayout
from headrace.storage.flow_record import FlowRecord, write_record
from headrace.storage.held_versions import known_positions
from headrace.storage.view_positions import NoPositions, ViewPositions, changed_bytes, last_positions
from headrace.stores.paths import storage_path

POSITIONS = ViewPositions("query 1", {"table a": 3, "table b": 0})


@pytest.fixture
def log(tmp_path):
    """Writes the next commits of a table."""
    folder = tmp_path / "_delta_log"
    folder.mkdir()

    def write(*commits):
        for number, actions in enumerate(commits, start=len(list(folder.iterdir()))):
            lines = "".join(f"{json.dumps(action)}\n" for action in actions)
            (folder / f"{number:020d}.json").write_text(lines, encoding="utf-8")
        return str(tmp_path), len(list(folder.iterdir())) - 1

    return write


def commit(operation="WRITE", *, text=None, read=None, changes=True, files=True):
    info = {"operation": operation, "userMetadata": text, "readVersion": read}
    info = {key: value for key, value in info.items() if value is not None}
    return [{"commitInfo": info}, *([{"add": {"path": "a", "size": 1, "dataChange": changes}}] if files else [])]


def test_positions_are_read_back_with_the_metadata_of_the_user_beside_them(log):
    text = POSITIONS.to_text("of the user")

    assert json.loads(text)["user_metadata"] == "of the user"
    assert last_positions(*log(commit(), commit(text=text, read=0))) == POSITIONS


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(commit("OPTIMIZE", changes=False), id="optimize"),
        pytest.param(commit("VACUUM END", files=False), id="vacuum"),
        pytest.param(commit("SET TBLPROPERTIES", files=False), id="property"),
    ],
)
def test_commits_that_keep_all_rows_may_follow(log, later):
    assert last_positions(*log(commit(text=POSITIONS.to_text(), read=-1), later)) == POSITIONS


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        pytest.param(commit("RESTORE"), "was written by RESTORE", id="restore"),
        pytest.param(commit("DELETE", text="headrace erase", changes=False), "was written by DELETE", id="erase"),
        pytest.param([], "was written by an unknown operation", id="empty"),
        pytest.param(commit("WRITE", text='{"headrace": {"view": 7}}'), "was written by WRITE", id="damaged"),
    ],
)
def test_rows_that_another_writer_changed_are_not_relied_on(log, later, reason):
    found = last_positions(*log(commit(text=POSITIONS.to_text(), read=-1), later))

    assert isinstance(found, NoPositions)
    assert reason in found.reason


def test_a_blind_append_between_reading_and_committing_is_noticed(log):
    found = last_positions(*log(commit(), commit("WRITE"), commit(text=POSITIONS.to_text(), read=0)))

    assert found == NoPositions("another writer changed the view before its version 2")


def test_positions_of_other_rules_are_not_used(log):
    text = POSITIONS.to_text().replace('"rules": 1', '"rules": 0')

    assert last_positions(*log(commit(text=text, read=-1))) == NoPositions(
        "the view was refreshed by another version of Headrace"
    )


def test_a_log_without_positions_says_so(log):
    found = last_positions(*log(commit("CREATE TABLE", files=False)))

    assert found == NoPositions("the view has no recorded input versions")
    assert "no longer in its log" in last_positions(log()[0], 5).reason


def test_maintenance_keeps_the_versions_from_which_a_view_goes_on(tmp_path, log):
    layout, naming = StorageLayout(str(tmp_path / "storage")), Naming()
    view, other = naming.canonical("view"), naming.canonical("other")
    for name in (view, other):
        file = storage_path(layout.flow_state(naming, name, str(name)))
        write_record(file, FlowRecord(flow=str(name), dataset=str(name), mode="replace"))
    table = storage_path(layout.table(naming, view))
    log(commit(text=POSITIONS.to_text(), read=-1))
    table.parent.mkdir(parents=True)
    (tmp_path / "_delta_log").rename(tmp_path / "moved")
    table.mkdir()
    (tmp_path / "moved").rename(table / "_delta_log")

    found = known_positions(layout, naming)

    assert {(one.table_id, one.version, one.reader) for one in found.known} == {
        ("table a", 3, "view view"),
        ("table b", 0, "view view"),
    }


def test_the_counts_of_a_refresh_are_in_its_commit(log):
    refresh = Refresh(RefreshMethod.GROUPS, "1 % of the input changed")
    text = replace(POSITIONS, refresh=refresh, rows_written=7).to_text()

    found = last_positions(*log(commit(), commit(text=text, read=0)))

    assert (found.refresh, found.rows_written, found.version) == (refresh, 7, 1)


def test_a_commit_of_an_earlier_version_has_no_counts(log):
    text = '{"headrace": {"view": {"rules": 1, "query": "query 1", "inputs": {"table a": 3, "table b": 0}}}}'

    found = last_positions(*log(commit(text=text, read=-1)))

    assert (found, found.refresh, found.rows_written) == (POSITIONS, None, None)


def test_only_marked_rows_of_a_file_that_is_kept_have_changed():
    file = {"path": "a", "size": 1000, "dataChange": True}
    marked = {**file, "deletionVector": {"cardinality": 30}, "stats": '{"numRecords": 100}'}
    before = {**file, "deletionVector": {"cardinality": 20}}

    assert changed_bytes([{"add": marked}, {"remove": before}]) == 100
    assert changed_bytes([{"add": {**marked, "stats": None}}, {"remove": before}]) == 1000
    assert changed_bytes([{"add": marked}, {"remove": {**file, "path": "b"}}]) == 2000
    assert changed_bytes([{"add": {**file, "dataChange": False}}, {"remove": {**file, "dataChange": False}}]) == 0
