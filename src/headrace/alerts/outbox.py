"""The outbox: messages are stored before they are sent, and sent until a channel accepts them.

Each message is a file. Its channel gets it at least once: if a process ends between the answer and the removal of the
file, the message is sent again with the same key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from headrace.alerts.file_lock import PATIENCE_S, locked
from headrace.alerts.messages import Message
from headrace.alerts.notices import Undelivered
from headrace.atomic_write import create_file, replace_file
from headrace.errors import PipelineError
from headrace.settings.alert_settings import Channel
from headrace.sinks.retrying import backoff_s

_FORMAT = 1
_FIRST_DELAY_S, _LONGEST_DELAY_S = 1.0, 300.0
_GIVE_UP_AFTER_S = 86_400.0
_KEEP_GIVEN_UP_S = 7 * 86_400.0


class Verdict(str, Enum):
    """How an attempt to send a message ended."""

    ACCEPTED = "accepted"
    # The same message may be accepted later.
    FAILED = "failed"
    # It would be refused again.
    REFUSED = "refused"


@dataclass(frozen=True)
class Answer:
    """What a channel answered.

    Attributes:
        verdict: how the attempt ended.
        text: has no secrets.
        wait_s: the delay that the channel asks for.
        is_partial: some recipients were refused.
    """

    verdict: Verdict
    text: str
    wait_s: float = 0
    is_partial: bool = False


@dataclass(frozen=True)
class Letter:
    """A message in the outbox. Times are in seconds since 1970.

    Attributes:
        message: the message.
        attempts: how often it was sent in vain.
        next_attempt_at: not sent again before that time.
        reason: why the last attempt failed.
        given_up_at: not sent again after that time; None while it waits.
    """

    message: Message
    attempts: int = 0
    next_attempt_at: float = 0
    reason: str = ""
    given_up_at: float | None = None

    def failed(self, answer: Answer, now: float) -> Letter:
        """The letter after an attempt that failed."""
        attempts = self.attempts + 1
        delay_s = max(backoff_s(attempts, _FIRST_DELAY_S, _LONGEST_DELAY_S), min(answer.wait_s, _LONGEST_DELAY_S))
        return replace(self, attempts=attempts, next_attempt_at=now + delay_s, reason=answer.text)

    def is_due(self, now: float) -> bool:
        """Whether it may be sent; also if a clock that was ahead has stored a time in the future."""
        return self.next_attempt_at <= now or self.next_attempt_at > now + _LONGEST_DELAY_S

    def is_expired(self, now: float) -> bool:
        """Whether it is too old to be sent."""
        return now - self.message.created_at >= _GIVE_UP_AFTER_S

    def to_json(self) -> dict[str, Any]:
        """The letter as one JSON object."""
        return {**vars(self), "format": _FORMAT, "message": self.message.to_json()}

    @classmethod
    def from_json(cls, given: Any) -> Letter | None:
        """The letter of :meth:`to_json`; None if a newer version wrote it.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: it is something else.
        """
        if given["format"] != _FORMAT:
            return None
        given_up_at = given["given_up_at"]
        return cls(
            Message.from_json(given["message"]),
            int(given["attempts"]),
            float(given["next_attempt_at"]),
            str(given["reason"]),
            None if given_up_at is None else float(given_up_at),
        )


@dataclass(frozen=True)
class Delivery:
    """An attempt to send a message, and how it ended; ``is_over`` if it will not be sent again."""

    message: Message
    answer: Answer
    is_over: bool


class Outbox:
    """The messages of a pipeline that no channel has accepted yet.

    Args:
        folder: where they are stored.
        now: the time in seconds since 1970.
        patience_s: how long to wait for another process that sends.
    """

    def __init__(self, folder: Path, now: Callable[[], float], patience_s: float = PATIENCE_S) -> None:
        self._folder = folder
        self._now = now
        self._patience_s = patience_s

    def add(self, messages: Iterable[Message]) -> None:
        """Store messages; one that is there already stays.

        Raises:
            PipelineError: ALERTS.NOT_WRITTEN.
        """
        with self._writing():
            for message in messages:
                self._folder.mkdir(exist_ok=True)
                create_file(self._file(message), json.dumps(Letter(message).to_json()))

    def letters(self) -> list[Letter]:
        """The messages, oldest first. A damaged file, and one of a newer version, is left out and stays.

        Raises:
            PipelineError: ALERTS.NOT_READABLE.
        """
        found = [letter for letter in self._files().values() if letter is not None]
        return sorted(found, key=lambda one: (one.message.created_at, one.message.message_id))

    def _files(self) -> dict[str, Letter | None]:
        """The letters by the ids of their messages; None for a file that is damaged, or of a newer version."""
        found: dict[str, Letter | None] = {}
        try:
            for file in sorted(self._folder.glob("*.json")):
                # Another process may have sent it.
                with suppress(FileNotFoundError):
                    found[file.stem] = _letter(file.read_bytes())
        except OSError as error:
            raise _not_readable(self._folder, error) from error
        return found

    def undelivered(self) -> Undelivered:
        """The ids of the messages.

        Raises:
            PipelineError: ALERTS.NOT_READABLE.
        """
        letters = self._files()
        waiting = frozenset(key for key, one in letters.items() if one is not None and one.given_up_at is None)
        return Undelivered(waiting, frozenset(letters) - waiting)

    def deliver(
        self, channels: Mapping[str, Channel], send: Callable[[Channel, Message], Answer]
    ) -> tuple[Delivery, ...]:
        """Send the messages that are due, and return what came of them.

        After a message has failed, the channel gets no other one in this call. Messages of channels that are not
        among *channels* wait: another profile may have them. Several processes never send the same message at a time:
        while another one sends, this one sends nothing.

        Raises:
            PipelineError: ALERTS.NOT_READABLE, ALERTS.NOT_WRITTEN.
        """
        if not self._folder.is_dir():
            return ()
        deliveries: list[Delivery] = []
        down: set[str] = set()
        with self._writing(), locked(self._folder / ".lock", self._patience_s) as is_alone:
            for letter in self.letters() if is_alone else ():
                channel = channels.get(letter.message.channel)
                if self._put_away(letter):
                    deliveries += self._expired(letter)
                elif channel is not None and channel.name not in down and letter.is_due(self._now()):
                    delivery = self._attempt(letter, send(channel, letter.message))
                    deliveries.append(delivery)
                    if delivery.answer.verdict is Verdict.FAILED:
                        down.add(channel.name)
        return tuple(deliveries)

    def _put_away(self, letter: Letter) -> bool:
        """Whether a letter is too old, or was given up."""
        return letter.given_up_at is not None or letter.is_expired(self._now())

    def _expired(self, letter: Letter) -> Iterator[Delivery]:
        now = self._now()
        if letter.given_up_at is not None:
            if now - letter.given_up_at > _KEEP_GIVEN_UP_S:
                self._file(letter.message).unlink(missing_ok=True)
            return
        reason = letter.reason or "no process sent it"
        self._store(replace(letter, given_up_at=now, reason=reason))
        yield Delivery(letter.message, Answer(Verdict.FAILED, f"given up after a day: {reason}"), is_over=True)

    def _attempt(self, letter: Letter, answer: Answer) -> Delivery:
        now = self._now()
        match answer.verdict:
            case Verdict.ACCEPTED:
                self._file(letter.message).unlink(missing_ok=True)
            case Verdict.REFUSED:
                self._store(replace(letter.failed(answer, now), given_up_at=now))
            case Verdict.FAILED:
                self._store(letter.failed(answer, now))
        return Delivery(letter.message, answer, is_over=answer.verdict is not Verdict.FAILED)

    def _store(self, letter: Letter) -> None:
        replace_file(self._file(letter.message), json.dumps(letter.to_json()))

    def _file(self, message: Message) -> Path:
        return self._folder / f"{message.message_id}.json"

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise PipelineError("ALERTS.NOT_WRITTEN", path=self._folder, reason=reason) from error


def _letter(data: bytes) -> Letter | None:
    try:
        return Letter.from_json(json.loads(data))
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _not_readable(path: Path, error: OSError) -> PipelineError:
    return PipelineError("ALERTS.NOT_READABLE", path=path, reason=error.strerror or str(error))
