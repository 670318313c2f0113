"""Values of metrics at earlier checks, by which increases are measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.metrics import catalogue
from headrace.metrics.metric import Metric, MetricKind
from headrace.metrics.samples import Samples

KEPT: tuple[Metric, ...] = (
    catalogue.FLOW_RETRIES,
    catalogue.EXPECTATIONS,
    catalogue.QUARANTINED,
    catalogue.STATE_CHANGES,
    catalogue.STATE_BYTES,
    catalogue.BATCHES,
    catalogue.BUSY,
    catalogue.INPUT_ROWS,
    catalogue.LAG_SECONDS,
    catalogue.WATERMARK_DELAY,
)
KEPT_S = 3600.0
# A check each second would otherwise keep thousands of points.
_LEAST_DISTANCE_S = 60.0


@dataclass(frozen=True)
class Point:
    """The kept metrics at a time, in seconds since 1970."""

    at: float
    samples: Samples


@dataclass(frozen=True)
class Earlier:
    """The values of a metric by their labels, *age_s* seconds ago."""

    age_s: float
    values: Mapping[tuple[str, ...], float]


class History:
    """Points of the last hour, oldest first, and one before it."""

    def __init__(self, points: tuple[Point, ...] = ()) -> None:
        self.points = points

    def with_current(self, samples: Samples, now: float) -> History:
        """The history with the current values, without what is too old."""
        # A clock that was ahead left points in the future.
        past = [point for point in self.points if point.at <= now]
        recent = [point for point in past if now - point.at <= KEPT_S]
        before = [point for point in past if now - point.at > KEPT_S][-1:]
        if recent and now - recent[-1].at < _LEAST_DISTANCE_S:
            return History((*before, *recent))
        kept = Samples()
        for metric in KEPT:
            for labels, value in samples.of(metric).items():
                kept.set(metric, value, *labels)
        return History((*before, *recent, Point(now, kept)))

    def increases(
        self, metric: Metric, samples: Samples, now: float, window_s: float
    ) -> Iterator[tuple[Mapping[str, str], float]]:
        """How much each value of a metric has increased within a time, with its labels.

        A counter that decreased was reset, and a gauge that is new was unknown before: neither has increased.
        Nothing is known without an earlier point that is at most twice that time old.
        """
        start = self._start(now, window_s)
        if start is None:
            return
        before = start.samples.of(metric)
        for labels, value in samples.of(metric).items():
            was = before.get(labels, 0 if metric.kind is MetricKind.COUNTER else value)
            yield dict(zip(metric.labels, labels, strict=True)), max(value - was, 0)

    def before(self, metric: Metric, now: float, window_s: float) -> Earlier | None:
        """The values of a metric a time ago; None if they are unknown, or younger than half of that time."""
        start = self._start(now, window_s)
        if start is None or now - start.at < window_s / 2:
            return None
        return Earlier(now - start.at, start.samples.of(metric))

    def _start(self, now: float, window_s: float) -> Point | None:
        """The newest point that is at least so old, else the oldest; None if it is more than twice as old."""
        within = [point for point in self.points if point.at <= now and now - point.at <= window_s]
        older = [point for point in self.points if now - point.at > window_s]
        start = older[-1] if older else (within[0] if within else None)
        return None if start is None or now - start.at > 2 * window_s else start

    def to_json(self) -> list[dict[str, Any]]:
        """The points as JSON."""
        return [{"at": point.at, "samples": point.samples.to_json()} for point in self.points]

    @classmethod
    def from_json(cls, given: Any) -> History:
        """The history of :meth:`to_json`.

        Raises:
            ValueError, KeyError, TypeError: it is something else.
        """
        return cls(tuple(Point(float(point["at"]), Samples.from_json(point["samples"])) for point in given))
