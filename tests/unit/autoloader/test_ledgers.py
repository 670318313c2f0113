"""Ledgers that are not the ones that a checkpoint has read through, or that are damaged, and copies of them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from headrace.autoloader.discovery import Clock
from headrace.autoloader.ledger.ledger import Ledger
from headrace.autoloader.ledger.positions import LedgerState, offset_problem, position_problem
from headrace.autoloader.pending_files import auto_loader_backlog, auto_loader_changes
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.stream import FileStream
from headrace.errors import PipelineError

CLOCK = Clock(time.time_ns, time.sleep)
SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


@pytest.fixture
def source(tmp_path, data):
    place = Place(tmp_path / "ledgers", None, time.time_ns())
    return prepare({"cloudFiles.format": "json"}, str(data), SCHEMA, place)


@pytest.fixture
def update(data, source):
    """An update that reads a new file behind an offset; where it ends, and the ledger's file."""
    names = iter("abcdefgh")

    def done(start=None):
        file = data / f"{next(names)}.json"
        file.write_text(json.dumps({"id": 1}))
        os.utime(file, (time.time() - 60,) * 2)
        stream = FileStream(source, CLOCK)
        end = stream.latest(start or stream.initial(), everything=True)
        assert stream.work(start or end, end) or start is None
        stream.committed(end)
        return end, Path(source.ledgers) / f"{end.ledger}.ledger"

    return done


def code_of(call, *arguments):
    with pytest.raises(PipelineError) as raised:
        call(*arguments)
    return raised.value.code


def cut(file, old):
    os.truncate(file, file.stat().st_size // 2)


def emptied(file, old):
    os.truncate(file, 0)


def overwritten(file, old):
    file.write_bytes(b"\x00" * file.stat().st_size)


def scratched(file, old):
    content = bytearray(file.read_bytes())
    content[4096:12_288] = os.urandom(8192)
    file.write_bytes(content)


def without_files(file, old):
    with closing(sqlite3.connect(file)) as database:
        database.execute("drop table files")
        database.commit()


def another(file, old):
    made = Ledger.create(file.parent.parent / "others")
    made.close()
    shutil.copy(made.file, file)


def gone(file, old):
    file.unlink()


def put_back(file, old):
    shutil.copy(old, file)


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (cut, "LEDGER_DAMAGED"),
        (emptied, "LEDGER_DAMAGED"),
        (overwritten, "LEDGER_DAMAGED"),
        (scratched, "LEDGER_DAMAGED"),
        (without_files, "LEDGER_DAMAGED"),
        (another, "LEDGER_OF_ANOTHER"),
        (gone, "LEDGER_MISSING"),
        (put_back, "LEDGER_OLDER"),
    ],
)
def test_a_damaged_missing_or_replaced_ledger_stops_the_stream(tmp_path, source, update, harm, code):
    end, file = update()
    shutil.copy(file, tmp_path / "old")
    end, _ = update(end)
    harm(file, tmp_path / "old")

    stream = FileStream(source, CLOCK)

    assert code_of(lambda: stream.latest(end, everything=True)) == f"AUTO_LOADER.{code}"
    assert offset_problem(source.ledgers, end.to_json()).code == f"AUTO_LOADER.{code}"
    assert auto_loader_changes(source, end.to_json(), time.time) is not None
    if code != "LEDGER_OLDER":
        assert auto_loader_backlog(source, end.to_json()) is None


def test_a_checkpoint_older_than_its_ledger_stops_the_stream(source, update):
    first, _ = update()
    second, _ = update(first)

    stream = FileStream(source, CLOCK)

    assert code_of(lambda: stream.latest(first, everything=True)) == "AUTO_LOADER.LEDGER_NEWER"
    assert (
        FileStream(source, CLOCK).work(first, second),
        FileStream(source, CLOCK).latest(second, everything=True),
    ) == (FileStream(source, CLOCK).work(first, second), second)


@pytest.mark.parametrize(
    ("last", "committed", "planned", "code"),
    [(5, 3, 3, None), (5, 3, 5, None), (5, 5, 5, None), (5, 3, 6, "LEDGER_OLDER"), (5, 3, 2, "LEDGER_NEWER")],
)
def test_a_position_must_lie_between_the_committed_and_the_last_file(last, committed, planned, code):
    problem = position_problem(LedgerState("x.ledger", last, committed), planned)

    assert (problem and problem.code) == (code and f"AUTO_LOADER.{code}")


def test_a_copied_ledger_file_is_complete_after_a_batch(tmp_path, update):
    end, file = update()
    end, _ = update(end)
    (tmp_path / "copy").mkdir()

    shutil.copy(file, tmp_path / "copy")

    with closing(Ledger.open(tmp_path / "copy", end.ledger)) as copy:
        assert LedgerState.of(copy) == LedgerState(str(copy.file), 2, 2)


def test_a_copied_ledger_file_is_complete_after_a_stream_excludes_existing_files(tmp_path, data):
    (data / "a.json").write_text("{}")
    os.utime(data / "a.json", (time.time() - 60,) * 2)
    given = {"cloudFiles.format": "json", "cloudFiles.includeExistingFiles": "false"}
    source = prepare(given, str(data), SCHEMA, Place(tmp_path / "ledgers", None, time.time_ns()))
    stream = FileStream(source, CLOCK)
    begin = stream.initial()
    (tmp_path / "copy").mkdir()

    shutil.copy(tmp_path / "ledgers" / f"{begin.ledger}.ledger", tmp_path / "copy")

    with closing(Ledger.open(tmp_path / "copy", begin.ledger)) as copy:
        assert (begin.number, LedgerState.of(copy)) == (1, LedgerState(str(copy.file), 1, 1))


def test_a_ledger_locked_by_another_writer_raises_an_error(source, update, monkeypatch):
    monkeypatch.setattr("headrace.autoloader.ledger.connection.BUSY_S", 0.01)
    end, file = update()
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("begin immediate")

    stream = FileStream(source, CLOCK)

    assert code_of(lambda: stream.committed(end.__class__(end.ledger, 7))) == "AUTO_LOADER.LEDGER_FAILS"
    other.close()
