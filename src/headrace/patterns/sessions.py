"""Group events into sessions, which end after a period of inactivity."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.patterns.arguments import check_columns, check_distinct_names, interval, quote_columns, with_event_time

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
    """One row for each session of a key: events with at most *gap* between one and the next.

    A stream emits a session once, when the watermark passes its last event plus the gap.

    Args:
        events: a batch or a stream.
        keys: the key columns; NULL counts as a key.
        at: the event time column; events without a time are in no session.
        gap: the inactivity that ends a session, such as ``30 minutes``.
        delay: how late events can arrive. None: the stream already has a watermark.
        aggregates: more columns of a session, such as ``F.collect_list("page").alias("pages_visited")``.

    Returns:
        The keys, ``session_start`` and ``session_end`` (the times of its first and its last event),
        ``events_in_session`` (BIGINT), then the aggregates.

    Raises:
        PipelineError: PATTERN.*.
    """
    keyed = check_columns("sessionize", events, keys)
    check_distinct_names("sessionize", keyed, _MADE)
    time = F.col(*quote_columns([at]))
    known = with_event_time("sessionize", events, at, delay)
    sessions = known.groupBy(*quote_columns(keyed), F.session_window(time, interval("sessionize", gap)).alias(_WINDOW))
    made = (F.min(time), F.max(time), F.count(F.lit(1)))
    totals = [column.alias(name) for column, name in zip(made, _MADE, strict=True)]
    found = sessions.agg(*totals, *aggregates)
    check_distinct_names("sessionize", found.columns, ())
    return found.drop(_WINDOW)
