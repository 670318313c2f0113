"""Workers that `headrace serve` and `headrace dev` own, as processes. Their Java is a script, so that no JVM starts."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.command_line import PROGRAM
from tests.e2e.test_worker_process import DEADLINE_S, Project, wait_until
from tests.unit.serve.test_server import free_port, post, report

GUARDS = (
    "tests/unit/worker/test_owned_workers.py::test_updates_wait_for_the_worker_and_what_reads_does_not",
    "tests/unit/project/test_development.py::test_saves_in_quick_succession_are_one",
    "tests/unit/cli/test_dev.py::test_each_save_shows_its_problems_or_how_the_plan_changes",
)
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600), pytest.mark.long(guard=GUARDS)]
URL = "/api/v1/pipelines/worker"


class Owned(Project):
    """A project without a worker, and processes that own one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.environ["XDG_CONFIG_HOME"] = str(folder / "config")
        self.port = free_port()
        self.token = ""

    @contextmanager
    def owner(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A process that serves until the end of the block."""
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        process = subprocess.Popen(
            [PROGRAM, *words], cwd=self.root, env=self.environ, stdout=pipe, stdin=none, text=True
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    @contextmanager
    def serving(self) -> Iterator[subprocess.Popen[str]]:
        """The server, which answers."""
        with self.owner("serve", "--listen", f"127.0.0.1:{self.port}") as server:
            assert server.stdout
            server.stdout.readline()
            found = re.search(r"token=(\S+)", server.stdout.readline())
            self.token = found[1] if found else self.token
            yield server

    def request(self, key: str, path: str = "/validate") -> str:
        """Ask for something; returns the id of the request."""
        status, body = post(self.port, URL + path, self.token, key)
        assert status == 202, body
        return str(json.loads(body)["id"])

    def state(self, key: str) -> Any:
        """The state of a request."""
        return report(self.port, f"{URL}/requests/{key}", self.token)["state"]

    def processes(self) -> list[psutil.Process]:
        """All processes of the project."""
        root, own = str(self.root), os.getpid()
        return [
            process
            for process in psutil.process_iter(["cmdline"])
            if root in " ".join(process.info["cmdline"] or []) and process.pid != own
        ]


@pytest.fixture
def project() -> Iterator[Owned]:
    folder = Path(tempfile.mkdtemp(prefix="ho-"))
    owned = Owned(folder)
    yield owned
    owned.let_go()
    wait_until(lambda: not owned.processes())
    shutil.rmtree(folder)


def test_a_server_that_is_killed_leaves_no_worker_that_keeps_the_next_one_from_its_work(project: Owned) -> None:
    with project.serving() as server:
        project.request("first")
        wait_until(lambda: project.state("first") == "FAILED")
        worker = project.status().pid
        project.hold()
        project.request("second")
        wait_until(lambda: project.status().state == "busy")
        server.send_signal(signal.SIGKILL)
        server.wait(DEADLINE_S)
        wait_until(lambda: project.status().state == "stopping")

        with project.serving():
            project.let_go()
            wait_until(lambda: (found := project.found()) is None or found.pid != worker)
            project.request("third")
            wait_until(lambda: project.state("third") == "FAILED")
            wait_until(lambda: project.state("second") == "FAILED")
            wait_until(lambda: project.found() is not None)


def test_a_worker_that_dies_is_started_again_and_ends_with_its_server(project: Owned) -> None:
    with project.serving() as server:
        project.request("first")
        wait_until(lambda: project.state("first") == "FAILED")
        first = project.status().pid
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: (found := project.found()) is not None and found.pid != first)

        server.send_signal(signal.SIGTERM)

        assert server.wait(DEADLINE_S) == 0
        assert project.found() is None
        assert not project.processes()


def test_dev_checks_after_a_save_and_leaves_no_process_behind(project: Owned) -> None:
    with project.owner("dev", "--no-browser", "--output", "json", "--listen", f"127.0.0.1:{project.port}") as dev:
        assert dev.stdout
        first = json.loads(dev.stdout.readline())
        (project.root / "transformations" / "a.py").write_text("def broken(:\n")
        second = json.loads(dev.stdout.readline())
        assert project.found() is not None
        dev.send_signal(signal.SIGINT)
        code = dev.wait(DEADLINE_S)

    assert (first["phase"], second["phase"], second["saved"]) == ("broken", "broken", ["transformations/a.py"])
    assert second["problems"][0]["hint"]
    assert (code, project.processes(), project.found()) == (0, [], None)
