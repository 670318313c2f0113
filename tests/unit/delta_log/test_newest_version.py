"""The newest version of a table, found without opening it."""

from __future__ import annotations

import json
import shutil

import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import table as arrow

from headrace.delta_log.tables import commit_file, newest_version
from headrace.errors import PipelineError


@pytest.fixture
def log(tmp_path):
    """Writes a log of some versions, whose commits hold nothing that could be opened."""

    def make(versions, checkpoint=None):
        folder = tmp_path / "_delta_log"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for version in versions:
            commit_file(tmp_path, version).write_text("no action")
        if checkpoint is not None:
            (folder / "_last_checkpoint").write_text(checkpoint)
        return str(tmp_path)

    return make


@pytest.mark.parametrize(
    ("versions", "checkpoint", "expected"),
    [
        (range(3), None, 2),
        (range(7, 12), json.dumps({"version": 9, "size": 1}), 11),
        (range(7, 10), json.dumps({"version": 9}), 9),
        (range(4), "cut of", 3),
        (range(4), json.dumps({"size": 1}), 3),
    ],
)
def test_newest_version_is_that_of_the_last_commit_file(log, versions, checkpoint, expected):
    assert newest_version(log(versions, checkpoint)) == expected


def test_newest_version_is_found_after_a_table_is_recreated_or_restored(log):
    assert newest_version(log(range(30), json.dumps({"version": 20}))) == 29
    assert newest_version(log(range(5))) == 4
    assert newest_version(log(range(25), json.dumps({"version": 20}))) == 24


def test_newest_version_comes_from_delta_rs_if_the_last_checkpoint_is_inconsistent(tmp_path):
    for number in range(4):
        write_deltalake(tmp_path, arrow({"id": [number]}), mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    commit_file(tmp_path, 3).unlink()
    assert newest_version(str(tmp_path)) == 3

    (tmp_path / "_delta_log" / "_last_checkpoint").write_text(json.dumps({"version": 9}))
    assert newest_version(str(tmp_path)) == 3


def test_missing_table_has_no_newest_version(tmp_path):
    assert newest_version(str(tmp_path)) == -1


def test_empty_newest_commit_is_rejected(log, tmp_path):
    path = log(range(3))
    commit_file(tmp_path, 2).write_text("")

    with pytest.raises(PipelineError) as refused:
        newest_version(path)

    assert refused.value.code == "STORAGE.EMPTY_COMMIT"
