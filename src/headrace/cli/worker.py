"""The verbs on the warm worker of a project, and the errors of verbs that it does not run."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from headrace.cli.arguments import wants_json
from headrace.cli.failures import FAILED, report
from headrace.cli.invocation import Invocation, Output, invocation_of
from headrace.cli.open_project import open_project
from headrace.errors import PipelineError
from headrace.worker.control import DEFAULT_IDLE_MINUTES, WorkerControl, WorkerStatus, worker_control

_START_TIMEOUT_S = 180.0

app = typer.Typer(
    help="Keep the JVM of the project between verbs, so that most take less than a second.",
    no_args_is_help=False,
    add_completion=False,
)

_IdleMinutes = Annotated[
    float, typer.Option("--idle-minutes", min=0.0, metavar="N", help="How long it waits for the next verb.")
]


@app.command("start")
def start_worker(
    context: typer.Context,
    idle_minutes: _IdleMinutes = DEFAULT_IDLE_MINUTES,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay until it ends, as services do.")] = False,  # noqa: FBT002 - an option of the command line
) -> None:
    """Start the worker, and wait until it is warm. It ends when it is idle for long."""
    invocation = invocation_of(context)
    control = _control(invocation)
    if foreground:
        command = control.command(idle_minutes * 60)
        # The service manager signals this process.
        os.execve(command[0], command, os.environ)  # noqa: S606 - our own program
    _show(invocation, control.start(idle_minutes * 60, _START_TIMEOUT_S))


@app.command("stop")
def stop_worker(
    context: typer.Context,
    now: Annotated[bool, typer.Option("--now", help="Also stop the verb that runs, as Ctrl-C does.")] = False,  # noqa: FBT002 - an option of the command line
) -> None:
    """Stop the worker, after the verb that it runs."""
    invocation = invocation_of(context)
    stopped = _control(invocation).stop(now=now)
    invocation.result("stopped" if stopped else "no worker runs", {"stopped": stopped})


@app.command("status")
def show_worker(context: typer.Context) -> None:
    """Show whether a worker runs, and what it does."""
    invocation = invocation_of(context)
    _show(invocation, _control(invocation).status())


def report_busy(words: Sequence[str], holder: Mapping[str, Any]) -> int:
    """Report a verb that did not wait for the worker; returns the exit code."""
    pid, at = holder.get("verb_pid") or holder.get("pid"), holder.get("started_at") or time.time()
    return report(PipelineError("WORKER.BUSY", pid=pid, started_at=_moment(at)), _invocation(words))


def report_lost(words: Sequence[str]) -> int:
    """Report a verb whose process and worker have ended without an exit code; returns the exit code."""
    return report(PipelineError("WORKER.LOST"), _invocation(words)) or FAILED


def _invocation(words: Sequence[str]) -> Invocation:
    return Invocation(open_project, output=Output.JSON if wants_json(words) else Output.TEXT)


def _control(invocation: Invocation) -> WorkerControl:
    return worker_control(invocation.location.settings().root)


def _show(invocation: Invocation, found: WorkerStatus | None) -> None:
    if found is None:
        invocation.result("no worker runs", {"state": "not running"})
        return
    lines = [f"the worker is {found.state} (process {found.pid}), and has run {found.verbs} verbs"]
    if found.started_at is not None:
        lines.append(f"  process {found.verb_pid} runs a verb since {_moment(found.started_at)}, {found.waiting} wait")
    value = {
        "state": found.state,
        "pid": found.pid,
        "verb_pid": found.verb_pid,
        "started_at": None if found.started_at is None else _moment(found.started_at),
        "waiting": found.waiting,
        "verbs": found.verbs,
        "jvm_pid": found.jvm_pid,
        "idle_minutes": found.ends_after_idle_s / 60,
    }
    invocation.result("\n".join(lines), value)


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, tz=UTC).isoformat(timespec="seconds")
