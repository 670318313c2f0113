"""The verbs on schedules. They start no JVM."""

from __future__ import annotations

import os
import time
from datetime import datetime
from importlib import import_module
from typing import Annotated, Any

import typer

from headrace.cli.invocation import Invocation, invocation_of
from headrace.cli.printable import printable
from headrace.cli.tables import text_table
from headrace.errors import PipelineError

app = typer.Typer(
    help="Show, pause and resume the schedules that `headrace serve` starts updates by.",
    no_args_is_help=False,
    add_completion=False,
)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a schedule.")]
_User = Annotated[str | None, typer.Option("--as", metavar="NAME", help="Who does it (default: you).")]


@app.command("list")
def list_schedules(context: typer.Context) -> None:
    """List the schedules: when each fires next, and how its last update ended."""
    invocation = invocation_of(context)
    document = _document(invocation)
    invocation.result_redacted(_text(document, invocation.width), document)


@app.command("pause")
def pause_schedule(context: typer.Context, name: _Name, user: _User = None) -> None:
    """Pause a schedule. A continuous update is stopped; another one that runs is not."""
    _set_pause(context, name, user, is_paused=True)


@app.command("resume")
def resume_schedule(context: typer.Context, name: _Name, user: _User = None) -> None:
    """Resume a schedule. Times that passed meanwhile do not fire."""
    _set_pause(context, name, user, is_paused=False)


def _set_pause(context: typer.Context, name: str, user: str | None, *, is_paused: bool) -> None:
    invocation = invocation_of(context)
    known = [one["name"] for one in _document(invocation)["schedules"]]
    if name not in known:
        raise PipelineError("SCHEDULE.UNKNOWN", name=name, known=", ".join(known) or "none")
    settings = invocation.location.settings()
    # Imported by name, so that the help starts without them.
    holders = import_module("headrace.project.lease_holders")
    pauses = import_module("headrace.project.scheduling.pauses")
    who = user or holders.user_name(os.environ) or "unknown"
    pauses.pause_schedule(settings.layout, name, time.time(), who, is_paused=is_paused)
    word = "paused" if is_paused else "resumed"
    invocation.result(printable(f"{word} by {who}: {name}"), {"schedule": name, "state": word, "by": who})


def _document(invocation: Invocation) -> dict[str, Any]:
    settings = invocation.location.settings()
    invocation.redact = settings.open_secrets(os.environ).redact
    # Imported by name, so that the help starts without it.
    view = import_module("headrace.project.scheduling.schedule_view")
    found: dict[str, Any] = view.schedule_view(settings, os.environ, time.time).to_json()
    return found


def _text(document: dict[str, Any], width: int | None) -> str:
    if not document["schedules"] and not document["problems"]:
        return "no schedules"
    headers = ("schedule", "when", "refreshes", "state", "next", "last")
    rows = [
        (
            one["name"],
            one["when"],
            ", ".join(one["refresh"]) or "all",
            one["state"].lower(),
            _moment(one["next_at"]) if one["next_at"] else "",
            _last(one["last"]),
        )
        for one in document["schedules"]
    ]
    by = document["runs_on"]
    who = f"process {by['pid']} on {by['host']} runs them" if by else "nobody runs them: start `headrace serve`"
    problems = [f"{name} starts no update: {problem}" for name, problem in document["problems"].items()]
    table = text_table(headers, rows, width=width) if rows else ""
    return "\n".join(filter(None, [table, *map(printable, problems), who]))


def _last(last: dict[str, Any] | None) -> str:
    if last is None:
        return "never"
    again = f", again at {_moment(last['retries_at'])}" if last["retries_at"] else ""
    return f"{last['state']} {_moment(last['ended_at'])}{again}"


def _moment(text: str) -> str:
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S} UTC"
