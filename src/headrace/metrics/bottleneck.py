"""Where the time of a running stream goes, in a word: the largest share of the last ten minutes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WINDOW_MINUTES = 10
WAITING = "waiting for input"
# By the phase of a batch (``model/stream_progress.py``).
_CAUSES: Mapping[str, str] = {
    "latest_offset": "source",
    "get_batch": "source",
    "query_planning": "planning",
    "wal_commit": "checkpoint storage",
    "commit_offsets": "checkpoint storage",
    "commit_batch": "checkpoint storage",
    "add_batch": "query or target",
}


class RecentPhases:
    """The time that the batches of one stream spent, by cause and minute.

    Args:
        since: when the stream started, in seconds since 1970.
    """

    def __init__(self, since: float) -> None:
        self._since = since
        # By minute since 1970 and cause, in seconds.
        self._minutes: dict[int, dict[str, float]] = {}

    def add(self, at: float, phases_ms: Mapping[str, int]) -> None:
        """Add the batches of a report, at the time of the report."""
        minute = int(at // 60)
        found = self._minutes.setdefault(minute, {})
        for phase, duration_ms in phases_ms.items():
            cause = _CAUSES.get(phase, phase)
            found[cause] = found.get(cause, 0) + duration_ms / 1000
        for old in [one for one in self._minutes if one <= minute - WINDOW_MINUTES]:
            del self._minutes[old]

    def cause(self, now: float) -> str | None:
        """What most of the time went to; None before the first report."""
        if not self._minutes:
            return None
        oldest = int(now // 60) - WINDOW_MINUTES + 1
        shares: dict[str, float] = {}
        for minute, causes in self._minutes.items():
            for cause, seconds in causes.items() if minute >= oldest else ():
                shares[cause] = shares.get(cause, 0) + seconds
        elapsed = now - max(self._since, oldest * 60)
        shares[WAITING] = elapsed - sum(shares.values())
        return max(shares, key=lambda cause: shares[cause])

    def to_json(self) -> dict[str, Any]:
        """Everything that the next reports need."""
        return {"since": self._since, "minutes": {str(minute): found for minute, found in self._minutes.items()}}

    @classmethod
    def from_json(cls, given: Any) -> RecentPhases:
        """The phases of :meth:`to_json`; raises KeyError, TypeError, AttributeError or ValueError for others."""
        found = cls(float(given["since"]))
        found._minutes = {
            int(minute): {str(cause): float(seconds) for cause, seconds in causes.items()}
            for minute, causes in given["minutes"].items()
        }
        return found
