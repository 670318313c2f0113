"""Coordinates of charts, in the units of their view boxes. Pure; templates draw them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from math import log1p, sqrt
from typing import Any

from headrace.graph.drawing import Drawing
from headrace.metrics.trace import Span

_BAR_WIDTH, _BAR_STEP, _BAR_HEIGHT = 7, 10, 26
_SPARK_WIDTH, _SPARK_HEIGHT = 180, 30
_SHARE_WIDTH, _SHARE_HEIGHT = 420, 70
_DAY_STEP, _DAY_HEIGHT = 5, 26
_CHART_WIDTH, _CHART_HEIGHT = 920, 180
_ROW_HEIGHT = 28
_LEAST_BARS = 12
_LANE_HEIGHT = 16
_TICKS = 4
_THIN, _WIDE = 1.5, 7.0


def update_bars(updates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One bar for each update, oldest first; the area of long ones does not hide the others.

    Args:
        updates: their JSON, the newest first.
    """
    longest = max((update["duration_s"] or 0 for update in updates), default=0)
    bars = []
    for place, update in enumerate(reversed(updates)):
        part = sqrt((update["duration_s"] or 0) / longest) if longest else 0
        height = max(round(part * _BAR_HEIGHT), 3)
        bars.append({"x": place * _BAR_STEP, "y": _BAR_HEIGHT - height, "height": height, "of": update})
    return {
        "width": max(len(bars) * _BAR_STEP, _BAR_STEP),
        "height": _BAR_HEIGHT + 10,
        "bar": _BAR_WIDTH,
        "marks": _BAR_HEIGHT + 2,
        "bars": bars,
    }


def sparkline(values: Sequence[float]) -> dict[str, Any] | None:
    """A line through values from 0 to 1; None for fewer than two. The bottom is the lowest value, or 0.9."""
    if len(values) < 2:
        return None
    bottom = min(0.9, *values)
    step = (_SPARK_WIDTH - 6) / (len(values) - 1)
    points = [
        (round(3 + place * step, 1), round(3 + (1 - value) / (1 - bottom) * (_SPARK_HEIGHT - 6), 1))
        for place, value in enumerate(values)
    ]
    line = " ".join(f"{x},{y}" for x, y in points)
    return {"width": _SPARK_WIDTH, "height": _SPARK_HEIGHT, "line": line, "last": points[-1], "lowest": min(values)}


def day_bars(counts: Sequence[int]) -> dict[str, Any]:
    """One bar for each day, oldest first; a day with anything is seen beside one with much.

    Args:
        counts: of each day, today's last.
    """
    most = max(counts, default=0)
    bars = []
    for place, count in enumerate(counts):
        height = max(round(sqrt(count / most) * _DAY_HEIGHT), 3) if count else 1
        bars.append({"x": place * _DAY_STEP, "y": _DAY_HEIGHT - height, "height": height, "is_empty": not count})
    return {
        "width": max(len(counts) * _DAY_STEP, _DAY_STEP),
        "height": _DAY_HEIGHT,
        "bar": _DAY_STEP - 1,
        "bars": bars,
        "most": most,
    }


def share_bars(shares: Sequence[float]) -> dict[str, Any] | None:
    """Shares from 0 to 1 as bars, oldest first, of which the highest fills the height; None without one.

    A share above zero is seen, however small it is. The top is at least 1 %, so that little does not look like much.
    """
    if not shares:
        return None
    return _bars(shares, min(max(_round_up(max(*shares, 0.01)), 0.01), 1.0))


def value_bars(values: Sequence[float]) -> dict[str, Any]:
    """Values as bars, oldest first, of which the highest fills the height. One above zero is seen, however small."""
    return _bars(values, max(values, default=0))


def _bars(values: Sequence[float], top: float) -> dict[str, Any]:
    step = _SHARE_WIDTH / max(len(values), 20)
    bars = []
    for place, one in enumerate(values):
        height = max(round(one / top * _SHARE_HEIGHT, 1), 2.0) if one > 0 else 1.0
        y = round(_SHARE_HEIGHT - height, 1)
        bars.append({"x": round(place * step, 2), "y": y, "height": height, "is_empty": one <= 0})
    return {"width": _SHARE_WIDTH, "height": _SHARE_HEIGHT, "bar": round(step * 0.75, 2), "bars": bars, "top": top}


def stacked_bars(batches: Sequence[Mapping[str, Any]], phases: Sequence[str]) -> dict[str, Any] | None:
    """Durations of batches by phase, oldest first; None without one.

    Args:
        batches: their JSON, the newest first.
        phases: in the order from bottom to top.
    """
    if not batches:
        return None
    longest_ms = max(max((batch["duration_ms"] for batch in batches), default=0), 1)
    top_ms = _round_up(longest_ms)
    step = _CHART_WIDTH / max(len(batches), _LEAST_BARS)
    bars = []
    for place, batch in enumerate(reversed(batches)):
        parts, base = [], 0.0
        for phase in phases:
            height = batch["phases_ms"].get(phase, 0) / top_ms * _CHART_HEIGHT
            if height > 0:
                base += height
                parts.append({"phase": phase, "y": round(_CHART_HEIGHT - base, 2), "height": round(height, 2)})
        x, width = round(place * step + step * 0.1, 2), round(step * 0.8, 2)
        bars.append({"x": x, "width": width, "parts": parts, "batch": batch})
    ticks = [
        {"y": round(_CHART_HEIGHT * (1 - place / _TICKS), 1), "seconds": top_ms * place / _TICKS / 1000}
        for place in range(_TICKS + 1)
    ]
    return {"width": _CHART_WIDTH, "height": _CHART_HEIGHT, "bars": bars, "ticks": ticks}


def marker_lanes(markers: Iterable[tuple[str, int]], lanes: Sequence[str], bars: int) -> dict[str, Any]:
    """Markers in lanes above stacked bars, each at the left edge of a bar or behind the last one.

    Args:
        markers: the lane of each, and how many bars are before it.
        lanes: from top to bottom; those without markers take no space.
        bars: how many the picture has.
    """
    step = _CHART_WIDTH / max(bars, _LEAST_BARS)
    placed = list(markers)
    used = [lane for lane in lanes if any(lane == found for found, _ in placed)]
    height = len(used) * _LANE_HEIGHT
    middles = {lane: place * _LANE_HEIGHT - height for place, lane in enumerate(used)}
    marks = [{"lane": lane, "x": round(place * step, 2), "y": middles[lane]} for lane, place in placed]
    return {"height": height, "lanes": [{"lane": lane, "y": middles[lane]} for lane in used], "marks": marks}


def gantt(root: Span) -> dict[str, Any] | None:
    """The attempts of flows in the time of an update; None without one."""
    if not root.children:
        return None
    whole_s = max(root.duration_s, 0.001)

    def x(moment: datetime) -> float:
        part = (moment - root.start).total_seconds() / whole_s
        return round(min(max(part, 0), 1) * _CHART_WIDTH, 2)

    rows = []
    for place, span in enumerate(root.children):
        start, end = x(span.start), x(span.end)
        batches = [{"x": x(one.start), "width": max(round(x(one.end) - x(one.start), 2), 1)} for one in span.children]
        rows.append(
            {
                "y": place * _ROW_HEIGHT,
                "x": start,
                "width": max(round(end - start, 2), 3),
                "batches": batches,
                "flow": span.attributes["flow"],
                "attempt": span.attributes["headrace.attempt"],
                "state": span.attributes["headrace.state"],
                "duration_s": span.duration_s,
            }
        )
    ticks = [
        {"x": round(_CHART_WIDTH * place / _TICKS, 1), "seconds": whole_s * place / _TICKS}
        for place in range(_TICKS + 1)
    ]
    height = len(rows) * _ROW_HEIGHT
    return {"width": _CHART_WIDTH, "height": height, "row": _ROW_HEIGHT, "rows": rows, "ticks": ticks}


def graph_picture(
    drawing: Drawing, names: Iterable[str], rates: Mapping[tuple[str, str], float] | None = None
) -> dict[str, Any]:
    """The boxes of a graph, and its lines as curves, as wide as their rates.

    Args:
        drawing: where everything is.
        names: of the boxes, in the order that they are wanted in.
        rates: rows per second, by the ends of a line; lines without one are thin.
    """
    known = rates or {}
    most = max(known.values(), default=0.0)
    lines = [
        {
            "source": line.source,
            "target": line.target,
            "path": _curve(line.points),
            "is_back": line.is_back,
            "rate": known.get((line.source, line.target)),
            "width": line_width(known.get((line.source, line.target), 0.0), most),
        }
        for line in drawing.lines
    ]
    places = {box.name: {"x": box.x, "y": box.y, "width": box.width, "height": box.height} for box in drawing.boxes}
    boxes = [places[name] for name in names]
    return {"width": drawing.width, "height": drawing.height, "boxes": boxes, "lines": lines}


def line_width(rate: float, most: float) -> float:
    """How wide a line is: rates differ by orders of magnitude, so their logarithms are compared."""
    share = log1p(rate) / log1p(most) if most > 0 and rate > 0 else 0.0
    return round(_THIN + share * (_WIDE - _THIN), 1)


def _curve(points: Sequence[tuple[int, int]]) -> str:
    """A path that leaves and enters each point horizontally."""
    parts = [f"M{points[0][0]},{points[0][1]}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        if y == to_y:
            parts.append(f"H{to_x}")
        else:
            middle = (x + to_x) // 2
            parts.append(f"C{middle},{y} {middle},{to_y} {to_x},{to_y}")
    return " ".join(parts)


def _round_up(number: float) -> float:
    """The next of 1, 2, 4, 5 and 8 times a power of ten, so that quarters of it are round."""
    power = 1.0
    while power * 10 <= number:
        power *= 10
    while power > number:
        power /= 10
    return next((factor * power for factor in (1, 2, 4, 5, 8) if factor * power >= number), 10 * power)
