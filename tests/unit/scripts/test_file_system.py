"""``dbutils.fs`` on local files, by the paths of the session."""

from __future__ import annotations

import threading
from contextlib import suppress
from itertools import count

import pytest

from headrace.errors import PipelineError
from headrace.scripts.file_system import FileSystem
from headrace.spark.notebook.notices import Notices
from headrace.spark.notebook.path_mapping import PathMapping, default_paths


@pytest.fixture
def files(tmp_path):
    return FileSystem(PathMapping(default_paths(str(tmp_path / "storage")), Notices(lambda _: None)))


def test_all_spellings_of_a_dbfs_path_refer_to_the_same_file(files, tmp_path):
    files.put("dbfs:/mnt/in/a.txt", "text")

    assert files.head("/mnt/in/a.txt") == files.head("/dbfs/mnt/in/a.txt", 100) == "text"
    assert (tmp_path / "storage" / "dbfs" / "mnt" / "in" / "a.txt").read_text() == "text"
    (item,) = files.ls("/mnt/in")
    assert (item.path, item.name, item.size, item.isFile()) == ("dbfs:/mnt/in/a.txt", "a.txt", 4, True)


def test_a_configured_mount_path_applies_to_all_spellings_of_the_mount(tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "b.csv").write_text("1")
    paths = {**default_paths(str(tmp_path / "storage")), "/mnt/raw": str(tmp_path / "raw")}
    files = FileSystem(PathMapping(paths, Notices(lambda _: None)))

    (item,) = files.ls("/mnt/raw")
    files.put("dbfs:/mnt/raw/c.csv", "2")

    assert (item.path, files.head(item.path)) == ("dbfs:/mnt/raw/b.csv", "1")
    assert files.head("/dbfs/mnt/raw/c.csv") == (tmp_path / "raw" / "c.csv").read_text() == "2"
    assert not (tmp_path / "storage").exists()


def test_a_local_folder_whose_name_starts_with_mnt_is_not_a_mount(files, tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.scripts.file_system.FileSystem._resolve", lambda _, path: tmp_path / path.strip("/"))
    files.put("/mntfoo/a", "1")

    assert [item.path for item in files.ls("/mntfoo")] == ["/mntfoo/a"]


def test_a_folder_is_removed_while_another_thread_writes_into_it(files, tmp_path):
    stop = threading.Event()
    folder = tmp_path / "checkpoint"
    folder.mkdir()

    def write():
        for number in count():
            if stop.is_set():
                return
            with suppress(OSError):
                (folder / f"{number}").touch()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        removed = files.rm(str(folder), recurse=True)
    finally:
        stop.set()
        writer.join()

    assert removed
    assert not folder.exists()
    assert list(tmp_path.glob(".checkpoint*")) == []


def test_local_paths_are_used_unchanged(files, tmp_path):
    files.put(f"file:{tmp_path}/plain", "1")
    files.cp(f"{tmp_path}/plain", f"{tmp_path}/copy/plain")
    files.mv(f"{tmp_path}/copy", f"{tmp_path}/moved", recurse=True)

    assert (tmp_path / "moved" / "plain").read_text() == "1"
    assert not (tmp_path / "copy").exists()
    assert files.ls(str(tmp_path))[0].path == f"{tmp_path}/moved/"


def test_a_moved_folder_overwrites_files_of_the_same_name(files):
    for path in ("/mnt/new/a", "/mnt/new/sub/b"):
        files.put(path, "new")
    for path in ("/mnt/old/a", "/mnt/old/sub/b", "/mnt/old/sub/c"):
        files.put(path, "old")

    files.mv("/mnt/new", "/mnt/old", recurse=True)

    assert {name: files.head(f"/mnt/old/{name}") for name in ("a", "sub/b", "sub/c")} == {
        "a": "new",
        "sub/b": "new",
        "sub/c": "old",
    }
    assert [item.name for item in files.ls("/mnt/old")] == ["a", "sub/"]
    assert not files.rm("/mnt/new", recurse=True)


@pytest.mark.parametrize("method", ["cp", "mv"])
@pytest.mark.parametrize("there", ["", "old"])
def test_a_file_is_copied_or_moved_into_a_target_folder_with_a_trailing_slash(files, method, there):
    files.put("/mnt/a/one", "new")
    if there:
        files.put("/mnt/made/one", there)

    getattr(files, method)("/mnt/a/one", "/mnt/made/")

    assert files.head("/mnt/made/one") == "new"
    assert files.rm("/mnt/a/one") == (method == "cp")


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda files: files.ls("/mnt/none"), "SCRIPT.NO_FILE"),
        (lambda files: files.mv("/mnt/a", "/mnt/a/b", recurse=True), "SCRIPT.FILE_EXISTS"),
        (lambda files: files.mv("/mnt/a", "/mnt/c"), "SCRIPT.IS_FOLDER"),
        (lambda files: files.put("/mnt/a/b", "again"), "SCRIPT.FILE_EXISTS"),
        (lambda files: files.rm("/mnt/a"), "SCRIPT.IS_FOLDER"),
        (lambda files: files.cp("/mnt/a", "/mnt/c"), "SCRIPT.IS_FOLDER"),
        (lambda files: files.ls("s3://bucket/x"), "UNSUPPORTED.DBUTILS"),
        (lambda files: files.mount("s3a://bucket", "/mnt/x"), "UNSUPPORTED.DBUTILS"),
    ],
)
def test_an_invalid_file_operation_is_refused(files, call, code):
    files.put("/mnt/a/b", "text")

    with pytest.raises(PipelineError) as raised:
        call(files)

    assert raised.value.code == code


def test_rm_returns_whether_anything_was_removed(files):
    files.put("/mnt/a/b", "text")

    assert [files.rm("/mnt/a/b"), files.rm("/mnt/a/b"), files.rm("/mnt/a")] == [True, False, True]
