"""Changes of folders that the kernel tells, against looking at every folder."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from headrace.autoloader.discovery import Clock
from headrace.autoloader.file_notifications import FULL_CHECK_INTERVAL_S, FolderWatch
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.stream import FileStream

SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
MINUTE_NS = int(FULL_CHECK_INTERVAL_S * 1e9)


@pytest.fixture
def watch(data):
    """A watch of the folder that has been asked once."""
    made = FolderWatch(str(data))
    assert made.changed_folders(0) is None
    yield made
    made.close()


def told(watch, *, until, within_s=20.0):
    """What is told, up to when it has *until*."""
    ends, found = time.monotonic() + within_s, set()
    while not until <= found:
        assert time.monotonic() < ends, f"{until - found} was not told"
        found |= watch.changed_folders(1) or set()
        time.sleep(0.01)
    return found


def test_the_folder_of_a_new_file_is_reported(data, watch):
    (data / "a.json").write_text("{}")

    assert told(watch, until={str(data)}) == {str(data)}


def test_a_file_in_a_new_folder_is_reported(data, watch):
    (data / "x").mkdir()
    told(watch, until={str(data)})

    (data / "x" / "a.json").write_text("{}")

    assert str(data / "x") in told(watch, until={str(data / "x")})


def test_a_folder_that_is_moved_in_is_reported(tmp_path, data, watch):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.json").write_text("{}")

    outside.rename(data / "x")

    assert str(data / "x") in told(watch, until={str(data / "x")})


def test_reading_a_file_is_not_reported(data):
    (data / "a.json").write_text("{}")
    (data / "inner").mkdir()
    with closing(FolderWatch(str(data))) as watch:
        watch.changed_folders(0)
        (data / "a.json").read_text()

        (data / "inner" / "b.json").write_text("{}")

        # What came before has been told when this has.
        assert told(watch, until={str(data / "inner")}) == {str(data / "inner")}


def test_all_folders_are_checked_once_a_minute(watch):
    assert watch.changed_folders(MINUTE_NS - 1) is not None
    assert watch.changed_folders(MINUTE_NS) is None


def test_a_stream_with_notifications_reads_new_files(tmp_path, data):
    place = Place(tmp_path / "ledgers", None, time.time_ns())
    given = {"cloudFiles.format": "json", "cloudFiles.useNotifications": "true"}
    stream = FileStream(prepare(given, str(data), SCHEMA, place), Clock(time.time_ns, time.sleep))
    start = stream.initial()
    stream.latest(start, everything=False)
    (data / "x").mkdir()
    (data / "x" / "a.json").write_text('{"id": 1}\n')

    ends, end = time.monotonic() + 20, start
    while end == start and time.monotonic() < ends:
        end = stream.latest(start, everything=False)
    work = stream.work(start, end)
    stream.close()

    assert [split.path for one in work for split in one.splits] == [str(data / "x" / "a.json")]


def test_files_in_hidden_folders_are_not_read(tmp_path, data):
    place = Place(tmp_path / "ledgers", None, time.time_ns())
    given = {"cloudFiles.format": "json", "cloudFiles.useNotifications": "true"}
    stream = FileStream(prepare(given, str(data), SCHEMA, place), Clock(time.time_ns, time.sleep))
    start = stream.initial()
    stream.latest(start, everything=False)
    (data / "_temporary" / "0").mkdir(parents=True)
    (data / "_temporary" / "0" / "a.json").write_text('{"id": 1}\n')
    (data / "b.json").write_text('{"id": 2}\n')

    ends, end = time.monotonic() + 20, start
    while end == start and time.monotonic() < ends:
        end = stream.latest(start, everything=False)
    last = stream.latest(end, everything=False)
    work = stream.work(start, last)
    stream.close()

    assert [split.path for one in work for split in one.splits] == [str(data / "b.json")]
