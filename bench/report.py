"""The summary of benchmark runs: medians, spread and ratios, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

# The default base of ratios; a ratio above 1 means that the other contestant took longer.
OURS = "headrace"


@dataclass(frozen=True)
class Sample:
    """One measured duration."""

    measure: str
    contestant: str
    seconds: float


@dataclass(frozen=True)
class Line:
    """The samples of one contestant in one measure; ``ratio`` is its median over the base's, None without a base."""

    measure: str
    contestant: str
    runs: tuple[float, ...]
    ratio: float | None = None

    @property
    def median(self) -> float:
        """The median run, in seconds."""
        return median(self.runs)

    @property
    def spread(self) -> float:
        """The slowest run minus the fastest, over the median."""
        return (max(self.runs) - min(self.runs)) / self.median

    def to_json(self) -> dict[str, Any]:
        """The line as stored; durations in seconds."""
        return {
            "measure": self.measure,
            "contestant": self.contestant,
            "median_s": round(self.median, 3),
            "fastest_s": round(min(self.runs), 3),
            "slowest_s": round(max(self.runs), 3),
            "spread": round(self.spread, 3),
            "ratio": None if self.ratio is None else round(self.ratio, 3),
            "runs_s": [round(run, 3) for run in self.runs],
        }


def lines_of(samples: Iterable[Sample], base: str = OURS) -> tuple[Line, ...]:
    """One line for each measure and contestant, in the order of their first measurement.

    Args:
        samples: the measurements.
        base: the contestant whose median the others' medians are divided by.
    """
    grouped: dict[str, dict[str, list[float]]] = {}
    for sample in samples:
        grouped.setdefault(sample.measure, {}).setdefault(sample.contestant, []).append(sample.seconds)
    lines = []
    for measure, contestants in grouped.items():
        own = median(contestants[base]) if base in contestants else None
        for contestant, runs in contestants.items():
            ratio = median(runs) / own if own else None
            lines.append(Line(measure, contestant, tuple(runs), ratio))
    return tuple(lines)


def round_of(contestants: Sequence[str], base: str = OURS) -> tuple[str, ...]:
    """The order of one round: the first competitor runs first and again last, which shows the machine's drift."""
    others = [name for name in contestants if name != base]
    if not others or base not in contestants:
        return tuple(contestants)
    return (others[0], base, *others[1:], others[0])


def table(lines: Sequence[Line], absent: Mapping[str, str]) -> str:
    """The lines as a text table; *absent* maps contestants that could not run to the reason."""
    heads = ("measure", "contestant", "median s", "spread", "ratio", "runs")
    rows = [
        heads,
        *(_cells(line) for line in lines),
        *((("", name, reason, "", "", "")) for name, reason in absent.items()),
    ]
    widths = [max(len(row[number]) for row in rows) for number in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _cells(line: Line) -> tuple[str, ...]:
    ratio = "" if line.ratio is None else f"{line.ratio:.2f}"
    return (line.measure, line.contestant, f"{line.median:.2f}", f"{line.spread:.0%}", ratio, str(len(line.runs)))
