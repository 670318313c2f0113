"""The files that a stream of Spark's file source has not read."""

from __future__ import annotations

import json
import os

import pytest

from headrace.graph.analysis import Source, SourceKind
from headrace.model.outcome import SourceLag
from headrace.spark.monitoring import unread_files
from headrace.spark.monitoring.unread_files import UnreadFiles


@pytest.fixture
def landing(tmp_path):
    """A folder with two files, and the checkpoint of a stream that has read the first one."""
    folder, log = tmp_path / "landing", tmp_path / "checkpoint" / "sources" / "0"
    folder.mkdir()
    log.mkdir(parents=True)
    for name, modified_at in (("1.json", 900.0), ("2.json", 940.0)):
        (folder / name).write_text("{}\n")
        os.utime(folder / name, (modified_at, modified_at))
    seen = {"path": f"file://{folder}/1.json", "timestamp": 900_000, "batchId": 0}
    (log / "0").write_text(f"v1\n{json.dumps(seen)}")
    return folder


def watch(landing, now):
    source = Source(SourceKind.FILES, json.dumps({"paths": [str(landing)], "recursive": False}))
    return UnreadFiles(source, 0, landing.parent / "checkpoint", now)


def test_unread_files_have_a_number_bytes_and_the_age_of_the_oldest(landing):
    assert watch(landing, lambda: 1000.0).lag(last=False) == SourceLag(
        str(landing), "files", files=1, size=3, seconds=60.0
    )


def test_a_folder_is_listed_once_a_minute_and_at_the_end(landing):
    moments = iter([1000.0, 1030.0, 1040.0])
    files = watch(landing, lambda: next(moments))
    found = [files.lag(last=False)]
    (landing / "2.json").unlink()
    found += [files.lag(last=False), files.lag(last=True)]

    assert [lag.files for lag in found] == [1, 1, 0]
    assert found[-1].seconds == 0


def test_lag_is_unknown_without_the_folder_and_with_too_many_files(landing, monkeypatch):
    monkeypatch.setattr(unread_files, "_MAX_FILES", 1)

    assert watch(landing, lambda: 1000.0).lag(last=False) is None
    assert watch(landing / "gone", lambda: 1000.0).lag(last=False) is None
