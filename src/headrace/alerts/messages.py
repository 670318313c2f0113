"""Messages about alerts and updates, as they are stored until a channel has accepted them. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from hashlib import sha256
from typing import Any

from headrace.alerts.alert import Alert, AlertState
from headrace.model.alert_rules import rules

_MOST_ENTRIES = 20


class MessageKind(str, Enum):
    """What a message reports."""

    OPENED = "opened"
    REPEATED = "repeated"
    RESOLVED = "resolved"
    # An event of the vendor's notifications.
    UPDATE = "update"
    TEST = "test"


@dataclass(frozen=True)
class Pipeline:
    """The pipeline that messages are about; *url* is where its settings are."""

    name: str
    id: str
    url: str


@dataclass(frozen=True)
class AlertEntry:
    """An alert in a message, with the fields of Alertmanager's API v2. Times are in seconds since 1970.

    Attributes:
        labels: identify the alert.
        annotations: texts.
        starts_at: when its condition began to hold.
        ends_at: when it was resolved; None while it is open.
        url: of the pipeline.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: float
    ends_at: float | None
    url: str

    @classmethod
    def of(cls, alert: Alert, pipeline: Pipeline) -> AlertEntry:
        """The entry of an alert."""
        rule = rules().get(alert.rule_id)
        names = {"alertname": alert.rule_id, "severity": alert.severity.value, "pipeline": pipeline.name}
        annotations = {"summary": alert.message, "first_step": alert.first_step}
        if rule is not None:
            annotations["description"] = rule.runbook
        ends_at = alert.resolved_at if alert.state is AlertState.RESOLVED else None
        return cls({**alert.labels, **names}, annotations, alert.since, ends_at, pipeline.url)

    @classmethod
    def from_json(cls, given: Any) -> AlertEntry:
        """The entry of ``asdict``; raises KeyError, TypeError or ValueError for something else."""
        ends_at = given["ends_at"]
        return cls(
            labels={str(name): str(label) for name, label in given["labels"].items()},
            annotations={str(name): str(text) for name, text in given["annotations"].items()},
            starts_at=float(given["starts_at"]),
            ends_at=None if ends_at is None else float(ends_at),
            url=str(given["url"]),
        )

    def to_alertmanager(self, firing_until: float | None = None) -> dict[str, Any]:
        """The entry as Alertmanager's API v2 has it.

        Args:
            firing_until: when an open alert ends unless it is repeated; None leaves that to the receiver.
        """
        ends_at = firing_until if self.ends_at is None else self.ends_at
        return {
            "labels": dict(self.labels),
            "annotations": dict(self.annotations),
            "startsAt": _moment(self.starts_at),
            **({} if ends_at is None else {"endsAt": _moment(ends_at)}),
            "generatorURL": self.url,
        }

    @property
    def text(self) -> str:
        """A few lines."""
        labels, texts = self.labels, self.annotations
        since = (
            f"resolved, open since {_moment(self.starts_at)}" if self.ends_at else f"since {_moment(self.starts_at)}"
        )
        lines = [f"{labels.get('severity', '')}[{labels.get('alertname', '')}]: {texts.get('summary', '')}", since]
        if self.ends_at is None:
            lines += [f"first step: {texts.get('first_step', '')}", texts.get("description", "")]
        return "\n  ".join(filter(None, lines))


@dataclass(frozen=True)
class Message:
    """One message for one channel.

    Attributes:
        key: the same for every attempt to send it, and for no other message of the channel.
        channel: its name.
        kind: what it reports.
        pipeline: the name of the pipeline.
        title: one line.
        text: of a message without alerts.
        created_at: when it was due, in seconds since 1970.
        alerts: what it is about.
        recipients: mail addresses; empty for those of the channel.
    """

    key: str
    channel: str
    kind: MessageKind
    pipeline: str
    title: str
    created_at: float
    text: str = ""
    alerts: tuple[AlertEntry, ...] = ()
    recipients: tuple[str, ...] = ()

    @property
    def message_id(self) -> str:
        """Identifies it among the messages of its pipeline, as the name of a file."""
        return sha256(json.dumps([self.channel, self.key]).encode()).hexdigest()[:24]

    @property
    def full_text(self) -> str:
        """What it says, in lines, with the first alerts only: receivers limit the size."""
        more = len(self.alerts) - _MOST_ENTRIES
        rest = [f"and {more} more: headrace alerts list"] if more > 0 else []
        entries = [entry.text for entry in self.alerts[:_MOST_ENTRIES]]
        return "\n\n".join([self.title, *filter(None, [self.text]), *entries, *rest])

    def redacted(self, redact: Callable[[str], str]) -> Message:
        """The message with secrets removed from its texts."""
        alerts = tuple(
            replace(
                entry,
                labels={name: redact(label) for name, label in entry.labels.items()},
                annotations={name: redact(text) for name, text in entry.annotations.items()},
            )
            for entry in self.alerts
        )
        return replace(self, title=redact(self.title), text=redact(self.text), alerts=alerts)

    def to_json(self) -> dict[str, Any]:
        """The message as one JSON object."""
        return {**asdict(self), "kind": self.kind.value}

    @classmethod
    def from_json(cls, given: Any) -> Message:
        """The message of :meth:`to_json`; raises KeyError, TypeError or ValueError for something else."""
        texts = {name: str(given[name]) for name in ("key", "channel", "pipeline", "title", "text")}
        return cls(
            **texts,
            kind=MessageKind(given["kind"]),
            created_at=float(given["created_at"]),
            alerts=tuple(map(AlertEntry.from_json, given["alerts"])),
            recipients=tuple(map(str, given["recipients"])),
        )


def alert_message(
    kind: MessageKind,
    channel: str,
    pipeline: Pipeline,
    entries: Iterable[tuple[str, AlertEntry]],
    number: int,
    now: float,
) -> Message:
    """A message about alerts.

    Args:
        kind: opened, repeated or resolved.
        channel: the channel.
        pipeline: the pipeline.
        entries: each with the key of its alert.
        number: how often a message about these alerts was sent before.
        now: the time.
    """
    found = tuple(entries)
    identity = json.dumps([pipeline.id, sorted([key, entry.starts_at] for key, entry in found)])
    state, word = {
        MessageKind.REPEATED: (f"open-{number}", "still open, "),
        MessageKind.RESOLVED: ("resolved", "resolved, "),
    }.get(kind, ("open", ""))
    first = found[0][1]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    summary = first.annotations["summary"]
    return Message(
        key=f"{sha256(identity.encode()).hexdigest()[:16]}-{state}",
        channel=channel,
        kind=kind,
        pipeline=pipeline.name,
        title=one_line(f"[{pipeline.name}] {word}{first.labels['severity']}: {summary}{more}"),
        created_at=now,
        alerts=tuple(entry for _, entry in found),
    )


def test_message(channel: str, pipeline: Pipeline, key: str, now: float) -> Message:
    """A message that says that the channel works."""
    text = "Headrace sent it because somebody ran headrace alerts test. No alert is open because of it."
    title = one_line(f"[{pipeline.name}] test message")
    return Message(f"{key}-test", channel, MessageKind.TEST, pipeline.name, title, now, text)


def one_line(text: str) -> str:
    """A text without line breaks and other control characters."""
    return "".join(one if one.isprintable() else " " for one in text)


def _moment(seconds: float) -> str:
    """A time as RFC 3339 has it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
