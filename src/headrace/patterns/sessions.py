"""Events put together to sessions, which end with a time of silence."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.patterns.given import columns, free, length, names, timed

_WINDOW = "__session"
_MADE = ("session_start", "session_end", "events_in_session")


def sessionize(
    events: DataFrame,
    keys: str | Sequence[str],
    at: str,
    gap: str,
    *,
    delay: str | None = None,
    aggregates: Sequence[Column] = (),
) -> DataFrame:
    """One row for each session of a key: its events with no more than *gap* between one and the next.

    Over a stream a session is there once the watermark is past its end and the gap, and is not changed any more.

    Args:
        events: a batch or a stream.
        keys: columns; NULL is a key as any other.
        at: the column of the events' time; events without one are in no session.
        gap: the silence that ends a session, such as ``30 minutes``.
        delay: how late events may come. None: the stream has a watermark already.
        aggregates: more columns of a session, such as ``F.collect_list("page").alias("pages_visited")``.

    Returns:
        The keys, ``session_start`` and ``session_end`` (the times of its first and its last event),
        ``events_in_session`` (BIGINT), then the aggregates.

    Raises:
        PipelineError: PATTERN.*.
    """
    keyed = names("sessionize", events, keys)
    free("sessionize", keyed, _MADE)
    time = F.col(*columns([at]))
    known = timed("sessionize", events, at, delay)
    sessions = known.groupBy(*columns(keyed), F.session_window(time, length("sessionize", gap)).alias(_WINDOW))
    made = (F.min(time), F.max(time), F.count(F.lit(1)))
    totals = [column.alias(name) for column, name in zip(made, _MADE, strict=True)]
    found = sessions.agg(*totals, *aggregates)
    free("sessionize", found.columns, ())
    return found.drop(_WINDOW)
