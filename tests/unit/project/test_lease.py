"""The lease: one holder at a time, taken over from the dead, lost by the slow. Real files and real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psutil
import pytest

from headrace.connectors.java import SPARK_PROGRAM, kept_by_option, started_by_option
from headrace.errors import PipelineError
from headrace.project.lease import Lease
from headrace.project.lease_holders import EXPIRES_AFTER_S, LeaseTiming, liveness, read_holder
from headrace.project.update.cluster_check import refuse_held_lease
from headrace.project.update.early_stop import StopSignals

HERE = "here"
# A holder that is dead: no process has this id.
DEAD_PID = 4_194_305
DEAD = {"python": {"pid": DEAD_PID, "started_at": 1000.0}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "storage" / "lease.json"


def lease(file: Path, host: str = HERE, now: float = 1000.0) -> Lease:
    return Lease(file, host, lambda: now, orphan_patience_s=0.1)


def test_a_held_lease_refuses_a_second_holder_and_names_the_first(file: Path) -> None:
    with lease(file), pytest.raises(PipelineError) as refused, lease(file):
        pass

    assert refused.value.code == "LEASE.HELD"
    assert refused.value.params["host"] == HERE


def test_an_update_on_a_cluster_is_refused_before_its_check_while_another_one_runs(file: Path) -> None:
    refuse_held_lease(file, HERE, lambda: 1000.0)
    with Lease(file, HERE, lambda: 1000.0, update_id="u"), pytest.raises(PipelineError) as refused:
        refuse_held_lease(file, HERE, lambda: 1000.0)
    refuse_held_lease(file, HERE, lambda: 1000.0)

    assert refused.value.code == "LEASE.HELD"


def test_the_lease_number_increases_each_time_the_lease_is_taken(file: Path) -> None:
    for expected in (1, 2, 3):
        with lease(file):
            assert read_holder(file).number == expected


def test_a_lease_held_on_another_host_cannot_be_taken_over_until_it_expires(file: Path) -> None:
    with lease(file, "there", now=1000.0):
        with pytest.raises(PipelineError), lease(file, now=1000.0 + EXPIRES_AFTER_S - 1):
            pass
        with lease(file, now=1000.0 + EXPIRES_AFTER_S):
            assert read_holder(file).host == HERE


def test_a_holder_cannot_commit_after_its_lease_was_taken_over(file: Path) -> None:
    told = []
    with lease(file, "there", now=1000.0) as slow:
        slow.when_lost(lambda: told.append("stop"))
        with lease(file, now=2000.0) as taker:
            taker.check()
            with pytest.raises(PipelineError) as lost:
                slow.check()

    assert lost.value.code == "LEASE.LOST"
    assert told == ["stop"]


def test_a_lease_that_was_taken_over_stays_held_when_the_former_holder_exits(file: Path) -> None:
    with lease(file, now=2000.0):
        taker = lease(file, "there", now=2000.0 + EXPIRES_AFTER_S)
        taker.__enter__()

    assert read_holder(file).host == "there"
    assert not read_holder(file).released
    taker.__exit__(None, None, None)


@contextmanager
def left_behind(file: Path, *words: str) -> Iterator[subprocess.Popen]:
    """A lease whose holder died, and the process that its file names as the JVM, with these words in its command."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", *words]) as named:
        try:
            with lease(file):
                said = json.loads(file.read_text())
            jvm = {"pid": named.pid, "started_at": psutil.Process(named.pid).create_time()}
            file.write_text(json.dumps({**said, **DEAD, "jvm": jvm}))
            yield named
        finally:
            named.kill()


def test_the_jvm_of_a_dead_holder_is_terminated_before_the_lease_is_taken(file: Path) -> None:
    with left_behind(file, SPARK_PROGRAM, started_by_option(DEAD_PID, 1000.0)) as jvm, lease(file):
        assert jvm.poll() is not None


def test_the_jvm_of_a_holder_that_lives_is_not_terminated_by_an_update_on_a_copy_of_the_storage(file: Path) -> None:
    holder = psutil.Process(os.getppid())
    words = (SPARK_PROGRAM, started_by_option(holder.pid, holder.create_time()))
    with left_behind(file, *words) as jvm:
        said = json.loads(file.read_text())
        file.write_text(json.dumps({**said, "python": {"pid": holder.pid, "started_at": holder.create_time()}}))
        with lease(file):
            pass
        assert jvm.poll() is None


def test_the_jvm_of_a_dead_holder_is_terminated_if_the_worker_that_kept_it_is_dead(file: Path) -> None:
    with left_behind(file, SPARK_PROGRAM, kept_by_option(DEAD_PID + 1, 1000.0)) as jvm, lease(file):
        assert jvm.poll() is not None


def test_a_jvm_that_a_worker_keeps_is_not_terminated(file: Path) -> None:
    worker = psutil.Process(os.getppid())
    with left_behind(file, SPARK_PROGRAM, kept_by_option(worker.pid, worker.create_time())) as jvm:
        with lease(file):
            pass
        assert jvm.poll() is None


@pytest.mark.parametrize(
    "words",
    [
        (),
        (SPARK_PROGRAM,),
        (SPARK_PROGRAM, started_by_option(DEAD_PID + 1, 1000.0)),
        (SPARK_PROGRAM, started_by_option(DEAD_PID, 5000.0)),
        (started_by_option(DEAD_PID, 1000.0),),
    ],
    ids=["no JVM", "a JVM of others", "of another process", "of a later process with its id", "not Spark"],
)
def test_a_process_in_the_lease_file_is_not_terminated_unless_it_is_the_holders_jvm(file: Path, words) -> None:
    with left_behind(file, *words) as other:
        with lease(file):
            pass
        assert other.poll() is None


FINE = {**DEAD, "number": 7, "host": HERE, "jvm": None, "held_since": 1.0, "renewed_at": 1.0, "released": False}


@pytest.mark.parametrize(
    "said",
    [
        b"\xff\xfe",
        b'{"number": 1, "ho',
        b"[" * 100_000,
        *(
            json.dumps({**FINE, key: value}).encode()
            for key, value in {
                "number": "a",
                "host": 3,
                "python": [],
                "jvm": {"pid": "1", "started_at": 1.0},
                "held_since": 1e300,
                "renewed_at": "x",
                "released": 0,
            }.items()
        ),
    ],
    ids=lambda said: said[:12].hex() if isinstance(said, bytes) else None,
)
def test_an_invalid_lease_file_does_not_block_a_new_holder(file: Path, said: bytes) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(said)

    with lease(file, "there") as taken:
        taken.check()
        assert read_holder(file).host == "there"


def test_an_unusable_lease_file_is_reported_with_the_reason(file: Path) -> None:
    file.mkdir(parents=True)

    with pytest.raises(PipelineError) as refused, lease(file):
        pass

    assert (refused.value.code, refused.value.params["reason"]) == ("LEASE.UNUSABLE", "Is a directory")


def test_a_holder_is_notified_when_a_folder_replaces_its_lease_file(file: Path) -> None:
    told = threading.Event()
    timing = LeaseTiming(renew_every_s=0.02, expires_after_s=0.1)

    with Lease(file, HERE, lambda: 1000.0, timing=timing) as held:
        held.when_lost(told.set)
        file.unlink()
        file.mkdir()

        assert told.wait(10)
        with pytest.raises(PipelineError) as refused:
            held.check()
    assert refused.value.code == "LEASE.LOST"


def test_a_dead_holder_whose_clock_was_ahead_does_not_block_a_takeover(file: Path) -> None:
    timing = LeaseTiming(renew_every_s=0.02, expires_after_s=0.1)
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({**FINE, "host": "there", "renewed_at": 9e8}))

    with Lease(file, HERE, lambda: 1000.0, timing=timing) as taken:
        assert taken.number == 8


def test_a_live_holder_whose_clock_is_ahead_keeps_its_lease(file: Path) -> None:
    timing = LeaseTiming(renew_every_s=0.02, expires_after_s=2.0)
    ahead = count(9e8)

    with (
        Lease(file, "there", lambda: next(ahead), timing=timing),
        pytest.raises(PipelineError) as refused,
        Lease(file, HERE, lambda: 1000.0, timing=timing),
    ):
        pass

    assert refused.value.params["host"] == "there"


def test_a_stop_request_reaches_an_update_that_was_resolved_again():
    stop, asked = threading.Event(), threading.Event()
    with StopSignals(stop) as stop_signals:
        with stop_signals.on_stop(lambda: None):
            pass
        with stop_signals.on_stop(asked.set):
            stop.set()

            assert asked.wait(10)


@pytest.mark.parametrize(
    ("host", "renewed_at", "released", "held"),
    [
        ("there", 990.0, False, True),
        ("there", 900.0, False, False),
        ("there", 990.0, True, False),
        ("there", 9e8, False, False),
        (HERE, 990.0, False, False),
    ],
    ids=["seen lately", "not seen", "released", "dead, with a clock ahead", "dead on this host"],
)
def test_a_lease_is_held_while_its_holder_lives(file: Path, host, renewed_at, released, held) -> None:
    timing = LeaseTiming(renew_every_s=0.02, expires_after_s=30.0 if renewed_at < 9e8 else 0.1)
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({**FINE, "host": host, "renewed_at": renewed_at, "released": released}))

    found = liveness(file, HERE, lambda: 1000.0, timing=timing)

    # Version 0.1 did not record the update: the latest one may run while the lease is held.
    assert (found.is_held, found.may_run("any")) == (held, held)


def test_readers_learn_which_update_the_lease_is_for(file: Path) -> None:
    with Lease(file, HERE, lambda: 1000.0, update_id="new"):
        found = liveness(file, HERE, lambda: 1000.0)
    with lease(file):
        repair = liveness(file, HERE, lambda: 1000.0)

    assert (found.may_run("new"), found.may_run("killed before")) == (True, False)
    assert (repair.is_held, repair.may_run("killed before")) == (True, False)


def test_a_second_signal_interrupts_batches_and_a_third_calls_the_previous_handler() -> None:
    told = []
    broken_off = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_given: told.append("before"))
    try:
        with StopSignals(None) as stop_signals:
            with stop_signals.on_stop(lambda: told.append("asked"), broken_off.set):
                signal.raise_signal(signal.SIGTERM)
                assert not broken_off.is_set()
                signal.raise_signal(signal.SIGTERM)
                assert broken_off.wait(10)
                signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert told == ["asked", "before", "before", "before"]
