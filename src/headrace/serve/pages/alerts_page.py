"""Alerts: what is open, the worst first, who knows of it, and which messages went out about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.alerts.alert import Alert, AlertState
from headrace.alerts.notices import Notice
from headrace.alerts.outbox import Letter, Outbox
from headrace.alerts.store import StoredAlerts, read_alerts
from headrace.model.alert_rules import rules
from headrace.project.inspection.diagnosis.careful_reading import reading_carefully
from headrace.project.inspection.pipeline_view import METRICS
from headrace.serve.formats import iso
from headrace.serve.pages.attention import is_recorded, sentence
from headrace.serve.pages.careful import unread_facts
from headrace.serve.pages.paging import part_of
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page
from headrace.settings.alert_settings import AlertSettings, AppriseUrl, Channel, MailServer
from headrace.settings.storage import MonitoringFile

_EACH_PART = 50
_LETTERS = 50
_MESSAGES = 10
# In the order in which they are shown.
_OPEN, _KNOWN, _EXPLAINED, _PENDING, _RESOLVED = "open", "known", "explained", "pending", "resolved"
_GROUPS = (_OPEN, _KNOWN, _EXPLAINED, _PENDING, _RESOLVED)


@dataclass(frozen=True)
class AlertFacts:
    """What is read of the alerts of a pipeline.

    Attributes:
        alerts: as a check would find them now.
        stored: of the last check, with what channels have received.
        letters: the messages that no channel has accepted.
        settings: rules and channels.
        now: the time in seconds since 1970.
    """

    alerts: Sequence[Alert]
    stored: StoredAlerts
    letters: Sequence[Letter]
    settings: AlertSettings
    now: float


def alerts_page(pipeline: ServedPipeline, number: int = 1) -> Page:
    """The page of the alerts; *number* is the part of the list that is shown."""
    view, settings = pipeline.view(), pipeline.settings
    file, outbox = (Path(settings.layout.monitoring(one)) for one in (MonitoringFile.ALERTS, MonitoringFile.OUTBOX))
    with reading_carefully(settings.layout) as reading:
        stored = reading.read("what was sent", lambda: read_alerts(file), StoredAlerts())
        letters = reading.read("the outbox", lambda: Outbox(outbox, lambda: view.as_of).letters(), [])
    facts = AlertFacts(view.alerts, stored, letters, settings.alerts, view.as_of)
    unread = [one for one in view.unread if one.part in ("the alerts", METRICS)]
    document = {
        "name": pipeline.name,
        "as_of": iso(view.as_of),
        "unread": unread_facts([*unread, *reading.unread]),
        **alerts_facts(facts, number),
    }
    return Page("alerts.html", f"Alerts: {pipeline.name}", document)


def alerts_facts(facts: AlertFacts, number: int = 1) -> dict[str, Any]:
    """What the page says."""
    notices: dict[str, list[Notice]] = {}
    for notice in facts.stored.notices:
        notices.setdefault(notice.alert_key, []).append(notice)
    # A stable sort: within a group, the order is that of the alerts, the most urgent first.
    ordered = sorted(facts.alerts, key=lambda alert: _GROUPS.index(_group(alert, facts.now)))
    part, paging = part_of(ordered, number, _EACH_PART)
    counts = {name: sum(_group(alert, facts.now) == name for alert in facts.alerts) for name in _GROUPS}
    newest = sorted(facts.letters, key=lambda letter: -letter.message.created_at)
    return {
        "counts": counts,
        "alerts": [_alert(alert, notices.get(alert.key, ()), facts.now) for alert in part],
        "paging": paging,
        "outbox": [_letter(letter) for letter in newest[:_LETTERS]],
        "undelivered": len(facts.letters),
        "channels": [_channel(one, facts) for one in facts.settings.channels],
        "rules": len(facts.settings.rules),
    }


def _group(alert: Alert, now: float) -> str:
    if alert.state is AlertState.RESOLVED:
        return _RESOLVED
    if alert.state is AlertState.PENDING:
        return _PENDING
    if alert.is_hidden:
        return _EXPLAINED
    return _OPEN if alert.needs_attention(now) else _KNOWN


def _alert(alert: Alert, notices: Iterable[Notice], now: float) -> dict[str, Any]:
    group, rule = _group(alert, now), rules().get(alert.rule_id)
    sent = sorted(notices, key=lambda notice: -(notice.sent_at or 0))
    return {
        "id": alert.key,
        "group": group,
        "rule": alert.rule_id,
        "severity": alert.severity.value,
        "mark": alert.severity.value if group == _OPEN else "ok" if group == _RESOLVED else "info",
        "sentence": sentence(alert.message),
        "labels": dict(alert.labels),
        "dataset": alert.labels.get("dataset"),
        "flow": alert.labels.get("flow"),
        "since": iso(alert.since) if is_recorded(alert, now) else None,
        "last_true_at": iso(alert.last_true_at),
        "resolved_at": iso(alert.resolved_at),
        "opens_after_s": rule.for_s if rule is not None and group == _PENDING else None,
        "acknowledged_by": alert.acknowledged_by,
        "silenced_until": iso(alert.silenced_until) if alert.silenced_until > now else None,
        "what_to_do": None if rule is None else rule.runbook,
        "first_step": alert.first_step,
        "messages": [_notice(notice) for notice in sent[:_MESSAGES]],
        "commands": _commands(alert) if group == _OPEN else [],
    }


def _commands(alert: Alert) -> list[list[str]]:
    """What tells others that somebody knows of it."""
    return [["headrace", "alerts", "ack", alert.key], ["headrace", "alerts", "silence", alert.key, "--hours", "4"]]


def _notice(notice: Notice) -> dict[str, Any]:
    state = "not due" if notice.sent_at is None else "accepted" if notice.is_delivered else "not accepted"
    return {
        "channel": notice.channel,
        "state": state,
        "due_at": iso(notice.sent_at),
        "repeats": notice.repeats,
    }


def _letter(letter: Letter) -> dict[str, Any]:
    message, is_over = letter.message, letter.given_up_at is not None
    waits = letter.attempts == 0
    return {
        "channel": message.channel,
        "kind": message.kind.value,
        "title": message.title,
        "created_at": iso(message.created_at),
        "state": "given up" if is_over else "not sent yet" if waits else "is retried",
        "mark": "bad" if is_over else "info" if waits else "warn",
        "attempts": letter.attempts,
        "next_attempt_at": None if is_over or waits else iso(letter.next_attempt_at),
        "reason": letter.reason or None,
    }


def _channel(channel: Channel, facts: AlertFacts) -> dict[str, Any]:
    """A channel, without its address, which often is a secret."""
    reached = {one.channel: one for one in facts.stored.reached}
    test = reached.get(channel.name)
    accepted = [one.sent_at for one in facts.stored.notices if one.channel == channel.name and one.is_delivered]
    return {
        "name": channel.name,
        "kind": _kind(channel),
        "min_severity": channel.min_severity.value,
        "takes_alerts": channel.takes_alerts,
        # A test of another target says nothing about this one.
        "tested_at": iso(test.at) if test is not None and test.digest == channel.digest else None,
        "last_accepted_at": iso(max((at for at in accepted if at is not None), default=None)),
        "waiting": sum(one.message.channel == channel.name and one.given_up_at is None for one in facts.letters),
    }


def _kind(channel: Channel) -> str:
    kinds: Mapping[type, str] = {MailServer: "mail", AppriseUrl: "Apprise"}
    return kinds.get(type(channel.target), "webhook")
