"""The worker and the verbs that it runs as processes. Its Java is a script that waits, so that no JVM starts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.command_line import PROGRAM

from headrace.worker.control import WorkerControl, WorkerStatus

pytestmark = pytest.mark.e2e
DEADLINE_S = 60.0
_JAVA = """\
#!/bin/sh
echo $$ >> {folder}/started
while [ -e {folder}/wait ]; do sleep 0.01; done
echo "no version" >&2
"""
_CODE = "from headrace import pipelines as dp\n\n\n@dp.table\ndef a():\n    return spark.range(1)\n"


class Project:
    """A project whose worker runs, with a Java that can be made to wait."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self._java = folder / "java"
        self.environ = {**os.environ, "HEADRACE_WORKER_DIR": str(folder / "w"), "JAVA_HOME": str(self._java)}
        (self._java / "bin").mkdir(parents=True)
        program = self._java / "bin" / "java"
        program.write_text(_JAVA.format(folder=self._java))
        program.chmod(0o755)
        (self.root / "transformations").mkdir(parents=True)
        (self.root / "transformations" / "a.py").write_text(_CODE)
        (self.root / "pipeline.yml").write_text("name: worker\n")

    def popen(self, *words: str, **changed: str) -> subprocess.Popen[str]:
        """A verb as a process."""
        environ = {**self.environ, **changed}
        pipe = subprocess.PIPE
        return subprocess.Popen([PROGRAM, *words], cwd=self.root, env=environ, stdout=pipe, stderr=pipe, text=True)

    def call(self, *words: str, **changed: str) -> tuple[int, str, str]:
        """The exit code of a verb, and what it printed."""
        process = self.popen(*words, **changed)
        out, err = process.communicate(timeout=DEADLINE_S)
        return process.returncode, out, err

    def status(self) -> WorkerStatus:
        """What the worker says about itself."""
        found = self.found()
        assert found is not None
        return found

    def found(self) -> WorkerStatus | None:
        """The same; None if no worker runs."""
        return WorkerControl(self.root, self.environ).status()

    def hold(self) -> None:
        """Make verbs that start Java wait."""
        (self._java / "wait").touch()

    def let_go(self) -> None:
        """Let them go on."""
        (self._java / "wait").unlink(missing_ok=True)

    def busy(self) -> subprocess.Popen[str]:
        """A verb that waits in the worker."""
        self.hold()
        started = self._java / "started"
        before = started.read_text()
        process = self.popen("plan")
        wait_until(lambda: started.read_text() != before)
        return process


@pytest.fixture(scope="module")
def running() -> Iterator[Project]:
    folder = Path(tempfile.mkdtemp(prefix="hw-"))
    project = Project(folder)
    code, _out, err = project.call("worker", "start")
    assert code == 0, err
    yield project
    project.let_go()
    assert project.call("worker", "stop", "--now")[0] == 0
    shutil.rmtree(folder)


@pytest.fixture
def project(running: Project) -> Iterator[Project]:
    yield running
    running.let_go()
    wait_until(lambda: running.status().state == "idle")


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_verb_prints_and_exits_as_without_the_worker(project: Project) -> None:
    before = project.status().verbs

    for words in (("explain", "LEASE.HELD"), ("plan",), ("plan", "--nonsense"), ("--output", "json", "plan")):
        warm, cold = project.call(*words), project.call(*words, "--cold")

        assert warm[0] == cold[0]
        assert warm[1].replace(" --cold", "") == cold[1].replace(" --cold", "")
        assert warm[2] == cold[2]
    assert project.status().verbs == before + 4


def test_a_verb_with_another_environment_runs_without_the_worker_and_says_so_if_asked(project: Project) -> None:
    before = project.status().verbs

    verbose = project.call("-v", "explain", "LEASE.HELD", MY_VAR="secret value")
    silent = project.call("explain", "LEASE.HELD", MY_VAR="secret value")

    assert verbose[2] == "runs cold: different from the worker: MY_VAR\n"
    assert silent[2] == ""
    assert verbose[0] == silent[0] == 0
    assert project.status().verbs == before


def test_a_verb_exits_with_3_or_waits_when_the_worker_is_busy(project: Project) -> None:
    first = project.busy()

    code, _out, err = project.call("explain", "LEASE.HELD")
    as_json = project.call("--output", "json", "plan")
    waiting = project.popen("explain", "LEASE.HELD", "--wait")
    wait_until(lambda: project.status().waiting == 1)
    cold = project.call("explain", "LEASE.HELD", "--cold")
    project.let_go()

    assert code == as_json[0] == 3
    assert "error[WORKER.BUSY]" in err
    assert json.loads(as_json[1])["error"]["code"] == "WORKER.BUSY"
    assert cold[0] == 0
    assert first.wait(DEADLINE_S) == 2
    assert waiting.communicate(timeout=DEADLINE_S)[0].startswith("LEASE.HELD")
    assert waiting.returncode == 0


def test_a_verb_right_after_another_one_finds_the_worker_free(project: Project) -> None:
    """Guards the moment in which the caller of a verb knows of its end, and its process still lives."""
    program = (
        "import os; from pathlib import Path; from headrace.worker.client import run_warm\n"
        "answers = [run_warm(('explain', 'LEASE.HELD'), Path(), os.environ) for _ in range(10)]\n"
        "exit(str([answer for answer in answers if answer.code != 0] or '') or 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=project.root, env=project.environ)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_verb_ends_with_its_caller(project: Project, number: signal.Signals) -> None:
    first = project.busy()
    verb = project.status().verb_pid

    first.send_signal(number)

    assert first.wait(DEADLINE_S) == (-9 if number is signal.SIGKILL else 130)
    wait_until(lambda: not psutil.pid_exists(verb))
    wait_until(lambda: project.status().state == "idle")


def test_a_caller_that_waits_can_leave(project: Project) -> None:
    first = project.busy()
    waiting = project.popen("plan", "--wait")
    wait_until(lambda: project.status().waiting == 1)

    waiting.send_signal(signal.SIGINT)

    assert waiting.wait(DEADLINE_S) == 130
    wait_until(lambda: project.status().waiting == 0)
    first.kill()
    first.wait(DEADLINE_S)


def test_a_caller_dies_as_its_verb_does(project: Project) -> None:
    first = project.busy()

    os.kill(project.status().verb_pid, signal.SIGKILL)

    assert first.wait(DEADLINE_S) == -signal.SIGKILL


@pytest.mark.long(
    guard=(
        "tests/e2e/test_worker_process.py::test_a_caller_dies_as_its_verb_does",
        "tests/unit/worker/test_place.py::test_no_worker_is_found_when_its_socket_is_missing_or_stale",
    )
)
def test_a_verb_outlives_a_worker_that_is_killed() -> None:
    folder = Path(tempfile.mkdtemp(prefix="hw-"))
    project = Project(folder)
    assert project.call("worker", "start")[0] == 0
    first = project.busy()

    os.kill(project.status().pid, signal.SIGKILL)
    project.let_go()

    assert first.wait(DEADLINE_S) == 2
    assert project.call("explain", "LEASE.HELD")[0] == 0
    assert json.loads(project.call("--output", "json", "worker", "status")[1]) == {"state": "not running"}
    # Its socket is left, and is no obstacle.
    assert project.call("worker", "start")[0] == 0
    assert project.call("worker", "stop")[0] == 0
    shutil.rmtree(folder)


@pytest.mark.long(
    guard=(
        "tests/unit/worker/test_modules.py::test_an_installed_or_removed_package_is_found",
        "tests/e2e/test_worker_process.py::test_a_verb_with_another_environment_runs_without_the_worker_and_says_so_if_asked",
    )
)
def test_the_worker_starts_again_when_a_package_was_installed() -> None:
    folder = Path(tempfile.mkdtemp(prefix="hw-"))
    project = Project(folder)
    packages = folder / "packages"
    packages.mkdir()
    project.environ["PYTHONPATH"] = str(packages)
    assert project.call("worker", "start")[0] == 0
    assert project.call("explain", "LEASE.HELD")[0] == 0
    assert project.status().verbs == 1

    (packages / "installed.py").touch()
    first = project.call("-v", "explain", "LEASE.HELD")
    wait_until(lambda: (found := project.found()) is not None and found.state == "idle" and found.verbs == 0)
    second = project.call("-v", "explain", "LEASE.HELD")

    assert first[2] == f"runs cold: {packages} has changed since the worker started\n"
    assert (first[0], second[0], second[2]) == (0, 0, "")
    assert project.call("worker", "stop")[0] == 0
    shutil.rmtree(folder)


def test_the_socket_is_for_the_user_alone(project: Project) -> None:
    folder = Path(project.environ["HEADRACE_WORKER_DIR"])

    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.suffix: file.stat().st_mode & 0o177 for file in folder.iterdir() if file.suffix == ".sock"} == {
        ".sock": 0
    }


def test_a_verb_sees_its_own_folder_and_variables(project: Project, tmp_path: Path) -> None:
    before = project.status().verbs
    environ = {**project.environ, "HEADRACE_PROFILE": "missing"}
    command = [PROGRAM, "--project", os.path.relpath(project.root, tmp_path), "plan"]

    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "missing" in done.stderr
    assert project.status().verbs == before + 1
