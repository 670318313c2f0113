"""A process that is killed cannot end its runs: the next update does, each once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from tests.lineage_schemas import check_run_event

from headrace.cli.main import call

GUARD = "tests/unit/lineage/test_lost_updates.py::test_the_runs_of_a_killed_update_are_aborted_once_by_the_next_one"
pytestmark = [pytest.mark.e2e, pytest.mark.long(guard=GUARD)]
HEADRACE = [sys.executable, "-m", "headrace"]
DEADLINE_S = 180.0
ENDS = {"COMPLETE", "FAIL", "ABORT"}


def sent(folder):
    file = folder / "sent.jsonl"
    # The last line may be half written while it is read.
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    events = [json.loads(line) for line in lines]
    for event in events:
        check_run_event(event)
    return events


def wait_until_runs_are_open(folder):
    """Until a receiver knows of runs that go on: those of streams do, until the update is stopped."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if len({event["run"]["runId"] for event in sent(folder)}) > sum(e["eventType"] in ENDS for e in sent(folder)):
            return
        time.sleep(0.02)
    pytest.fail(f"no run began in {DEADLINE_S:g} s")


def test_the_runs_of_a_killed_process_are_aborted_by_the_next_update(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(["--quiet", "init", "shop"]) == 0
    shop = tmp_path / "shop"
    settings = shop / "pipeline.yml"
    settings.write_text(f"{settings.read_text()}\nlineage: {{transports: {{lake: {{file: sent.jsonl}}}}}}\n")

    killed = subprocess.Popen(
        [*HEADRACE, "run", "--continuous"],
        cwd=shop,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until_runs_are_open(shop)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    before = {event["run"]["runId"] for event in sent(shop)}
    for _ in range(2):
        subprocess.run([*HEADRACE, "run"], cwd=shop, capture_output=True, check=True)

    by_run = {}
    for event in sent(shop):
        by_run.setdefault(event["run"]["runId"], []).append(event["eventType"])
    assert before <= set(by_run)
    assert [kinds for kinds in by_run.values() if [kind for kind in kinds if kind in ENDS] != [kinds[-1]]] == []
    assert {by_run[run_id][-1] for run_id in before} & {"ABORT"}
