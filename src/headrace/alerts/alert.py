"""Alerts, and how they change: pending, open, resolved. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from hashlib import sha256
from typing import Any

from headrace.alerts.conditions import Finding
from headrace.model.alert_rules import Rule, Severity, rules

# An alert is resolved once its condition has not held for so long, and for twice the time that it takes to open.
_LEAST_QUIET_S = 60.0
_KEEP_RESOLVED_S = 86_400.0


class AlertState(str, Enum):
    """A pending alert opens if its condition continues to hold; a resolved one is kept for a day."""

    PENDING = "pending"
    OPEN = "open"
    RESOLVED = "resolved"


_STATES = (AlertState.OPEN, AlertState.PENDING, AlertState.RESOLVED)
_SEVERITIES = (Severity.BAD, Severity.WARN, Severity.INFO)


@dataclass(frozen=True)
class Alert:
    """What a rule found about one thing. Times are in seconds since 1970.

    Attributes:
        rule_id: the rule.
        severity: how urgent it is.
        labels: the thing, such as a flow.
        message: one line, with the newest value.
        first_step: a command to begin with.
        state: of the alert.
        since: when its condition began to hold.
        last_true_at: when its condition held last.
        resolved_at: when it was resolved; None before that.
        acknowledged_by: who knows of it; None for nobody.
        silenced_until: no notice of it before that time.
        is_hidden: another open alert explains it.
    """

    rule_id: str
    severity: Severity
    labels: Mapping[str, str]
    message: str
    first_step: str
    state: AlertState
    since: float
    last_true_at: float
    resolved_at: float | None = None
    acknowledged_by: str | None = None
    silenced_until: float = 0
    is_hidden: bool = field(default=False, compare=False)

    @property
    def key(self) -> str:
        """Identifies the alert among those of its pipeline; the same whenever its rule finds the same thing."""
        text = json.dumps([self.rule_id, sorted(self.labels.items())])
        return sha256(text.encode()).hexdigest()[:10]

    def needs_attention(self, now: float) -> bool:
        """Whether it is open, and nobody has acknowledged, silenced or explained it."""
        quiet = self.acknowledged_by is not None or self.silenced_until > now or self.is_hidden
        return self.state is AlertState.OPEN and not quiet

    def to_json(self) -> dict[str, Any]:
        """The alert as one JSON object."""
        return {"id": self.key, **asdict(self), "severity": self.severity.value, "state": self.state.value}


def advance(
    known: Iterable[Alert],
    found: Iterable[Finding],
    now: float,
    active: Mapping[str, Rule] | None = None,
    undecided: Collection[str] = (),
) -> tuple[Alert, ...]:
    """The alerts after a check, the most urgent first.

    Law: a condition that holds at every check for ``for_s`` opens one alert, however often it is checked; the alert
    stays one until it is resolved. One that opens again within a silence is silenced.

    Args:
        known: the alerts before.
        found: the conditions that hold now.
        now: the time.
        active: the rules that are on, by name; None for all. Alerts of others are resolved.
        undecided: the keys of alerts that stay as they are if their condition does not hold.
    """
    active = rules() if active is None else active
    # A clock that was ahead has stored times in the future.
    before = {
        alert.key: replace(alert, since=min(alert.since, now), last_true_at=min(alert.last_true_at, now))
        for alert in known
    }
    after: dict[str, Alert] = {}
    for finding in found:
        alert = _alert_of(finding, now)
        after[alert.key] = _continued(before.pop(alert.key, None), alert, finding.rule, now)
    for key, alert in before.items():
        is_kept = key in undecided and alert.rule_id in active
        kept = alert if is_kept else _without_finding(alert, active.get(alert.rule_id), now)
        if kept is not None:
            after[key] = kept
    return tuple(sorted(_with_hidden(after.values(), active, now), key=place_by_urgency))


def place_by_urgency(alert: Alert) -> tuple[int, int, float, str]:
    """The place of an alert among others, the most urgent first: open ones, then the worst, then the oldest."""
    return _STATES.index(alert.state), _SEVERITIES.index(alert.severity), alert.since, alert.key


def _alert_of(finding: Finding, now: float) -> Alert:
    rule, labels, state = finding.rule, dict(finding.labels), AlertState.PENDING
    return Alert(rule.rule_id, rule.severity, labels, finding.message, finding.first_step, state, now, now)


def _continued(before: Alert | None, new: Alert, rule: Rule, now: float) -> Alert:
    if before is None or before.state is AlertState.RESOLVED:
        opened = replace(new, state=AlertState.PENDING if rule.for_s > 0 else AlertState.OPEN)
        if before is None or before.silenced_until <= now:
            return opened
        return replace(opened, acknowledged_by=before.acknowledged_by, silenced_until=before.silenced_until)
    is_open = before.state is AlertState.OPEN or now - before.since >= rule.for_s
    state = AlertState.OPEN if is_open else AlertState.PENDING
    return replace(
        before,
        severity=new.severity,
        message=new.message,
        first_step=new.first_step,
        state=state,
        last_true_at=now,
    )


def _without_finding(alert: Alert, rule: Rule | None, now: float) -> Alert | None:
    """The alert when its condition does not hold; None if it is forgotten."""
    if alert.state is AlertState.PENDING:
        return None
    if alert.state is AlertState.RESOLVED:
        return alert if now - (alert.resolved_at or 0) <= _KEEP_RESOLVED_S else None
    quiet_s = max(_LEAST_QUIET_S, 2 * rule.for_s if rule is not None else 0)
    if now - alert.last_true_at < quiet_s:
        return alert
    return replace(alert, state=AlertState.RESOLVED, resolved_at=now)


def _with_hidden(alerts: Iterable[Alert], active: Mapping[str, Rule], now: float) -> list[Alert]:
    # What somebody knows of must not hide what nobody knows of.
    found = [replace(alert, is_hidden=False) for alert in alerts]
    causes = [(alert, active[alert.rule_id].inhibits) for alert in found if alert.rule_id in active]
    causes = [(cause, hides) for cause, hides in causes if hides and cause.needs_attention(now)]
    return [
        replace(alert, is_hidden=any(alert.rule_id in hides and _same_flow(cause, alert) for cause, hides in causes))
        for alert in found
    ]


def _same_flow(cause: Alert, alert: Alert) -> bool:
    return alert.labels.get("flow") == cause.labels.get("flow")
