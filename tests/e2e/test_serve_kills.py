"""kill -9 of the server, of what it has started, and of both: an update and a plan are done once, and pages say so."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.e2e.test_schedules import wait_for
from tests.e2e.test_warm import WHOLE
from tests.tiers import cases
from tests.unit.serve.test_server import free_port

from headrace.cli.main import call
from headrace.events.reader import EventReader
from headrace.events.recorded import recorded_rows
from headrace.model.outcome import FlowState

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long(
        guard=(
            "tests/unit/project/test_requests.py::test_after_a_kill_what_waits_is_run_and_what_ran_is_found",
            "tests/unit/project/test_requests.py::test_the_verb_of_a_killed_server_is_waited_for",
            "tests/unit/serve/test_pages.py::test_an_update_whose_process_is_gone_is_lost_and_says_what_continues_it",
        )
    ),
]
API = "/api/v1/pipelines/shop"
DATASETS = ["orders_raw", "orders"]


class Service:
    """The server as a process, which may be killed and started again, and a client with its token."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.token = ""
        self.process: subprocess.Popen[str]
        self._port = free_port()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "serve", "--listen", f"127.0.0.1:{self._port}"],
            cwd=self.root,
            env={**os.environ, "XDG_CONFIG_HOME": str(self.root / "config")},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout
        self.process.stdout.readline()
        found = re.search(r"token=(\S+)", self.process.stdout.readline())
        self.token = found[1] if found else self.token
        wait_for(lambda: self.asked("/p/shop.json"), "the first page")

    def asked(self, path: str, body: Any = None, key: str = "") -> Any:
        """The answer to a request; None if there is no server, or it refuses."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        headers = {"Authorization": f"Bearer {self.token}"}
        if key:
            headers |= {"Content-Type": "application/json", "Idempotency-Key": key}
        try:
            connection.request("POST" if key else "GET", path, json.dumps(body) if key else None, headers)
            answer = connection.getresponse()
            found = answer.read()
        except OSError:
            return None
        finally:
            connection.close()
        return json.loads(found) if answer.status in (200, 202) else None

    def ask(self, path: str, body: Any, key: str) -> None:
        """Store a request, as a client that repeats it until it is taken."""
        wait_for(lambda: self.asked(API + path, body, key), f"request {key}")

    def report(self, key: str) -> Any:
        """What came of a request, at its end."""

        def ended() -> Any:
            found = self.asked(f"{API}/requests/{key}")
            return found if found and found["ended_at"] else None

        return wait_for(ended, f"the end of request {key}")


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.chdir(tmp_path)
    assert call(["--quiet", "init", "shop"]) == 0
    with running(Service(tmp_path / "shop")) as made:
        yield made


@contextmanager
def running(service: Service) -> Iterator[Service]:
    service.start()
    try:
        yield service
    finally:
        service.process.send_signal(signal.SIGTERM)
        service.process.communicate(timeout=240)


def reader_of(service: Service) -> EventReader:
    return EventReader(str(service.root / "storage" / "system" / "events"))


def totals(service: Service) -> dict[str, tuple[int, int, int]]:
    counts = reader_of(service).flow_totals()
    return {
        flow: (found.rows_written, found.rows_dropped, found.rows_quarantined)
        for flow, found in counts.items()
        if flow in WHOLE
    }


def updates(service: Service) -> list[Any]:
    return [row.event for row in recorded_rows(reader_of(service), "event_type = 'create_update'")]


def wait_until_writing(service: Service) -> int:
    """Wait until the first flow runs; the process of the update."""

    def is_running() -> bool:
        reader = reader_of(service)
        outcome = reader.outcome() if reader.exists else None
        return any(flow.state is FlowState.RUNNING for flow in (outcome.flows if outcome else ()))

    wait_for(is_running, "the first flow")
    children = psutil.Process(service.process.pid).children()
    (pid,) = [one.pid for one in children if {"run", "apply"} & set(one.cmdline())]
    return pid


def kill_worker(service: Service) -> None:
    workers = [one for one in psutil.Process(service.process.pid).children() if "headrace.worker" in one.cmdline()]
    assert workers
    for one in workers:
        one.kill()


def kill(service: Service, update: int, killed: str) -> str:
    """Kill processes, start the server again if it was one of them; the state that pages show once it is true."""
    server = service.process
    if killed != "update":
        server.kill()
        server.communicate()
    if killed != "server":
        os.kill(update, signal.SIGKILL)
    began = time.monotonic()
    if killed != "update":
        service.start()

    def shown() -> str | None:
        found = service.asked("/p/shop.json")
        if found is None:
            return None
        is_held = found["lease"]["is_held"]
        of_killed = is_held and found["lease"]["pid"] == update
        # It is running if its process lives; otherwise it is lost, or another process continues it.
        is_true = of_killed if killed == "server" else not of_killed and (is_held or found["state"] != "RUNNING")
        return found["state"] if is_true else None

    state = wait_for(shown, "the state")
    # For a reader of the output: how long that took.
    sys.stdout.write(f"after the kill of {killed}, {state} is shown after {time.monotonic() - began:.1f} s\n")
    return state


@pytest.mark.parametrize("killed", cases(["both"], ["update"]))
def test_an_update_is_done_once_when_processes_are_killed_in_it(service: Service, killed: str) -> None:
    """Guards real processes: the server sees that its update died, or finds out when it starts again."""
    service.ask("/updates", {"refresh": DATASETS}, "u")
    pid = wait_until_writing(service)

    state = kill(service, pid, killed)
    report = service.report("u")

    # Nobody has to ask again: another update goes on where the one that was killed has stopped.
    assert (state, report["state"]) == ("LOST", "COMPLETED"), report
    assert [update.request_id.partition("-")[0] for update in updates(service)] == ["u", "retry"]
    assert totals(service) == WHOLE
    assert service.asked("/p/shop.json")["state"] == "COMPLETED"


def test_an_update_goes_on_when_its_worker_is_killed(service: Service) -> None:
    """Guards that the update has the JVM, too, and that the server starts another worker for the next one."""
    service.ask("/updates", {"refresh": DATASETS}, "u")
    wait_until_writing(service)
    kill_worker(service)

    assert service.report("u")["state"] == "COMPLETED"
    service.ask("/updates", {"refresh": DATASETS}, "next")
    assert service.report("next")["state"] == "COMPLETED"
    assert totals(service) == WHOLE


@pytest.mark.parametrize("killed", cases(["server"], ["both"]))
def test_a_plan_is_applied_once_when_processes_are_killed_in_it(service: Service, killed: str) -> None:
    """Guards real processes: whoever asks again does not apply a plan again."""
    service.ask("/plans", {"refresh": DATASETS}, "p")
    plan_id = service.report("p")["result"]["plan_id"]
    service.ask(f"/plans/{plan_id}/apply", {}, "a")
    pid = wait_until_writing(service)

    state = kill(service, pid, killed)
    service.ask(f"/plans/{plan_id}/apply", {}, "a")
    report = service.report("a")

    if killed == "server":
        # The update lives on, and the next server waits for its end.
        assert (state, report["state"]) == ("RUNNING", "COMPLETED")
    else:
        assert (state, report["state"]) == ("LOST", "LOST")
        service.ask("/updates", {"refresh": DATASETS}, "u")
        assert service.report("u")["state"] == "COMPLETED"
    assert totals(service) == WHOLE
    assert [update.plan_id for update in updates(service)].count(plan_id) == 1
