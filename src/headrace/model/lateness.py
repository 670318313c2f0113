"""How late the rows of a table came, and which watermark would wait for nearly all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Parts of the rows by which time they had come.
SHARES = (0.5, 0.9, 0.99, 0.999, 1.0)
PASSED_OVER = 0.001
_STEPS_S = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY_S = 86400
_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


@dataclass(frozen=True)
class Lateness:
    """How far rows came behind the newest one of the commits before their own.

    Attributes:
        table: whose rows.
        column: of their time.
        commits: how many were looked at.
        left_out: how many were not, because they removed or changed rows, or their files are gone.
        rows: how many have a time.
        without_time: how many have none.
        late: numbers of rows by how many seconds they were late, rounded up; rows that were not late have none.
        passed_over: the share of rows that a watermark may do without.
        compared: how many commits came behind another one that has times.
        ahead_s: how far the newest time is ahead of the clock.
    """

    table: str
    column: str
    commits: int
    left_out: int
    rows: int
    without_time: int
    late: Mapping[float, int]
    passed_over: float
    compared: int = 1
    ahead_s: float = 0.0

    @property
    def late_rows(self) -> int:
        """How many were late at all."""
        return sum(self.late.values())

    def within_s(self, share: float) -> float:
        """The seconds that this share of the rows, or more of them, were late at most."""
        left = self.rows - self.late_rows
        if left >= share * self.rows:
            return 0.0
        for seconds in sorted(self.late):
            left += self.late[seconds]
            if left >= share * self.rows:
                return seconds
        return max(self.late, default=0.0)

    def passed_over_by(self, seconds: float) -> int:
        """How many rows a watermark of that delay would pass over: those that were as late as that, or later."""
        return sum(count for late_s, count in self.late.items() if late_s >= seconds)

    @property
    def suggested_s(self) -> int | None:
        """The shortest delay that people would write which passes over no more rows than may be; None: nobody knows."""
        if not self.compared:
            return None
        most = self.passed_over * self.rows
        latest = max(self.late, default=0.0)
        whole_days = (int(latest // _DAY_S) + 1) * _DAY_S
        steps = (*_STEPS_S, *range(_DAY_S, whole_days + 1, _DAY_S))
        return min(int(step) for step in steps if self.passed_over_by(step) <= most)

    def describe(self) -> str:
        """For the reader."""
        without = f", and {self.without_time:,} without a time" if self.without_time else ""
        lines = [f"{self.table}.{self.column}: {self.rows:,} rows in {_count(self.commits, 'commit')}{without}"]
        if self.left_out:
            lines.append(f"  left out: {_count(self.left_out, 'commit')} that changed rows, or whose files are gone")
        lines.append(f"  late: {self.late_rows:,} rows ({_percent(self.late_rows, self.rows)})")
        for share in SHARES:
            label = "all rows" if share == 1.0 else f"{share * 100:g} %"
            lines.append(f"  {label:>8}  within {duration(self.within_s(share))}")
        if self.ahead_s > _DAY_S:
            lines.append(f"  ahead: the newest time is {duration(round(self.ahead_s))} ahead of the clock")
        if self.suggested_s is None:
            lines.append("  no commit came behind another one, so that nothing can be said of a watermark")
        else:
            over = self.passed_over_by(self.suggested_s)
            delay = duration(self.suggested_s)
            lines.append(f'  withWatermark("{self.column}", "{delay}") passes over {over:,} of these rows')
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The measurement as one JSON object."""
        return {
            "table": self.table,
            "column": self.column,
            "commits": self.commits,
            "commits_left_out": self.left_out,
            "rows": self.rows,
            "rows_without_time": self.without_time,
            "rows_late": self.late_rows,
            "within_s": {f"{share * 100:g}": self.within_s(share) for share in SHARES},
            "ahead_s": self.ahead_s,
            "suggested_delay_s": self.suggested_s,
            "rows_passed_over": None if self.suggested_s is None else self.passed_over_by(self.suggested_s),
        }


def duration(seconds: float) -> str:
    """Seconds as Spark's intervals have them: ``2 minutes``, ``1 hour 30 minutes``, ``0.25 seconds``."""
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
