"""When a flow looks for new input: words of the vendor's confs as values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

# On a table, a flow or in the pipeline's configuration.
INTERVAL_KEY = "pipelines.trigger.interval"
TRIGGER_KEY = "pipelines.trigger"

_UNITS_S = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0}
_INTERVAL = re.compile(r"(?:interval\s+)?(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_SHORT_UNITS = {"ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "d": "day"}


class TriggerKind(str, Enum):
    """How often a flow takes what is new."""

    INTERVAL = "processingTime"  # again and again, in a continuous update
    AVAILABLE_NOW = "availableNow"  # everything that is there at the start, in as many batches as it takes
    ONCE = "once"  # one batch
    REAL_TIME = "realTime"  # each row as it comes, in a continuous update; a batch is how long progress is not noted

    @property
    def goes_on(self) -> bool:
        """True when only the end of the update ends it."""
        return self in (TriggerKind.INTERVAL, TriggerKind.REAL_TIME)

    @staticmethod
    def of(text: str) -> TriggerKind | None:
        """The kind that a text names, whatever its case; None when it names none."""
        return next((kind for kind in TriggerKind if kind.value.casefold() == text.strip().casefold()), None)


@dataclass(frozen=True)
class Trigger:
    """A kind, with the seconds between two looks where it has some; in real time, how long a batch lasts."""

    kind: TriggerKind = TriggerKind.AVAILABLE_NOW
    interval_s: float = 0.0

    def describe(self) -> str:
        """For a reader, such as ``every 5 s``."""
        if self.kind is TriggerKind.REAL_TIME:
            return f"in real time, progress noted every {self.interval_s:g} s"
        return f"every {self.interval_s:g} s" if self.kind is TriggerKind.INTERVAL else self.kind.value


AVAILABLE_NOW = Trigger()


class InvalidInterval(ValueError):
    """A text that is no interval; its message says why."""


def parse_interval_s(text: str) -> float:
    """Seconds behind ``10 seconds``, ``1 minute``, ``500 ms`` and the like.

    Raises:
        InvalidInterval: with the reason.
    """
    found = _INTERVAL.fullmatch(text.strip())
    word = found.group(2).casefold() if found else ""
    unit_s = _UNITS_S.get(_SHORT_UNITS.get(word, word.removesuffix("s")))
    if found is None or unit_s is None:
        raise InvalidInterval('expected a number and a unit, such as "10 seconds"')
    return float(found.group(1)) * unit_s
