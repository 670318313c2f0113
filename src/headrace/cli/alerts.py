"""The verbs on alerts. They start no JVM."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import Enum
from importlib import import_module
from typing import Annotated

import typer

from headrace.alerts.alert import Alert, AlertState
from headrace.alerts.outbox import Verdict
from headrace.cli.failures import DONE, FAILED
from headrace.cli.invocation import Invocation, invocation_of
from headrace.cli.printable import printable
from headrace.project.inspection.pipeline_alerts import PipelineAlerts, alerts_of
from headrace.project.lease_holders import user_name

app = typer.Typer(help="Check, list and send alerts.", no_args_is_help=False, add_completion=False)

_LONGEST_HOURS = 24 * 365
_Id = Annotated[str, typer.Argument(metavar="ID", help="The id of an alert.")]


@app.command("check")
def check_alerts(context: typer.Context) -> None:
    """Check the rules of all alerts now, and send the messages that are due.

    Exits with 1 if an alert is open that nobody has acknowledged or silenced.
    """
    invocation = invocation_of(context)
    pipeline = _alerts(invocation)
    # Imported by name: the other verbs here start without it.
    metrics_of = import_module("headrace.project.inspection.pipeline_metrics").metrics_of
    alerts = pipeline.check(metrics_of(invocation.location.settings(), os.environ))
    _show(invocation, alerts)
    for delivery in pipeline.deliver():
        outcome = "is given up" if delivery.is_over else "is sent again by the next check"
        if delivery.answer.verdict is Verdict.ACCEPTED:
            outcome = "did not reach all"
        if delivery.answer.verdict is not Verdict.ACCEPTED or delivery.answer.is_partial:
            text = f'a message for channel "{delivery.message.channel}" {outcome}: {delivery.answer.text}'
            invocation.say(printable(text))
    raise typer.Exit(FAILED if any(alert.needs_attention(time.time()) for alert in alerts) else DONE)


@app.command("list")
def list_alerts(context: typer.Context) -> None:
    """List the alerts of the last check, without checking again."""
    invocation = invocation_of(context)
    alerts = _alerts(invocation)
    _show(invocation, alerts.known())
    for letter in alerts.undelivered():
        outcome = "waits" if letter.given_up_at is None else "was given up"
        reason = letter.reason or "not sent yet"
        text = f'a message for channel "{letter.message.channel}" {outcome}: {letter.message.title} ({reason})'
        invocation.say(printable(text))


@app.command("test")
def send_test_messages(
    context: typer.Context,
    channel: Annotated[str | None, typer.Argument(metavar="CHANNEL", help="One channel (default: all).")] = None,
) -> None:
    """Send a test message now, and show what each channel answers.

    Exits with 1 if one did not accept it.
    """
    invocation = invocation_of(context)
    answers = _alerts(invocation).test(channel)
    lines = [printable(f"{answer.verdict.value:8} {name}: {answer.text}") for name, answer in answers]
    found = [{"channel": name, "verdict": answer.verdict.value, "answer": answer.text} for name, answer in answers]
    invocation.result("\n".join(lines), found)
    raise typer.Exit(DONE if all(answer.verdict is Verdict.ACCEPTED for _, answer in answers) else FAILED)


class ExportFormat(str, Enum):
    """The formats of exported rules."""

    PROMETHEUS = "prometheus"


@app.command("export")
def export_rules(
    context: typer.Context,
    _form: Annotated[ExportFormat, typer.Option("--format", help="For which system.")] = ExportFormat.PROMETHEUS,
) -> None:
    """Print the rules for a Prometheus that collects the metrics of the pipeline."""
    invocation = invocation_of(context)
    text = _alerts(invocation).prometheus_rules()
    invocation.result(text.rstrip("\n"), {"rules": text})


@app.command("ack")
def acknowledge_alert(
    context: typer.Context,
    alert_id: _Id,
    user: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Who knows of it (default: you).")] = None,
) -> None:
    """Acknowledge an alert: it stays open, and no longer makes a check fail."""
    invocation = invocation_of(context)
    name = user or user_name(os.environ) or "unknown"
    alert = _alerts(invocation).acknowledge(alert_id, name)
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
    alert = _alerts(invocation).silence(alert_id, hours * 3600)
    until = _moment(alert.silenced_until)
    invocation.result(printable(f"silenced until {until}: {alert.message}"), alert.to_json())


def _alerts(invocation: Invocation) -> PipelineAlerts:
    settings = invocation.location.settings()
    secrets = settings.open_secrets(os.environ)
    invocation.redact = secrets.redact
    return alerts_of(settings, os.environ, secrets)


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
