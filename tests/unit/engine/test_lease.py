"""The lease: one holder at a time, taken over from the dead, lost by the slow. Real files and real processes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace.errors import PipelineError
from headrace.project.ending import Ending
from headrace.project.lease import EXPIRES_AFTER_S, Lease, Process, read_holder

HERE = "here"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "storage" / "lease.json"


def lease(file: Path, host: str = HERE, now: float = 1000.0) -> Lease:
    return Lease(file, host, lambda: now, orphan_patience_s=0.1)


def test_a_second_holder_is_refused_and_the_first_named_when_the_lease_is_held(file: Path) -> None:
    with lease(file), pytest.raises(PipelineError) as refused, lease(file):
        pass

    assert refused.value.code == "LEASE.HELD"
    assert refused.value.params["host"] == HERE


def test_the_number_grows_when_the_lease_is_taken_again(file: Path) -> None:
    for expected in (1, 2, 3):
        with lease(file):
            assert read_holder(file).number == expected


def test_a_holder_on_another_host_is_respected_until_it_was_not_seen_for_a_while(file: Path) -> None:
    with lease(file, "there", now=1000.0):
        with pytest.raises(PipelineError), lease(file, now=1000.0 + EXPIRES_AFTER_S - 1):
            pass
        with lease(file, now=1000.0 + EXPIRES_AFTER_S):
            assert read_holder(file).host == HERE


def test_a_holder_may_not_commit_any_more_when_it_was_taken_over(file: Path) -> None:
    told = []
    with lease(file, "there", now=1000.0) as slow:
        slow.when_lost(lambda: told.append("stop"))
        with lease(file, now=2000.0) as taker:
            taker.check()
            with pytest.raises(PipelineError) as lost:
                slow.check()

    assert lost.value.code == "LEASE.LOST"
    assert told == ["stop"]


def test_the_taker_keeps_the_lease_when_the_one_it_was_taken_from_ends(file: Path) -> None:
    with lease(file, now=2000.0):
        taker = lease(file, "there", now=2000.0 + EXPIRES_AFTER_S)
        taker.__enter__()

    assert read_holder(file).host == "there"
    assert not read_holder(file).released
    taker.__exit__(None, None, None)


def test_what_lives_of_a_dead_holder_is_ended_before_the_lease_is_taken(file: Path) -> None:
    orphan = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    dead = subprocess.Popen([sys.executable, "-c", ""])
    try:
        with lease(file) as first:
            first.names_jvm(orphan.pid)
            left_behind = json.loads(file.read_text())
        left_behind["python"]["pid"] = dead.pid
        file.write_text(json.dumps(left_behind))

        with lease(file):
            assert not Process(orphan.pid, left_behind["jvm"]["started_at"]).lives
    finally:
        orphan.kill()
        orphan.wait()
        dead.wait()


def test_a_torn_file_is_no_holder(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_text('{"number": 1, "ho')

    assert read_holder(file) is None


def test_an_update_that_is_resolved_again_still_hears_that_it_is_to_stop():
    stop, asked = threading.Event(), threading.Event()
    with Ending(stop) as ending:
        with ending.asked_with(lambda: None):
            pass
        with ending.asked_with(asked.set):
            stop.set()

            assert asked.wait(10)
