"""How long a table that change events are merged into remembers what its rows cannot tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

# On a table or in the pipeline's configuration, the names that go before others first.
WINDOW_KEYS = (
    "pipelines.cdc.tombstoneGCThresholdInSeconds",
    "pipelines.applyChanges.tombstoneGCThresholdInSeconds",
)
PAUSE_KEYS = (
    "pipelines.cdc.tombstoneGCFrequencyInSeconds",
    "pipelines.applyChanges.tombstoneGCFrequencyInSeconds",
)
RETENTION_KEYS = frozenset({*WINDOW_KEYS, *PAUSE_KEYS})

_SECONDS = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True)
class Retention:
    """For how many seconds it is remembered at least, and how many pass at least between two times of forgetting."""

    window_s: int = 172_800
    pause_s: int = 3_600

    def with_confs(self, confs: Mapping[str, str]) -> Retention:
        """What the confs say, and this where they do not; values that are no seconds (``is_seconds``) are left out."""
        window, pause = _first(confs, WINDOW_KEYS), _first(confs, PAUSE_KEYS)
        return replace(
            self,
            window_s=self.window_s if window is None else window,
            pause_s=self.pause_s if pause is None else pause,
        )


DEFAULT_RETENTION = Retention()


def is_seconds(text: str) -> bool:
    """True for a value that a key of retention can have: a whole number, not below 0."""
    return _SECONDS.fullmatch(text.strip()) is not None


def _first(confs: Mapping[str, str], keys: tuple[str, ...]) -> int | None:
    return next((int(confs[key]) for key in keys if key in confs and is_seconds(confs[key])), None)
