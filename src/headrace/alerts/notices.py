"""Which messages about alerts are due: grouped, repeated, and resolved once. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headrace.alerts.alert import Alert, AlertState
from headrace.alerts.messages import AlertEntry, Message, MessageKind, Pipeline, alert_message
from headrace.model.alert_rules import Severity
from headrace.settings.alert_settings import AlertSettings, Channel


@dataclass(frozen=True)
class Notice:
    """What a channel was told, or is about to be told, about an open alert. Times are in seconds since 1970.

    Attributes:
        channel: its name.
        alert_key: of the alert.
        entry: the alert in the latest message.
        seen_at: when the alert was first seen open.
        sent_at: when the latest message was due; None before the first one.
        repeats: how often the message was repeated.
        message_id: of the latest message; empty once it was given up.
        is_delivered: the channel has accepted a message about the alert.
    """

    channel: str
    alert_key: str
    entry: AlertEntry
    seen_at: float
    sent_at: float | None = None
    repeats: int = 0
    message_id: str = ""
    is_delivered: bool = False


@dataclass(frozen=True)
class Undelivered:
    """The ids of messages that no channel has accepted: those that wait, and those given up or damaged."""

    waiting: frozenset[str] = frozenset()
    given_up: frozenset[str] = frozenset()


def due_messages(
    alerts: Iterable[Alert],
    notices: Iterable[Notice],
    undelivered: Undelivered,
    settings: AlertSettings,
    pipeline: Pipeline,
    now: float,
    *,
    is_last_check: bool,
) -> tuple[tuple[Message, ...], tuple[Notice, ...]]:
    """The messages that are due, and the notices after them.

    Laws: a channel gets one message about the opening of an alert, and only while the alert needs attention. It gets a
    message about its end only after it has accepted one about the opening, and then one only. In quiet hours, it gets
    no message about alerts of their severities.

    Args:
        alerts: all alerts after a check.
        notices: those of the check before.
        undelivered: messages of earlier checks.
        settings: channels and times.
        pipeline: the pipeline.
        now: the time.
        is_last_check: nobody may check for a long time, so what is open is not held back to be grouped.
    """
    by_key = {alert.key: alert for alert in alerts}
    known = [_updated(notice, undelivered, now) for notice in notices]
    channels = {channel.name: channel for channel in settings.alert_channels}
    # Another profile may have other channels.
    after = [one for one in known if one.channel not in channels and one.alert_key in by_key]
    messages: list[Message] = []
    for channel in channels.values():
        own = {notice.alert_key: notice for notice in known if notice.channel == channel.name}
        check = _ChannelCheck(channel, settings, pipeline, undelivered.waiting, now)
        for key in dict.fromkeys([*own, *by_key]):
            check.add(own.get(key), by_key.get(key))
        messages += check.messages(is_last_check=is_last_check)
        after += check.notices.values()
    return tuple(messages), tuple(after)


def _updated(notice: Notice, undelivered: Undelivered, now: float) -> Notice:
    # The outbox forgets what was given up.
    message_id = "" if notice.message_id in undelivered.given_up else notice.message_id
    accepted = notice.sent_at is not None and message_id != "" and message_id not in undelivered.waiting
    return replace(
        notice,
        # A clock that was ahead has stored times in the future.
        seen_at=min(notice.seen_at, now),
        sent_at=None if notice.sent_at is None else min(notice.sent_at, now),
        message_id=message_id,
        is_delivered=notice.is_delivered or accepted,
    )


class _ChannelCheck:
    """Sorts the alerts of one channel into messages."""

    def __init__(
        self, channel: Channel, settings: AlertSettings, pipeline: Pipeline, waiting: frozenset[str], now: float
    ) -> None:
        self._channel = channel
        self._settings = settings
        self._pipeline = pipeline
        self._waiting = waiting
        self._now = now
        self.notices: dict[str, Notice] = {}
        self._unsent: list[Notice] = []
        self._repeated: list[Notice] = []
        self._resolved: list[Notice] = []

    def add(self, notice: Notice | None, alert: Alert | None) -> None:
        """Add an alert as it is now, and what the channel was told; None if either is unknown."""
        if alert is None or alert.state is AlertState.RESOLVED:
            if notice is not None:
                self._add_ended(notice, alert)
            return
        is_waiting = notice is not None and notice.message_id in self._waiting
        is_open, is_urgent = alert.state is AlertState.OPEN, alert.needs_attention(self._now)
        if notice is not None and is_open and alert.since > notice.entry.starts_at and not is_waiting:
            # It was resolved and has opened again. A channel that has no message about the end still takes it for open.
            notice = notice if notice.is_delivered else None
        if notice is None:
            if not is_urgent or not alert.severity.is_at_least(self._channel.min_severity):
                return
            notice = Notice(self._channel.name, alert.key, AlertEntry.of(alert, self._pipeline), self._now)
        elif notice.sent_at is None and not is_urgent:
            return
        notice = replace(notice, entry=AlertEntry.of(alert, self._pipeline)) if is_open else notice
        self.notices[alert.key] = notice
        if self._settings.is_quiet(alert.severity, self._now):
            return
        if notice.sent_at is None:
            self._unsent.append(notice)
        elif is_urgent and not is_waiting and self._now - notice.sent_at >= self._settings.repeat_s:
            self._repeated.append(notice)

    def _add_ended(self, notice: Notice, alert: Alert | None) -> None:
        is_silenced = alert is not None and alert.silenced_until > self._now
        is_quiet = self._settings.is_quiet(Severity(notice.entry.labels["severity"]), self._now)
        if notice.message_id in self._waiting or (notice.is_delivered and (is_silenced or is_quiet)):
            self.notices[notice.alert_key] = notice
        elif notice.is_delivered:
            ended_at = self._now if alert is None or alert.resolved_at is None else alert.resolved_at
            self._resolved.append(replace(notice, entry=replace(notice.entry, ends_at=ended_at)))

    def messages(self, *, is_last_check: bool) -> list[Message]:
        """The messages that are due; from then on, the notices say so."""
        found = []
        oldest = min((one.seen_at for one in self._unsent), default=self._now)
        if self._unsent and (is_last_check or self._now - oldest >= self._settings.group_s):
            found.append(self._sent(MessageKind.OPENED, self._unsent, 0))
        if self._repeated:
            found.append(self._sent(MessageKind.REPEATED, self._repeated, 1))
        if self._resolved:
            found.append(self._message(MessageKind.RESOLVED, self._resolved))
        return found

    def _sent(self, kind: MessageKind, notices: list[Notice], step: int) -> Message:
        notices = [replace(one, repeats=one.repeats + step, sent_at=self._now) for one in notices]
        message = self._message(kind, notices)
        self.notices |= {one.alert_key: replace(one, message_id=message.message_id) for one in notices}
        return message

    def _message(self, kind: MessageKind, notices: list[Notice]) -> Message:
        entries = [(one.alert_key, one.entry) for one in notices]
        number = max(one.repeats for one in notices)
        return alert_message(kind, self._channel.name, self._pipeline, entries, number, self._now)
