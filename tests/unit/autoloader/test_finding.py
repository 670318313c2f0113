"""Looks that break off, clocks that were ahead, links, and entries that nobody can read or that are no files."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.autoloader import discovery
from headrace.autoloader.discovery import Clock, LocalDiscovery
from headrace.autoloader.ledger.file_states import files_to_clean
from headrace.autoloader.ledger.ledger import Ledger
from headrace.autoloader.ledger.seen_files import SeenFiles
from headrace.autoloader.pending_files import auto_loader_changes
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.stores.local import LocalStore
from headrace.autoloader.stores.store import FoundFile
from headrace.autoloader.tree import Selection, Tree
from headrace.errors import PipelineError

NS = 1_000_000_000
NOW_S = 2_000_000_000
DAY_S = 86_400.0
SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


@pytest.fixture
def land(data):
    """Makes a file that was there before now, in folders that have changed since the file before it."""
    ages = iter(range(1000, 0, -10))

    def landed(name, content="{}"):
        file = data / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        at = NOW_S - next(ages)
        for path in (file, *file.parents):
            if path.is_relative_to(data):
                os.utime(path, (at, at))
        return file

    return landed


@pytest.fixture
def ledger(tmp_path):
    made = Ledger.create(tmp_path / "ledgers")
    yield made
    made.close()


@pytest.fixture
def looking(data, ledger):
    """A way to look for new files, as a process that has just begun."""

    def made(path=None, *, now_s=NOW_S, full_listing_interval_s=1e12):
        clock = Clock(now_ns=lambda: int(now_s * NS), sleep_s=time.sleep)
        tree = Tree.of(str(path or data), Selection())
        return LocalDiscovery(ledger, tree, full_listing_interval_s=full_listing_interval_s, clock=clock)

    return made


@pytest.fixture
def open_to_all():
    """A folder that another user may work in."""
    folder = Path(tempfile.mkdtemp(prefix="open-"))
    folder.chmod(0o777)
    yield folder
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(folder)


@contextmanager
def as_nobody():
    """Without rights over the files of others; root has them all."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def paths(ledger, below):
    return sorted(os.path.relpath(file.path, below) for file in ledger.files(0, ledger.last_number))


def test_subfolders_are_listed_again_after_an_interrupted_poll(data, land, looking, ledger, monkeypatch):
    monkeypatch.setattr(discovery, "_RECORD_BATCH", 1)
    land("first.json")
    looking().poll()
    land("second.json")
    land("sub/late.json")
    odd = land(os.fsdecode(b"sub/\xff"))

    with pytest.raises(PipelineError):
        looking().poll()
    known = paths(ledger, data)
    odd.unlink()
    looking().poll()

    assert known == ["first.json", "second.json"]
    assert paths(ledger, data) == ["first.json", "second.json", "sub/late.json"]


def test_all_folders_are_listed_after_the_clock_was_ahead(land, looking, ledger, data):
    land("a.json")
    looking(now_s=NOW_S + 3650 * DAY_S, full_listing_interval_s=DAY_S).poll()
    before = data.stat().st_mtime_ns
    land("b.json")
    os.utime(data, ns=(before, before))

    looking(full_listing_interval_s=DAY_S).poll()

    assert paths(ledger, data) == ["a.json", "b.json"]


@pytest.mark.parametrize("path", ["", "/../base", "/*", "/../base/*"])
def test_a_folder_with_several_symlinks_is_read_once(tmp_path, data, land, looking, ledger, path):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "deep").mkdir(parents=True)
    (elsewhere / "deep" / "e.json").write_text("{}")
    land("x/a.json")
    (tmp_path / "base").symlink_to(data)
    for name, target in {
        "one": data,
        "two": data,
        "x/up": "..",
        "x/self": ".",
        "again": "x",
        "away": elsewhere,
        "there": elsewhere / "deep",
        "z": elsewhere,
        "no/where": data / "none",
    }.items():
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).symlink_to(target)

    looking(f"{data}{path}").poll()
    found = [file.name for _, file in Tree.of(f"{data}{path}", Selection()).files()]

    assert [os.path.basename(name) for name in paths(ledger, data)] == ["e.json", "a.json"]  # noqa: PTH119 - text
    assert sorted(found) == ["a.json", "e.json"]
    assert (ledger.last_number, looking(f"{data}{path}", full_listing_interval_s=0).poll()) == (2, 0)


def test_new_files_keep_their_path_when_another_symlink_appears(data, land, looking, ledger, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (data / "m").symlink_to(elsewhere)
    (elsewhere / "a.json").write_text("{}")
    looking().poll()
    (data / "b").symlink_to(elsewhere)
    (elsewhere / "b.json").write_text("{}")

    looking().poll()
    (data / "m").unlink()

    assert paths(ledger, data) == ["m/a.json", "m/b.json"]


def test_a_file_is_read_through_a_symlink_that_a_wildcard_matches(data, land, looking, ledger):
    land("2026/a.json")
    (data / "current").symlink_to("2026")

    looking(data / "cur*").poll()

    assert paths(ledger, data) == ["current/a.json"]


def test_pipes_sockets_and_devices_are_ignored(tmp_path, data, land, looking, ledger):
    land("a.json", '{"id": 1}')
    os.mkfifo(data / "pipe.json")
    (data / "zero.json").symlink_to("/dev/zero")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.path.relpath(data / "s.json"))

    looking().poll()
    listener.close()
    place = Place(tmp_path / "ledgers", tmp_path / "schemas", NOW_S * NS)
    source = prepare({"cloudFiles.format": "json"}, str(data), None, place)

    assert paths(ledger, data) == ["a.json"]
    assert [field["name"] for field in source.plan.data["fields"]] == ["id"]
    with pytest.raises(FileNotFoundError):
        LocalStore().open_binary(str(data / "pipe.json"))


@pytest.mark.parametrize("mode", [0o644, 0o311, 0o000], ids=["without x", "without r", "without any"])
def test_an_unreadable_folder_is_named_in_the_error(open_to_all, ledger, looking, mode):
    closed = open_to_all / "closed"
    with as_nobody():
        closed.mkdir()
        (closed / "a.json").write_text("{}")
        closed.chmod(mode)

        with pytest.raises(PipelineError) as raised:
            looking(open_to_all).poll()

    source = prepare({"cloudFiles.format": "json"}, str(open_to_all), SCHEMA, Place(open_to_all, None, NOW_S * NS))
    with as_nobody():
        reason = auto_loader_changes(source, None, time.time)

    assert raised.value.code == "AUTO_LOADER.UNREADABLE"
    assert reason == raised.value.message
    assert raised.value.params["path"].startswith(str(closed))
    assert ledger.last_number == 0


def test_files_committed_by_a_clock_that_was_ahead_are_cleaned_up_in_time(ledger):
    file = FoundFile("a.json", 2, 1)
    SeenFiles(ledger).record([("/d", file), ("/d", FoundFile("b.json", 2, 1))], {}, now_ms=0, allow_overwrites=False)
    ledger.record_commit(1, now_ms=10**15)
    ledger.record_commit(2, now_ms=1000)

    assert [seen.path for seen in files_to_clean(ledger, 1000, 10)] == ["/d/a.json", "/d/b.json"]


def test_an_ignored_symlink_into_an_unreadable_folder_does_not_stop_discovery(open_to_all, looking):
    closed = open_to_all / "_closed"
    (closed / "inner").mkdir(parents=True)
    (open_to_all / ".meant_by_none").symlink_to(closed / "inner")
    (open_to_all / "a.json").write_text("{}")
    closed.chmod(0o000)

    with as_nobody():
        assert looking(open_to_all).poll() == 1
        (open_to_all / "meant").symlink_to(closed / "inner")
        with pytest.raises(PipelineError, match="meant"):
            looking(open_to_all).poll()
