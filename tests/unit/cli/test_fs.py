"""``headrace fs``: files by the paths that scripts name."""

from __future__ import annotations

import json
import sys

import pytest

from headrace.cli.fs import dbfs
from headrace.cli.main import call


@pytest.fixture
def fs(tmp_path, monkeypatch, capsys):
    """Calls the command line in a folder without a project: exit code, and what was printed."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = call(words)
        printed = capsys.readouterr()
        return code, printed.out.strip(), printed.err

    return run


def test_dbfs_and_mount_paths_map_into_the_storage(fs, tmp_path):
    (tmp_path / "here.txt").write_text("hello")

    made = [fs("fs", "mkdirs", "dbfs:/a/b"), fs("fs", "cp", str(tmp_path / "here.txt"), "/mnt/lake/x.txt")]
    listed = fs("--output", "json", "fs", "ls", "/mnt/lake")
    read = fs("fs", "cat", "/mnt/lake/x.txt")

    assert [code for code, *_ in made] == [0, 0]
    assert [(item["name"], item["size"]) for item in json.loads(listed[1])] == [("x.txt", 5)]
    assert read[:2] == (0, "hello")
    assert (tmp_path / "storage" / "dbfs" / "a" / "b").is_dir()


def test_rm_deletes_a_folder_only_with_the_recursive_option(fs, tmp_path):
    fs("fs", "mkdirs", "dbfs:/checkpoints/bronze/events")

    refused = fs("fs", "rm", "dbfs:/checkpoints")
    done = fs("fs", "rm", "-r", "dbfs:/checkpoints")
    again = fs("fs", "rm", "-r", "dbfs:/checkpoints")

    assert (refused[0], "SCRIPT.IS_FOLDER" in refused[2]) == (2, True)
    assert done[:2] == (0, "deleted dbfs:/checkpoints")
    assert (again[0], "SCRIPT.NO_FILE" in again[2]) == (2, True)
    assert list((tmp_path / "storage" / "dbfs").iterdir()) == []


@pytest.mark.parametrize("path", ["/", "/nowhere-at-all", "//nowhere-at-all/"])
def test_rm_refuses_to_delete_folders_at_the_root_of_the_machine(fs, path):
    code, _, error = fs("fs", "rm", "-r", path)

    assert (code, "SCRIPT.TOO_MUCH" in error) == (2, True)


def test_cp_overwrites_a_file_only_with_the_overwrite_option(fs, tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(name)

    refused = fs("fs", "cp", str(tmp_path / "a"), str(tmp_path / "b"))
    done = fs("fs", "cp", "--overwrite", str(tmp_path / "a"), str(tmp_path / "b"))

    assert (refused[0], "SCRIPT.FILE_EXISTS" in refused[2], done[0]) == (2, True, 0)
    assert (tmp_path / "b").read_text() == "a"


def test_dbfs_command_accepts_the_arguments_of_fs(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["dbfs", "mkdirs", "dbfs:/made"])

    with pytest.raises(SystemExit) as ended:
        dbfs()

    assert (ended.value.code, capsys.readouterr().out.strip()) == (0, "created dbfs:/made")
