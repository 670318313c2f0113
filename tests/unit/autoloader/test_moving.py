"""Projects that are moved or copied with their landing folder, and sources whose path leads elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from contextlib import closing

import pytest

from headrace.autoloader.discovery import Clock
from headrace.autoloader.pending_files import auto_loader_changes
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.stream import FileStream
from headrace.errors import PipelineError

CLOCK = Clock(time.time_ns, time.sleep)
SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
LEDGERS = "storage/checkpoints/default/orders/orders/auto_loader/0/_ledgers"


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "old" / "project"
    for name in ("a.json", "x/b.json"):
        land(folder / "landing" / "orders" / name, 1)
    return folder


def land(file, *ids):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps({"id": number}) + "\n" for number in ids))
    os.utime(file, (time.time() - 60,) * 2)


def source_of(project, path="landing/orders"):
    place = Place(project / LEDGERS, None, time.time_ns())
    return prepare({"cloudFiles.format": "json"}, str(project / path), SCHEMA, place)


def update(source, start=None):
    """An update: where it ends, and the names of the files that it has read."""
    with closing(FileStream(source, CLOCK)) as stream:
        stream.end_at_what_is_there()
        start = start or stream.initial()
        end = stream.latest(start, everything=True)
        names = sorted(os.path.basename(split.path) for work in stream.work(start, end) for split in work.splits)  # noqa: PTH119 - text
        stream.committed(end)
        return end, names


def moved(project, to):
    project.rename(to)


def copied(project, to):
    shutil.copytree(project, to)


def copied_without_times(project, to):
    shutil.copytree(project, to, copy_function=shutil.copyfile)
    for file in (to / "landing").rglob("*.json"):
        os.utime(file, (time.time() - 30,) * 2)


def copied_from_0_1(project, to):
    """Its ledgers say neither where they were nor what they read."""
    copied_without_times(project, to)
    (file,) = (to / LEDGERS).glob("*.ledger")
    with closing(sqlite3.connect(file)) as database:
        database.execute("delete from about where key in ('base', 'root', 'id')")
        database.execute("drop table changed")
        database.commit()


@pytest.mark.parametrize("take", [moved, copied, copied_without_times, copied_from_0_1])
def test_files_are_read_once_after_the_project_is_moved_or_copied(tmp_path, project, take):
    begin, first = update(source_of(project))
    there = tmp_path / "elsewhere" / "deep" / "project"
    there.parent.mkdir(parents=True)

    take(project, there)
    reason = auto_loader_changes(source_of(there), begin.to_json(), time.time)
    end, nothing = update(source_of(there), begin)
    quiet = auto_loader_changes(source_of(there), end.to_json(), time.time)
    land(there / "landing" / "orders" / "x" / "c.json", 1)
    _, second = update(source_of(there), end)

    assert (first, nothing, second) == (["a.json", "b.json"], [], ["c.json"])
    assert (reason, quiet) == ("its files are in another folder now", None)


def test_a_planned_batch_reads_files_at_their_new_location(tmp_path, project):
    with closing(FileStream(source_of(project), CLOCK)) as stream:
        begin = stream.initial()
        end = stream.latest(begin, everything=True)
    project.rename(tmp_path / "new")

    with closing(FileStream(source_of(tmp_path / "new"), CLOCK)) as stream:
        paths = [split.path for work in stream.work(begin, end) for split in work.splits]

    assert sorted(paths) == [str(tmp_path / "new" / "landing" / "orders" / name) for name in ("a.json", "x/b.json")]


def test_moving_only_the_source_folder_raises_an_error(project):
    end, _ = update(source_of(project))
    (project / "landing").rename(project / "incoming")

    with pytest.raises(PipelineError) as raised:
        update(source_of(project, "incoming/orders"), end)

    assert raised.value.code == "AUTO_LOADER.SOURCE_MOVED"
    assert raised.value.params["before"] == str(project / "landing" / "orders")


def test_another_source_folder_with_different_files_is_read(project):
    end, _ = update(source_of(project))
    land(project / "landing" / "bills" / "a.json", 1, 2, 3)
    land(project / "landing" / "bills" / "n.json", 1)

    end, names = update(source_of(project, "landing/bills"), end)
    _, more = update(source_of(project, "landing"), end)

    assert (names, more) == (["a.json", "n.json"], [])


def test_a_copied_project_with_changed_files_raises_an_error(tmp_path, project):
    end, _ = update(source_of(project))
    there = tmp_path / "there"
    copied(project, there)
    land(there / "landing" / "orders" / "a.json", 1, 2, 3)

    with pytest.raises(PipelineError, match=r"would be read again"):
        update(source_of(there), end)
