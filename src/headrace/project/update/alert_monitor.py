"""Checks alerts during an update and at its end, and sends messages; an update never fails because of them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from headrace.alerts.outbox import Delivery, Verdict
from headrace.errors import PipelineError, Problems, problems_of
from headrace.events.types import TERMINAL_UPDATE_STATES, Event, FlowStateChanged, UpdateStateChanged, Warned
from headrace.metrics.samples import Samples
from headrace.model.outcome import FlowState, UpdateState
from headrace.settings.alert_settings import AlertSettings

PERIOD_S = 15.0
# A check takes at most this share of one core.
_LARGEST_SHARE = 0.05
# How long the end of an update waits for receivers.
PATIENCE_S = 5.0

# Reads the current metrics of a pipeline.
ReadMetrics = Callable[[], Samples]


class UpdateAlerts(Protocol):
    """The alerts of a pipeline, as far as an update needs them. Safe to use from several threads."""

    def check(self, samples: Samples, *, is_last_check: bool) -> object:
        """Check every rule, and store the messages that are due."""

    def report(self, events: Sequence[Event], update_id: str) -> None:
        """Store the messages that the vendor's ``notifications`` ask for."""

    def deliver(self) -> tuple[Delivery, ...]:
        """Send the stored messages that are due."""


@dataclass(frozen=True)
class AlertMonitor:
    """Checks the alerts of a pipeline for its updates.

    Without channels it does nothing: nobody would be told, and a later ``headrace alerts check`` finds the same.

    Attributes:
        alerts: of the pipeline.
        metrics: reads its current metrics.
        settings: channels and notifications.
        period_s: how often a continuous update checks.
        patience_s: how long the end of an update waits for receivers.
    """

    alerts: UpdateAlerts
    metrics: ReadMetrics
    settings: AlertSettings
    period_s: float = PERIOD_S
    patience_s: float = PATIENCE_S

    def watch(self, update_id: str) -> AlertWatch:
        """What an update needs."""
        return AlertWatch(self, update_id)

    def report_not_started(self, error: PipelineError | Problems) -> None:
        """Check alerts, and send what ``notifications`` say, about an update whose project is wrong."""
        watch = self.watch(str(uuid.uuid4()))
        watch.add(UpdateStateChanged(UpdateState.FAILED, problems_of(error)[0].to_json()))
        watch.finish(lambda _event: None)


@dataclass
class AlertWatch:
    """The checks of one update."""

    monitor: AlertMonitor
    update_id: str
    _events: list[Event] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    # Sends during the update; None before the first message is due.
    _delivery: threading.Thread | None = None
    # Channels, and checks, that failed at their last attempt.
    _failing: set[str] = field(default_factory=set)

    def add(self, event: Event) -> None:
        """Take note of an event; returns at once."""
        match event:
            case FlowStateChanged(state=FlowState.FAILED):
                is_reported = True
            case UpdateStateChanged(state=state):
                is_reported = state in TERMINAL_UPDATE_STATES
            case _:
                is_reported = False
        if is_reported and self.monitor.settings.notifications:
            with self._lock:
                self._events.append(event)

    @contextmanager
    def during(self, emit: Callable[[Event], None], *, continuous: bool) -> Iterator[None]:
        """Check from time to time during the block if the update is *continuous*, and at its end in any case.

        Args:
            emit: records warnings about messages that cannot be sent; used by other threads too.
            continuous: the update runs until it is stopped.
        """
        if not self.monitor.settings.channels:
            yield
            return
        thread = threading.Thread(target=self._run, args=(emit,), name="headrace-alerts", daemon=True)
        if continuous:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            if continuous:
                thread.join(self.monitor.patience_s)
            self.finish(emit)

    def finish(self, emit: Callable[[Event], None]) -> None:
        """Check for the last time, and give receivers a limited time; what they do not accept stays in the outbox."""
        _emit_all(emit, self._check(is_last_check=True))
        warnings: list[Warned] = []
        before = self._delivery

        def deliver() -> None:
            if before is not None:
                before.join()
            warnings.extend(self._deliver())

        thread = threading.Thread(target=deliver, name="headrace-alerts-end", daemon=True)
        thread.start()
        thread.join(self.monitor.patience_s)
        if thread.is_alive():
            text = "messages about alerts were still being sent when the update ended; they stay in the outbox"
            warnings = [Warned("ALERTS.LATE", text)]
        _emit_all(emit, warnings)

    def round(self, emit: Callable[[Event], None]) -> None:
        """Check once, and let a thread send what is due; a receiver that hangs holds up no check."""
        _emit_all(emit, self._check(is_last_check=False))
        if self._delivery is None or not self._delivery.is_alive():
            self._delivery = threading.Thread(
                target=lambda: _emit_all(emit, self._deliver()), name="headrace-alerts-delivery", daemon=True
            )
            self._delivery.start()

    def _run(self, emit: Callable[[Event], None]) -> None:
        wait_s = self.monitor.period_s
        while not self._stop.wait(wait_s):
            started_at = time.monotonic()
            self.round(emit)
            wait_s = max(self.monitor.period_s, (time.monotonic() - started_at) / _LARGEST_SHARE)

    def _report(self) -> list[Warned]:
        with self._lock:
            events, self._events = self._events, []
        return self._guarded("notifications", lambda: self._store_messages(events))

    def _store_messages(self, events: list[Event]) -> None:
        try:
            self.monitor.alerts.report(events, self.update_id)
        except Exception:
            # The next check tries again; a message that was stored already stays one.
            with self._lock:
                self._events[:0] = events
            raise

    def _check(self, *, is_last_check: bool) -> list[Warned]:
        monitor, warnings = self.monitor, self._report()
        if monitor.settings.alert_channels:
            warnings += self._guarded(
                "check", lambda: monitor.alerts.check(monitor.metrics(), is_last_check=is_last_check)
            )
        return warnings

    def _deliver(self) -> list[Warned]:
        deliveries: list[Delivery] = []
        warnings = self._guarded("outbox", lambda: deliveries.extend(self.monitor.alerts.deliver()))
        for delivery in deliveries:
            channel, answer = delivery.message.channel, delivery.answer
            if answer.verdict is Verdict.ACCEPTED:
                self._failing.discard(channel)
                if answer.is_partial:
                    text = f'channel "{channel}" has not accepted a message for all recipients: {answer.text}'
                    warnings.append(Warned("ALERTS.NOT_DELIVERED", text))
            elif channel not in self._failing or delivery.is_over:
                self._failing.add(channel)
                outcome = "is given up" if delivery.is_over else "waits in the outbox"
                text = f'channel "{channel}" did not accept a message, which {outcome}: {answer.text}'
                warnings.append(Warned("ALERTS.NOT_DELIVERED", text))
        return warnings

    def _guarded(self, what: str, work: Callable[[], object]) -> list[Warned]:
        """A warning if something has begun to fail; whatever it raises, the update goes on."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - see above
            is_new = what not in self._failing
            self._failing.add(what)
            reason = error.message if isinstance(error, PipelineError) else f"{type(error).__name__}: {error}"[:300]
            return [Warned("ALERTS.NOT_CHECKED", f"alerts could not be checked: {reason}")] if is_new else []
        self._failing.discard(what)
        return []


def _emit_all(emit: Callable[[Event], None], warnings: list[Warned]) -> None:
    # The log of an update that has ended is closed, and an update never fails because of a warning about alerts.
    with suppress(Exception):
        for warning in warnings:
            emit(warning)
