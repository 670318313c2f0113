"""Where a flow starts to read after its checkpoint was reset."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum


class StartKind(str, Enum):
    """The kinds of start; the value is the user's spelling."""

    EARLIEST = "earliest"
    LATEST = "latest"
    VERSION = "version"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True)
class Start:
    """One start. ``version`` belongs to VERSION, ``timestamp_s`` (seconds since 1970) to TIMESTAMP."""

    kind: StartKind = StartKind.EARLIEST
    version: int = 0
    timestamp_s: float = 0.0

    def __str__(self) -> str:
        if self.kind is StartKind.VERSION:
            return f"version:{self.version}"
        if self.kind is StartKind.TIMESTAMP:
            return f"timestamp:{format_timestamp(self.timestamp_s)}"
        return str(self.kind.value)


EARLIEST = Start()


def parse_start(text: str) -> Start | None:
    """Parse ``earliest``, ``latest``, ``version:N`` or ``timestamp:T``; None for any other text.

    A timestamp without a zone is UTC, as in the pipeline's session.
    """
    word, colon, value = text.strip().partition(":")
    word = word.strip().lower()
    if not colon:
        return {"earliest": EARLIEST, "latest": Start(StartKind.LATEST)}.get(word)
    value = value.strip()
    if word == StartKind.VERSION.value and value.isascii() and value.isdigit():
        return Start(StartKind.VERSION, version=int(value))
    timestamp_s = _parse_timestamp(value) if word == StartKind.TIMESTAMP.value else None
    return None if timestamp_s is None else Start(StartKind.TIMESTAMP, timestamp_s=timestamp_s)


def format_timestamp(seconds: float) -> str:
    """A timestamp in ISO 8601 and UTC, with milliseconds if it has any."""
    exact = "milliseconds" if round(seconds * 1000) % 1000 else "seconds"
    moment = datetime.fromtimestamp(round(seconds * 1000) / 1000, tz=UTC)
    return moment.isoformat(timespec=exact).replace("+00:00", "Z")


def _parse_timestamp(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(f"{text[:-1]}+00:00" if text[-1:] in ("Z", "z") else text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
