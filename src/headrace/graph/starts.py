"""Where a flow whose progress is dropped begins to read again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum


class StartKind(str, Enum):
    """The choices; the value is how the user writes them."""

    EARLIEST = "earliest"
    LATEST = "latest"
    VERSION = "version"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True)
class Start:
    """One choice. ``version`` belongs to VERSION, ``moment`` (seconds since 1970) to TIMESTAMP."""

    kind: StartKind = StartKind.EARLIEST
    version: int = 0
    moment: float = 0.0

    def __str__(self) -> str:
        if self.kind is StartKind.VERSION:
            return f"version:{self.version}"
        if self.kind is StartKind.TIMESTAMP:
            return f"timestamp:{moment_text(self.moment)}"
        return str(self.kind.value)


EARLIEST = Start()


def start_of(text: str) -> Start | None:
    """The choice behind ``earliest``, ``latest``, ``version:N`` or ``timestamp:T``; None when it is none of them.

    A time without a zone is UTC, as it is for the pipeline's session.
    """
    word, colon, value = text.strip().partition(":")
    word = word.strip().lower()
    if not colon:
        return {"earliest": EARLIEST, "latest": Start(StartKind.LATEST)}.get(word)
    value = value.strip()
    if word == StartKind.VERSION.value and value.isascii() and value.isdigit():
        return Start(StartKind.VERSION, version=int(value))
    moment = _moment(value) if word == StartKind.TIMESTAMP.value else None
    return None if moment is None else Start(StartKind.TIMESTAMP, moment=moment)


def moment_text(seconds: float) -> str:
    """A time in ISO 8601 and UTC, to the millisecond where it has such."""
    exact = "milliseconds" if round(seconds * 1000) % 1000 else "seconds"
    moment = datetime.fromtimestamp(round(seconds * 1000) / 1000, tz=UTC)
    return moment.isoformat(timespec=exact).replace("+00:00", "Z")


def _moment(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(f"{text[:-1]}+00:00" if text[-1:] in ("Z", "z") else text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
