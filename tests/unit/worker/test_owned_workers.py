"""With which words and variables verbs run in the worker of the process that owns it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from headrace.worker.client import BUSY_VARIABLE, START_VARIABLE, run_warm
from headrace.worker.control import WorkerControl, WorkerStatus
from headrace.worker.owned_workers import OwnedWorkers, OwnerOptions


class SleepingControl(WorkerControl):
    """The control of a worker that is a process which sleeps, and is what a test says."""

    def __init__(self, root, states):
        super().__init__(root, {})
        self.process, self.states, self.name = None, states, root.name

    def spawn(self, idle_s, owner):
        assert owner == os.getpid()
        self.process = subprocess.Popen(["sleep", str(idle_s)])
        return self.process

    def status(self):
        state = self.states.get(self.name)
        return state and WorkerStatus(1, state, None, None, 0, 0, None, 1.0)

    def ask_to_stop(self):
        self.process.kill()


def owner(**given) -> OwnedWorkers:
    return OwnedWorkers(OwnerOptions(0, **given), {"PATH": "/bin"}, lambda _line: None)


@pytest.mark.parametrize(
    ("words", "is_continuous", "expected", "variables"),
    [
        (["run", "--refresh=a"], False, ["run", "--wait", "--refresh=a"], {}),
        (["run", "--continuous"], False, ["run", "--cold", "--continuous"], {}),
        (["run"], True, ["run", "--cold"], {}),
        (["plan"], True, ["plan"], {BUSY_VARIABLE: "cold"}),
        (["plan", "--wait"], False, ["plan", "--wait"], {}),
        (["maintain", "--dry-run"], False, ["maintain", "--dry-run"], {}),
    ],
)
def test_updates_wait_for_the_worker_and_what_reads_does_not(words, is_continuous, expected, variables):
    found, environ = owner().prepared(Path("/shop"), words, is_continuous=is_continuous)

    assert (found, environ) == (expected, {"PATH": "/bin", **variables})


def test_without_workers_nothing_is_started_and_nothing_to_wait_for(tmp_path):
    workers = owner()

    assert not workers.wanted(tmp_path)
    assert START_VARIABLE not in workers.prepared(tmp_path, ["plan"])[1]
    workers.close()


def test_a_verb_waits_until_the_worker_listens_and_no_longer_than_it_is_told(tmp_path):
    (tmp_path / "pipeline.yml").write_text("name: shop\n")
    environ = {"HEADRACE_WORKER_DIR": str(tmp_path / "w"), START_VARIABLE: "0.1"}
    started = time.monotonic()

    answer = run_warm(["plan"], tmp_path, {**os.environ, **environ})

    assert (answer.code, answer.busy, answer.reason) == (None, None, "")
    assert time.monotonic() - started >= 0.1


def test_a_project_that_needs_a_worker_gets_the_place_of_one_that_is_idle_and_waits_for_one_that_is_busy(tmp_path):
    states: dict[str, str] = {}
    workers = OwnedWorkers(
        OwnerOptions(1, 600), {}, lambda _line: None, control_of=lambda root, _environ: SleepingControl(root, states)
    )
    one, two = tmp_path / "one", tmp_path / "two"

    assert workers.wanted(one)
    assert workers.wanted(one)
    states["one"] = "busy"
    assert not workers.wanted(two)
    states["one"] = "idle"
    # The idle one is asked to end now.
    assert not workers.wanted(two)
    del states["one"]
    while not workers.wanted(two):
        time.sleep(0.001)
    assert not workers.wanted(one)
    workers.close()


def test_a_worker_that_somebody_else_has_started_is_used_unless_it_stops(tmp_path):
    states = {"shop": "busy"}
    workers = OwnedWorkers(
        OwnerOptions(1, 600), {}, lambda _line: None, control_of=lambda root, _environ: SleepingControl(root, states)
    )

    assert workers.wanted(tmp_path / "shop")
    states["shop"] = "stopping"
    assert not workers.wanted(tmp_path / "shop")
    workers.close()
