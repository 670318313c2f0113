"""Verbs run in processes of their own, which end; a program stands for the command line."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from headrace.mcp.processes import ProjectChoice, VerbProcesses
from headrace.mcp.verbs import VerbFailedError

PROGRAM = """
import json, os, signal, subprocess, sys, time
mode = sys.argv[-1]
if mode == "child":
    # A child that outlives its parent's own signal handling.
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(child.pid, flush=True)
    open(os.environ["PIDS"], "w").write(f"{os.getpid()} {child.pid}")
    time.sleep(600)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(os.environ["PIDS"], "w").write(str(os.getpid()))
    time.sleep(600)
if mode == "loud":
    while True:
        print("x" * 10_000)
print(json.dumps({"words": sys.argv[1:], "cwd": os.getcwd(), "stdin": sys.stdin.read()}))
print("note", file=sys.stderr)
sys.exit(3)
"""


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    package, project = tmp_path / "lib" / "headrace", tmp_path / "project"
    package.mkdir(parents=True)
    project.mkdir()
    monkeypatch.chdir(tmp_path)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(PROGRAM)
    # A file of the project with the name of a module of Python.
    (project / "json.py").write_text("raise SystemExit('the project ran')")
    environ = {**os.environ, "PYTHONPATH": str(package.parent), "PIDS": str(tmp_path / "pids")}
    return VerbProcesses(ProjectChoice(Path("project"), "prod"), environ, most_output_bytes=100_000, grace_s=0.2)


def state(pid: int) -> str:
    """The state of a process in one letter; Z if it has ended and nobody has waited for it, as if it were gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "Z"


def ends(pid: int) -> bool:
    """Wait until a process has ended, which takes a moment after its signal."""
    return any(state(pid) == "Z" or time.sleep(0.02) for _ in range(500))


def failure(processes: Any, word: str, timeout_s: float) -> str:
    with pytest.raises(VerbFailedError) as caught:
        anyio.run(lambda: processes([word], timeout_s=timeout_s))
    return str(caught.value.problems[0]["code"])


def test_a_verb_gets_its_words_the_project_and_no_input(processes: Any, tmp_path: Path) -> None:
    output = anyio.run(lambda: processes(["sql", "--", "a b"]))
    text = anyio.run(lambda: processes(["graph"], as_json=False))

    project = str(tmp_path / "project")
    given = ["--project", project, "--profile", "prod"]
    assert output.stdout == (
        f'{{"words": {[*given, "--output", "json", "sql", "--", "a b"]}, "cwd": "{project}", "stdin": ""}}\n'
    ).replace("'", '"')
    assert (output.exit_code, output.stderr) == (3, "note\n")
    assert '"--profile", "prod", "graph"]' in text.stdout


def test_a_verb_and_its_children_are_stopped_when_it_takes_too_long(processes: Any, tmp_path: Path) -> None:
    code = failure(processes, "child", 1.5)

    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert (code, [ends(pid) for pid in pids]) == ("MCP.TIMEOUT", [True, True])


def test_a_verb_that_ignores_the_signal_is_killed_after_the_grace(processes: Any, tmp_path: Path) -> None:
    code = failure(processes, "stubborn", 1.0)

    assert (code, ends(int((tmp_path / "pids").read_text()))) == ("MCP.TIMEOUT", True)


def test_a_verb_that_prints_too_much_is_stopped(processes: Any) -> None:
    assert failure(processes, "loud", 60.0) == "MCP.TOO_MUCH_OUTPUT"
