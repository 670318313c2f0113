"""Triggers: when a flow processes new input, as the vendor's confs define it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

# Set on a table, a flow or in the pipeline's configuration.
INTERVAL_KEY = "pipelines.trigger.interval"
TRIGGER_KEY = "pipelines.trigger"

_UNITS_S = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0}
_INTERVAL = re.compile(r"(?:interval\s+)?(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_SHORT_UNITS = {"ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "d": "day"}
_SHORT_MINUTES = re.compile(r"([\d.]+)\s*m\Z")


class TriggerKind(str, Enum):
    """How often a flow processes new input."""

    INTERVAL = "processingTime"  # repeatedly, in a continuous update
    AVAILABLE_NOW = "availableNow"  # all input available at the start, in as many batches as necessary
    ONCE = "once"  # one batch
    REAL_TIME = "realTime"  # each row as it arrives, in a continuous update; progress is stored once per batch

    @property
    def is_continuous(self) -> bool:
        """True if the flow runs until the update ends."""
        return self in (TriggerKind.INTERVAL, TriggerKind.REAL_TIME)

    @staticmethod
    def of(text: str) -> TriggerKind | None:
        """The kind for a text, in any case; None if the text is invalid."""
        return next((kind for kind in TriggerKind if kind.value.casefold() == text.strip().casefold()), None)


@dataclass(frozen=True)
class Trigger:
    """A kind, with its interval in seconds if it has one; in real time, the duration of a batch."""

    kind: TriggerKind = TriggerKind.AVAILABLE_NOW
    interval_s: float = 0.0

    def describe(self) -> str:
        """The trigger as text for users, such as ``every 5 s``."""
        if self.kind is TriggerKind.REAL_TIME:
            return f"in real time, progress noted every {self.interval_s:g} s"
        return f"every {self.interval_s:g} s" if self.kind is TriggerKind.INTERVAL else self.kind.value


AVAILABLE_NOW = Trigger()


def described_interval_s(text: str) -> float:
    """The interval of :meth:`Trigger.describe`; 0 if its batches follow each other, or if the text is another one."""
    found = re.fullmatch(r"every (\d+(?:\.\d+)?(?:e[+-]?\d+)?) s", text)
    return float(found[1]) if found else 0.0


class InvalidInterval(ValueError):
    """An invalid interval; its message says why."""


def parse_interval_s(text: str) -> float:
    """The seconds of ``10 seconds``, ``1 minute``, ``500 ms`` and the like.

    Raises:
        InvalidInterval: the text is invalid.
    """
    found = _INTERVAL.fullmatch(text.strip())
    word = found.group(2).casefold() if found else ""
    unit_s = _UNITS_S.get(_SHORT_UNITS.get(word, word.removesuffix("s")))
    if found is None or unit_s is None:
        raise InvalidInterval('expected a number and a unit, such as "10 seconds"')
    return float(found.group(1)) * unit_s


def parse_duration_s(text: str) -> float:
    """The same for settings that are durations, where ``m`` means minutes: ``5m`` too.

    Raises:
        InvalidInterval: the text is invalid.
    """
    return parse_interval_s(_SHORT_MINUTES.sub(r"\1 min", text.strip()))
