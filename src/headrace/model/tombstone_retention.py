"""How long the events of CDC tables that are not derivable from rows are retained."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

# Set on a table or in the pipeline's configuration; earlier names take precedence.
WINDOW_KEYS = (
    "pipelines.cdc.tombstoneGCThresholdInSeconds",
    "pipelines.applyChanges.tombstoneGCThresholdInSeconds",
)
INTERVAL_KEYS = (
    "pipelines.cdc.tombstoneGCFrequencyInSeconds",
    "pipelines.applyChanges.tombstoneGCFrequencyInSeconds",
)
RETENTION_KEYS = frozenset({*WINDOW_KEYS, *INTERVAL_KEYS})

_SECONDS = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True)
class Retention:
    """The least retention of events, and the least interval between two removals of expired ones, in seconds."""

    window_s: int = 172_800
    interval_s: int = 3_600

    def with_confs(self, confs: Mapping[str, str]) -> Retention:
        """This retention with the values in *confs*; invalid values (``is_seconds``) are ignored."""
        window, interval = _first(confs, WINDOW_KEYS), _first(confs, INTERVAL_KEYS)
        return replace(
            self,
            window_s=self.window_s if window is None else window,
            interval_s=self.interval_s if interval is None else interval,
        )


DEFAULT_RETENTION = Retention()


def is_seconds(text: str) -> bool:
    """True for a valid value of a retention key: a whole number, at least 0."""
    return _SECONDS.fullmatch(text.strip()) is not None


def _first(confs: Mapping[str, str], keys: tuple[str, ...]) -> int | None:
    return next((int(confs[key]) for key in keys if key in confs and is_seconds(confs[key])), None)
