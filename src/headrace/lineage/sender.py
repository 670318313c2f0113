"""Sends events in a thread of its own for each transport: who makes them never waits, and never fails because of it."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.alerts.outbox import Answer, Verdict
from headrace.errors import PipelineError
from headrace.events.types import Warned
from headrace.lineage.transports import Transport
from headrace.sinks.retrying import backoff_s

if TYPE_CHECKING:
    from typing import Self

# Of a receiver that is further behind, the oldest events are dropped.
MAX_WAITING = 1000
# How long the end of an update waits for receivers.
PATIENCE_S = 5.0
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.5, 60.0

# Of a receiver that fails, once the end has begun.
_LAST_ATTEMPTS = 3

NOT_SENT, DROPPED = "LINEAGE.NOT_SENT", "LINEAGE.DROPPED"


@dataclass(frozen=True)
class Sending:
    """How events are sent.

    Attributes:
        open_transport: opens a transport by its name; called in its thread.
        warn: records a warning; called in threads of transports.
        store: called before an event is sent: what it is made from must not be lost with the process.
        monotonic: a monotonic clock in seconds.
        redact: removes secrets from texts.
        max_waiting: how many events may wait for a transport.
        patience_s: how long the end waits.
        first_delay_s: before an event is sent again.
    """

    open_transport: Callable[[str], Transport]
    warn: Callable[[Warned], None]
    store: Callable[[], None]
    monotonic: Callable[[], float]
    redact: Callable[[str], str] = str
    max_waiting: int = MAX_WAITING
    patience_s: float = PATIENCE_S
    first_delay_s: float = _FIRST_DELAY_S


class LineageSender:
    """The transports of an update, as a context manager. Its exit waits a limited time for what is not sent yet.

    Args:
        names: of the transports.
        sending: how events are sent.
    """

    def __init__(self, names: Iterable[str], sending: Sending) -> None:
        self._sending = sending
        self._lanes = [_Lane(name, sending) for name in names]

    def __enter__(self) -> Self:
        for lane in self._lanes:
            lane.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        deadline = self._sending.monotonic() + self._sending.patience_s
        for lane in self._lanes:
            lane.request_end(deadline)
        for lane in self._lanes:
            lane.end(deadline)

    def put(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Pass on events; returns at once."""
        for event in events:
            for lane in self._lanes:
                lane.put(event)


@dataclass
class _Lane:
    """The events that wait for one transport, and the thread that sends them."""

    name: str
    sending: Sending
    _waiting: deque[Mapping[str, Any]] = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _dropped: int = 0
    # When to give up; None while the update goes on.
    _deadline: float | None = None
    _last_attempts: int = _LAST_ATTEMPTS
    _is_given_up: bool = False
    _is_failing: bool = False
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"headrace-lineage-{self.name}", daemon=True)
        self._thread.start()

    def put(self, event: Mapping[str, Any]) -> None:
        with self._changed:
            self._waiting.append(event)
            if len(self._waiting) > self.sending.max_waiting:
                self._waiting.popleft()
                self._dropped += 1
            self._changed.notify()

    def request_end(self, deadline: float) -> None:
        with self._changed:
            self._deadline = deadline
            self._changed.notify()

    def end(self, deadline: float) -> None:
        """Wait until everything is sent, or until the deadline; what is not sent then is dropped."""
        if self._thread is not None:
            self._thread.join(max(deadline - self.sending.monotonic(), 0.0))
        with self._changed:
            self._is_given_up = True
            lost = self._dropped + len(self._waiting)
            self._waiting.clear()
            self._changed.notify()
        if lost:
            events = "an event" if lost == 1 else f"{lost} events"
            text = f'lineage transport "{self.name}": {events} of this update were not sent, and are dropped'
            self._warn(DROPPED, text, {"transport": self.name, "events": lost})

    def _run(self) -> None:
        transport: Transport | None = None
        attempts = 0
        while (event := self._next()) is not None:
            try:
                transport = transport or self.sending.open_transport(self.name)
                answer = self._send(transport, event)
            except PipelineError as error:
                # A secret that is missing may be set later.
                answer = Answer(Verdict.FAILED, f"{error.message}. {error.hint}")
            except Exception as error:  # noqa: BLE001 - a transport must not end the thread of its events
                answer = Answer(Verdict.FAILED, type(error).__name__)
            attempts = 0 if answer.verdict is Verdict.ACCEPTED else attempts + 1
            self._note(event, answer)
            if answer.verdict is Verdict.FAILED and not self._pause(attempts, answer.wait_s):
                break
        if transport is not None:
            transport.close()

    def _send(self, transport: Transport, event: Mapping[str, Any]) -> Answer:
        self.sending.store()
        return transport.send(json.dumps(event, separators=(",", ":"), ensure_ascii=True).encode())

    def _next(self) -> Mapping[str, Any] | None:
        """The oldest event, once there is one; None when no more follow.

        It counts as dropped until it is sent: the end may not wait for the answer.
        """
        with self._changed:
            while not self._waiting and self._deadline is None and not self._is_given_up:
                self._changed.wait()
            if self._is_given_up or not self._waiting:
                return None
            self._dropped += 1
            return self._waiting.popleft()

    def _note(self, event: Mapping[str, Any], answer: Answer) -> None:
        with self._changed:
            if self._is_given_up:
                return
            if answer.verdict is Verdict.ACCEPTED:
                self._dropped -= 1
            elif answer.verdict is Verdict.FAILED and len(self._waiting) < self.sending.max_waiting:
                self._dropped -= 1
                self._waiting.appendleft(event)
        if answer.verdict is Verdict.ACCEPTED:
            self._is_failing = False
        elif not self._is_failing:
            self._is_failing = True
            outcome = "is dropped" if answer.verdict is Verdict.REFUSED else "waits"
            text = f'lineage transport "{self.name}" did not accept an event, which {outcome}: {answer.text}'
            self._warn(NOT_SENT, self.sending.redact(text), {"transport": self.name})

    def _pause(self, attempts: int, wait_s: float) -> bool:
        """Wait before an event is sent again; False if there is no time for it.

        Once the end has begun, a receiver that fails gets a few more attempts: the update is not to wait for it.
        """
        delay_s = max(backoff_s(attempts, self.sending.first_delay_s, _LONGEST_DELAY_S), wait_s)
        with self._changed:
            if self._deadline is None:
                self._changed.wait_for(lambda: self._deadline is not None or self._is_given_up, delay_s)
                return not self._is_given_up
            self._last_attempts -= 1
            if self._last_attempts > 0:
                self._changed.wait_for(lambda: self._is_given_up, self.sending.first_delay_s)
            return self._last_attempts > 0 and not self._is_given_up

    def _warn(self, code: str, text: str, facts: Mapping[str, Any]) -> None:
        # The log of an update that has ended is closed.
        with suppress(Exception):
            self.sending.warn(Warned(code, text, facts=facts))
