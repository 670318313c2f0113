"""How late the rows of a table arrived, and which watermark delay would keep nearly all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The percentiles to report.
SHARES = (0.5, 0.9, 0.99, 0.999, 1.0)
DEFAULT_DROPPED_SHARE = 0.001
_STEPS_S = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY_S = 86400
_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


@dataclass(frozen=True)
class Lateness:
    """How far rows lag behind the newest row of the commits before their own.

    Attributes:
        table: name of the table.
        column: the event time column.
        commits: number of commits measured.
        skipped_commits: number of commits skipped, because they removed or changed rows, or their files are gone.
        rows: number of rows with a time.
        without_time: number of rows without one.
        late: number of late rows by lateness in seconds, rounded up; without rows that were not late.
        dropped_share: the share of rows that a watermark may drop.
        compared: number of commits after another one with times.
        ahead_s: how far the newest time is ahead of the clock.
    """

    table: str
    column: str
    commits: int
    skipped_commits: int
    rows: int
    without_time: int
    late: Mapping[float, int]
    dropped_share: float
    compared: int = 1
    ahead_s: float = 0.0

    @property
    def late_rows(self) -> int:
        """The number of late rows."""
        return sum(self.late.values())

    def within_s(self, share: float) -> float:
        """The least lateness in seconds that at least this share of the rows does not exceed."""
        within = self.rows - self.late_rows
        if within >= share * self.rows:
            return 0.0
        for seconds in sorted(self.late):
            within += self.late[seconds]
            if within >= share * self.rows:
                return seconds
        return max(self.late, default=0.0)

    def dropped_by(self, seconds: float) -> int:
        """The number of rows that a watermark with this delay would drop: those as late as the delay, or later."""
        return sum(count for late_s, count in self.late.items() if late_s >= seconds)

    @property
    def suggested_s(self) -> int | None:
        """The shortest common delay that drops at most ``dropped_share`` of the rows; None if it is unknown."""
        if not self.compared:
            return None
        most = self.dropped_share * self.rows
        latest = max(self.late, default=0.0)
        whole_days = (int(latest // _DAY_S) + 1) * _DAY_S
        steps = (*_STEPS_S, *range(_DAY_S, whole_days + 1, _DAY_S))
        return min(int(step) for step in steps if self.dropped_by(step) <= most)

    def describe(self) -> str:
        """The measurement as text for users."""
        without = f", and {self.without_time:,} without a time" if self.without_time else ""
        lines = [f"{self.table}.{self.column}: {self.rows:,} rows in {_count(self.commits, 'commit')}{without}"]
        if self.skipped_commits:
            skipped = _count(self.skipped_commits, "commit")
            lines.append(f"  skipped: {skipped} that changed rows, or whose files no longer exist")
        lines.append(f"  late: {self.late_rows:,} rows ({_percent(self.late_rows, self.rows)})")
        for share in SHARES:
            label = "all rows" if share == 1.0 else f"{share * 100:g} %"
            lines.append(f"  {label:>8}  within {duration(self.within_s(share))}")
        if self.ahead_s > _DAY_S:
            lines.append(f"  ahead: the newest time is {duration(round(self.ahead_s))} ahead of the clock")
        if self.suggested_s is None:
            lines.append("  no watermark delay can be suggested: there is no earlier commit with times to compare with")
        else:
            dropped = self.dropped_by(self.suggested_s)
            delay = duration(self.suggested_s)
            lines.append(f'  withWatermark("{self.column}", "{delay}") would drop {dropped:,} of these rows')
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The measurement as one JSON object."""
        return {
            "table": self.table,
            "column": self.column,
            "commits": self.commits,
            "commits_left_out": self.skipped_commits,
            "rows": self.rows,
            "rows_without_time": self.without_time,
            "rows_late": self.late_rows,
            "within_s": {f"{share * 100:g}": self.within_s(share) for share in SHARES},
            "ahead_s": self.ahead_s,
            "suggested_delay_s": self.suggested_s,
            "rows_passed_over": None if self.suggested_s is None else self.dropped_by(self.suggested_s),
        }


def duration(seconds: float) -> str:
    """Seconds in the form of Spark's intervals: ``2 minutes``, ``1 hour 30 minutes``, ``0.25 seconds``."""
    parts = []
    rest = seconds
    for size, unit in _UNITS[:-1]:
        whole, rest = divmod(rest, size)
        if whole:
            parts.append(_count(int(whole), unit))
    if rest or not parts:
        parts.append(f"{rest:g} second{'' if rest == 1 else 's'}")
    return " ".join(parts)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2g} %" if whole else "0 %"
