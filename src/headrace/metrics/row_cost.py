"""What rows cost a stream, in the time of cores, and what they usually cost."""

from __future__ import annotations

from statistics import median
from typing import Any

from headrace.model.stream_progress import StreamBatches

_HOUR_S = 3600
_KEPT_HOURS = 7 * 24
# A batch has a cost of its own, so few rows cost more each; and hours are only compared with hours of similar load.
_LEAST_ROWS = 100_000
_LEAST_HOURS = 5
_SIMILAR = 2.0
_MILLION = 1e6


class RowCost:
    """The time and the rows of one stream, by hour, over the last week.

    It is the time of tasks on all cores. If that is unknown, it is the time of batches; the two are never compared.
    """

    def __init__(self) -> None:
        # By hour since 1970: seconds and rows.
        self._hours: dict[int, tuple[float, int]] = {}
        # The seconds are those of tasks.
        self._is_of_tasks = False

    def add(self, at: float, batches: StreamBatches) -> None:
        """Add batches, at the time of their report in seconds since 1970."""
        time, rows = batches.executor_time, batches.input_rows
        if self._is_of_tasks != (time is not None):
            self._is_of_tasks, self._hours = time is not None, {}
        seconds = (batches.duration_ms if time is None else time.run_ms) / 1000
        hour = int(at // _HOUR_S)
        before_s, before_rows = self._hours.get(hour, (0.0, 0))
        if hour not in self._hours:
            self._hours = {known: found for known, found in self._hours.items() if known >= hour - _KEPT_HOURS}
        self._hours[hour] = (before_s + seconds, before_rows + rows)

    def current(self, now: float) -> float | None:
        """Seconds for a million rows in the last full hour; None if it read too few rows."""
        found = self._hours.get(int(now // _HOUR_S) - 1)
        return None if found is None or found[1] < _LEAST_ROWS else _per_million(*found)

    def usual(self, now: float) -> float | None:
        """The median of the hours before that read half to twice as many rows; None if they are too few."""
        last = int(now // _HOUR_S) - 1
        _, rows = self._hours.get(last, (0.0, 0))
        least = max(rows / _SIMILAR, _LEAST_ROWS)
        similar = [
            _per_million(seconds, count)
            for hour, (seconds, count) in self._hours.items()
            if last - _KEPT_HOURS <= hour < last and least <= count <= rows * _SIMILAR
        ]
        return median(similar) if len(similar) >= _LEAST_HOURS else None

    def to_json(self) -> dict[str, Any]:
        """Everything that the next reports need."""
        hours = {str(hour): found for hour, found in self._hours.items()}
        return {"tasks": hours} if self._is_of_tasks else hours

    @classmethod
    def from_json(cls, given: Any) -> RowCost:
        """The costs of :meth:`to_json`; raises TypeError, AttributeError or ValueError for something else."""
        found = cls()
        # Older versions had the time of batches alone.
        found._is_of_tasks = "tasks" in given
        given = given["tasks"] if found._is_of_tasks else given
        found._hours = {int(hour): (float(seconds), int(rows)) for hour, (seconds, rows) in given.items()}
        return found


def _per_million(seconds: float, rows: int) -> float:
    return round(_MILLION * seconds / rows, 3)
