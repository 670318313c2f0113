"""What a flow measured over time: its speed, its lag, its watermark and its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from headrace.events.recorded import Recorded
from headrace.events.types import FlowLagMetrics, StreamProgress
from headrace.serve.formats import iso

_POINTS = 60
# What each measure is called, and in which unit its values are: the name of a filter of templates.
_MEASURES = (
    ("Rows a second", "rate", "rows of a batch by the time that it took"),
    ("Rows not read", "count", "rows that tables and other sources have, and the flow has not read"),
    ("Records not read", "count", "offsets of topics"),
    ("Files not read", "count", "files that were found"),
    ("Age of what is not read", "duration", "since the oldest of it was written or found"),
    ("Watermark delay", "duration", "between the report and the watermark"),
    ("Rows of state", "count", "of all operators"),
    ("Memory of state", "bytes", "of all operators"),
)


def flow_history(reports: Iterable[Recorded]) -> list[dict[str, Any]]:
    """Each measure that was reported, with its newest values.

    Args:
        reports: of one flow, oldest first.

    Returns:
        Documents with ``name``, ``unit``, ``about`` and ``points``, oldest first, of ``at`` and ``value``.
    """
    found: dict[str, list[tuple[datetime, float]]] = {name: [] for name, _, _ in _MEASURES}
    for one in reports:
        match one.event:
            case StreamProgress() as event:
                measured = _of_batches(event, one.at)
            case FlowLagMetrics() as event:
                measured = _of_lag(event, one.at)
            case _:
                continue
        for name, at, value in measured:
            if value is not None:
                found[name].append((at, value))
    return [
        {
            "name": name,
            "unit": unit,
            "about": about,
            "points": [{"at": iso(at), "value": value} for at, value in points[-_POINTS:]],
        }
        for name, unit, about in _MEASURES
        if (points := found[name])
    ]


def _of_batches(event: StreamProgress, at: datetime) -> Iterator[tuple[str, datetime, float | None]]:
    progress = event.progress
    for timing in progress.each:
        if timing.duration_ms:
            yield "Rows a second", timing.started_at, round(1000 * timing.input_rows / timing.duration_ms, 3)
    if progress.watermark is not None:
        yield "Watermark delay", at, round((at - progress.watermark).total_seconds(), 3)
    if progress.operators:
        yield "Rows of state", at, _sum(one.rows_total for one in progress.operators)
        yield "Memory of state", at, sum(one.memory_bytes for one in progress.operators)


def _of_lag(event: FlowLagMetrics, at: datetime) -> Iterator[tuple[str, datetime, float | None]]:
    rows = [*(one.rows for one in event.tables), *(one.rows for one in event.sources)]
    files = [*(one.files for one in event.backlog), *(one.files for one in event.sources)]
    written = [*(one.oldest_unread_at for one in event.tables), *(one.oldest_unread_at for one in event.backlog)]
    ages = [*(_age_s(at, moment) for moment in written), *(one.seconds for one in event.sources)]
    yield "Rows not read", at, _sum(rows)
    yield "Records not read", at, _sum([one.behind for one in event.lag])
    yield "Files not read", at, _sum(files)
    # All was read if something is known of the sources, and nothing waits.
    nothing = 0.0 if written else None
    yield "Age of what is not read", at, max((age for age in ages if age is not None), default=nothing)


def _age_s(at: datetime, moment: datetime | None) -> float | None:
    return None if moment is None else max(round((at - moment).total_seconds(), 3), 0.0)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
