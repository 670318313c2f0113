"""The verbs on alerts. They start no JVM."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

import typer

from headrace.alerts.alert import Alert, AlertState
from headrace.cli.failures import DONE, FAILED
from headrace.cli.invocation import Invocation, invocation_of
from headrace.cli.printable import printable
from headrace.project.lease_holders import user_name

app = typer.Typer(help="Check and list alerts.", no_args_is_help=False, add_completion=False)

_LONGEST_HOURS = 24 * 365
_Id = Annotated[str, typer.Argument(metavar="ID", help="The id of an alert.")]


@app.command("check")
def check_alerts(context: typer.Context) -> None:
    """Check the rules of all alerts now.

    Exits with 1 if an alert is open that nobody has acknowledged or silenced.
    """
    invocation = invocation_of(context)
    project = invocation.open()
    alerts = project.alerts().check(project.metrics())
    _show(invocation, alerts)
    raise typer.Exit(FAILED if any(alert.needs_attention(time.time()) for alert in alerts) else DONE)


@app.command("list")
def list_alerts(context: typer.Context) -> None:
    """List the alerts of the last check, without checking again."""
    invocation = invocation_of(context)
    _show(invocation, invocation.open().alerts().known())


@app.command("ack")
def acknowledge_alert(
    context: typer.Context,
    alert_id: _Id,
    user: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Who knows of it (default: you).")] = None,
) -> None:
    """Acknowledge an alert: it stays open, and no longer makes a check fail."""
    invocation = invocation_of(context)
    name = user or user_name(os.environ) or "unknown"
    alert = invocation.open().alerts().acknowledge(alert_id, name)
    invocation.result(printable(f"acknowledged by {name}: {alert.message}"), alert.to_json())


@app.command("silence")
def silence_alert(
    context: typer.Context,
    alert_id: _Id,
    hours: Annotated[float, typer.Option("--hours", min=0, max=_LONGEST_HOURS, help="For how long.")] = 4,
) -> None:
    """Silence an alert for some hours: it no longer makes a check fail."""
    if not math.isfinite(hours):
        raise typer.BadParameter("--hours needs a number")
    invocation = invocation_of(context)
    alert = invocation.open().alerts().silence(alert_id, hours * 3600)
    until = _moment(alert.silenced_until)
    invocation.result(printable(f"silenced until {until}: {alert.message}"), alert.to_json())


def _show(invocation: Invocation, alerts: Iterable[Alert]) -> None:
    alerts = tuple(alerts)
    shown = [alert for alert in alerts if alert.state is not AlertState.PENDING and not alert.is_hidden]
    text = "\n\n".join(map(_text, shown)) or "no alerts"
    invocation.result_redacted(text, [alert.to_json() for alert in alerts])


def _text(alert: Alert) -> str:
    """An alert as a few lines."""
    lines = [f"{alert.severity.value}[{alert.rule_id}]: {alert.message}"]
    if alert.state is AlertState.RESOLVED and alert.resolved_at is not None:
        return f"resolved {printable(lines[0])}\n  since {_moment(alert.resolved_at)}"
    lines.append(f"  id {alert.key}, since {_moment(alert.since)}")
    lines += [f"  acknowledged by {alert.acknowledged_by}"] if alert.acknowledged_by is not None else []
    lines += [f"  silenced until {_moment(alert.silenced_until)}"] if alert.silenced_until > time.time() else []
    return "\n".join(map(printable, [*lines, f"  hint: {alert.first_step}"]))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
