"""Checks, lists, acknowledges and silences the alerts of a pipeline, and sends messages about them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from headrace.alerts.alert import Alert, AlertState, advance
from headrace.alerts.conditions import Facts, findings
from headrace.alerts.file_lock import PATIENCE_S, locked
from headrace.alerts.messages import Message, Pipeline, test_message
from headrace.alerts.notices import due_messages
from headrace.alerts.outbox import Answer, Delivery, Letter, Outbox, Verdict
from headrace.alerts.prometheus_rules import prometheus_rules
from headrace.alerts.store import Reached, StoredAlerts, read_alerts, write_alerts
from headrace.alerts.undecided import undecided
from headrace.alerts.update_notices import update_messages
from headrace.errors import PipelineError
from headrace.events.types import Event
from headrace.metrics.samples import Samples
from headrace.settings.alert_settings import AlertSettings, Channel
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile


@dataclass(frozen=True)
class Messaging:
    """What messages are made from and sent with.

    Attributes:
        settings: rules and channels.
        pipeline: what the messages are about.
        send: sends a message over a channel, once.
        redact: removes secrets from a text.
    """

    settings: AlertSettings
    pipeline: Pipeline
    send: Callable[[Channel, Message], Answer]
    redact: Callable[[str], str]


def alerts_of(settings: Settings, environ: Mapping[str, str], secrets: Secrets) -> PipelineAlerts:
    """The alerts of a pipeline.

    Args:
        settings: the pipeline's.
        environ: the environment variables.
        secrets: look up the secrets of channels, and are removed from messages.
    """

    @cache
    def sender() -> Any:
        # Imported by name, because few checks have something to send.
        sending = import_module("headrace.alerts.sending")
        return sending.Sender(secrets, environ, settings.alerts.repeat_s, time.monotonic)

    def send(channel: Channel, message: Message) -> Answer:
        answer: Answer = sender().send(channel, message)
        return answer

    layout = settings.layout
    file, outbox = (Path(layout.monitoring(one)) for one in (MonitoringFile.ALERTS, MonitoringFile.OUTBOX))
    pipeline = Pipeline(settings.name, settings.id, settings.file.as_uri())
    return PipelineAlerts(file, outbox, time.time, Messaging(settings.alerts, pipeline, send, secrets.redact))


class PipelineAlerts:
    """The alerts of one pipeline.

    Args:
        file: where they are stored.
        outbox: the folder of the messages that no channel has accepted yet.
        now: the time in seconds since 1970.
        messaging: rules, channels, and how to send.
        patience_s: how long to wait for another process that changes the file, or sends.
    """

    def __init__(
        self,
        file: Path,
        outbox: Path,
        now: Callable[[], float],
        messaging: Messaging,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._file = file
        self._patience_s = patience_s
        self._outbox = Outbox(outbox, now, patience_s)
        self._now = now
        self._messaging = messaging

    def known(self) -> tuple[Alert, ...]:
        """The alerts of the last check, the most urgent first."""
        return read_alerts(self._file).alerts

    def undelivered(self) -> list[Letter]:
        """The messages that no channel has accepted yet, oldest first.

        Raises:
            PipelineError: ALERTS.NOT_READABLE.
        """
        return self._outbox.letters()

    def current(self, samples: Samples) -> tuple[Alert, ...]:
        """The alerts that a check would find now, the most urgent first; nothing is stored, and no message is sent.

        Raises:
            PipelineError: ALERTS.NOT_READABLE.
        """
        return _advanced(self._messaging.settings, read_alerts(self._file), samples, self._now())

    def check(self, samples: Samples, *, is_last_check: bool = True) -> tuple[Alert, ...]:
        """Check every rule, store the messages that are due, and return all alerts, the most urgent first.

        Args:
            samples: the current metrics.
            is_last_check: nobody may check for a long time, so messages are not held back to be grouped.

        Raises:
            PipelineError: ALERTS.NOT_WRITTEN, ALERTS.NOT_READABLE.
        """
        settings = self._messaging.settings
        with self._locked():
            stored, now = read_alerts(self._file), self._now()
            alerts = _advanced(settings, stored, samples, now)
            if not self._file.parent.is_dir():
                # Before the first update there is no storage.
                return alerts
            messages, notices = due_messages(
                alerts,
                stored.notices,
                self._outbox.undelivered(),
                settings,
                self._messaging.pipeline,
                now,
                is_last_check=is_last_check,
            )
            checked = replace(stored, alerts=alerts, history=stored.history.with_current(samples, now))
            if messages:
                # After a crash behind this line, the next check adds the same messages. Their keys are the same too,
                # because the times at which the alerts began are stored.
                write_alerts(self._file, checked)
                self._add(messages)
            write_alerts(self._file, replace(checked, notices=notices))
        return alerts

    def report(self, events: Iterable[Event], update_id: str) -> None:
        """Store the messages that the vendor's ``notifications`` ask for.

        Raises:
            PipelineError: ALERTS.NOT_WRITTEN.
        """
        messaging, now = self._messaging, self._now()
        if self._file.parent.is_dir():
            for event in events:
                self._add(update_messages(event, update_id, messaging.settings, messaging.pipeline, now))

    def deliver(self) -> tuple[Delivery, ...]:
        """Send the stored messages that are due, and return what came of each.

        Raises:
            PipelineError: ALERTS.NOT_READABLE, ALERTS.NOT_WRITTEN.
        """
        channels = {channel.name: channel for channel in self._messaging.settings.channels}
        return self._outbox.deliver(channels, self._messaging.send)

    def test(self, name: str | None = None) -> tuple[tuple[str, Answer], ...]:
        """Send a test message over one channel or all, now and once; returns what each answered.

        Channels that accept it are remembered, once there is a storage.

        Raises:
            PipelineError: ALERTS.UNKNOWN_CHANNEL, ALERTS.NO_CHANNEL, ALERTS.NOT_WRITTEN.
        """
        settings, pipeline = self._messaging.settings, self._messaging.pipeline
        channels = settings.alert_channels if name is None else (settings.channel(name),)
        if not channels:
            raise PipelineError("ALERTS.NO_CHANNEL")
        messages = [test_message(channel.name, pipeline, uuid.uuid4().hex[:16], self._now()) for channel in channels]
        send = self._messaging.send
        answers = tuple((one, send(one, message)) for one, message in zip(channels, messages, strict=True))
        self._remember([channel for channel, answer in answers if answer.verdict is Verdict.ACCEPTED])
        return tuple((channel.name, answer) for channel, answer in answers)

    def _remember(self, channels: Sequence[Channel]) -> None:
        """Remember channels that have accepted a test message."""
        if not channels or not self._file.parent.is_dir():
            return
        with self._locked():
            stored = read_alerts(self._file)
            new = {channel.name: Reached(channel.name, channel.digest, self._now()) for channel in channels}
            kept = [one for one in stored.reached if one.channel not in new]
            write_alerts(self._file, replace(stored, reached=(*kept, *new.values())))

    def prometheus_rules(self) -> str:
        """The rules as a file for Prometheus."""
        return prometheus_rules(self._messaging.pipeline.name, self._messaging.settings)

    def acknowledge(self, key: str, user: str) -> Alert:
        """Record who knows of an alert. It stays open, and needs no attention until it is resolved.

        Raises:
            PipelineError: ALERTS.UNKNOWN, ALERTS.NOT_WRITTEN.
        """
        return self._change(key, lambda alert: replace(alert, acknowledged_by=user))

    def silence(self, key: str, seconds: float) -> Alert:
        """Let an alert need no attention for a time.

        Raises:
            PipelineError: ALERTS.UNKNOWN, ALERTS.NOT_WRITTEN.
        """
        return self._change(key, lambda alert: replace(alert, silenced_until=self._now() + seconds))

    def _add(self, messages: Iterable[Message]) -> None:
        self._outbox.add(message.redacted(self._messaging.redact) for message in messages)

    def _change(self, key: str, changed: Callable[[Alert], Alert]) -> Alert:
        with self._locked():
            stored = read_alerts(self._file)
            alerts = {alert.key: alert for alert in stored.alerts if alert.state is not AlertState.RESOLVED}
            if key not in alerts:
                raise PipelineError("ALERTS.UNKNOWN", id=key, known=", ".join(alerts) or "none")
            new = changed(alerts[key])
            every = tuple(new if alert.key == key else alert for alert in stored.alerts)
            write_alerts(self._file, replace(stored, alerts=every))
        return new

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from changing the file inside the block, if the storage is a local disk of this user.

        Raises:
            PipelineError: ALERTS.NOT_WRITTEN if another process hangs.
        """
        with ExitStack() as stack:
            is_alone = True
            # If there is no lock, writing the file itself says what is wrong.
            with suppress(OSError):
                lock = self._file.with_name(f"{self._file.name}.lock")
                is_alone = stack.enter_context(locked(lock, self._patience_s))
            if not is_alone:
                reason = f"another process has kept it locked for {self._patience_s:g} seconds"
                raise PipelineError("ALERTS.NOT_WRITTEN", path=self._file, reason=reason)
            yield


def _advanced(settings: AlertSettings, stored: StoredAlerts, samples: Samples, now: float) -> tuple[Alert, ...]:
    facts = Facts(samples, stored.history, now, settings.lag_limits_s, settings.freshness_s)
    found = findings(facts, settings.rules)
    return advance(stored.alerts, found, now, settings.rules, undecided(stored.alerts, samples))
