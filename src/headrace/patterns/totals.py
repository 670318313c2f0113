"""Running totals, and aggregates over time windows."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.patterns.arguments import (
    check_columns,
    check_distinct_names,
    interval,
    millis,
    quote_columns,
    with_event_time,
)

_WINDOW = "__window"
_MADE = ("window_start", "window_end")


def running_totals(events: DataFrame, keys: str | Sequence[str], *aggregates: Column) -> DataFrame:
    """Aggregate all events of each key so far.

    The state keeps one row per key forever. In a pipeline, each batch replaces the table; an update flow delivers the
    changed keys to a sink.

    Args:
        events: a batch or a stream.
        keys: the key columns; NULL counts as a key.
        aggregates: such as ``F.sum("amount").alias("spent")``.

    Returns:
        The keys, ``events`` (BIGINT, the number of events), then the aggregates.

    Raises:
        PipelineError: PATTERN.*.
    """
    keyed = check_columns("running_totals", events, keys)
    check_distinct_names("running_totals", keyed, ("events",))
    found = events.groupBy(*quote_columns(keyed)).agg(F.count(F.lit(1)).alias("events"), *aggregates)
    check_distinct_names("running_totals", found.columns, ())
    return found


def windowed(
    events: DataFrame,
    keys: str | Sequence[str],
    at: str,
    size: str,
    *aggregates: Column,
    slide: str | None = None,
    delay: str | None = None,
) -> DataFrame:
    """Aggregate the events of each key in time windows, for example as model features.

    A stream emits a window when the watermark passes its end. ``dp.create_feature_table`` keeps the newest window of
    each key, with history, by ``window_end``.

    Args:
        events: a batch or a stream.
        keys: the key columns; NULL counts as a key.
        at: the event time column; events without a time are in no window.
        size: the window's length, such as ``1 hour``.
        aggregates: such as ``F.sum("amount").alias("spent")``; at least one.
        slide: the time between window starts (default: *size*, so that windows do not overlap).
        delay: how late events can arrive. None: the stream already has a watermark.

    Returns:
        The keys, ``window_start`` and ``window_end``, then the aggregates.

    Raises:
        PipelineError: PATTERN.*.
    """
    keyed = check_columns("windowed", events, keys)
    check_distinct_names("windowed", keyed, _MADE)
    if not aggregates:
        raise PipelineError("PATTERN.NO_AGGREGATE")
    if slide is not None and millis("windowed", slide) > millis("windowed", size):
        raise PipelineError("PATTERN.LONG_SLIDE", slide=slide, size=size)
    known = with_event_time("windowed", events, at, delay)
    step = None if slide is None else interval("windowed", slide)
    window = F.window(F.col(*quote_columns([at])), interval("windowed", size), step).alias(_WINDOW)
    totals = known.groupBy(*quote_columns(keyed), window).agg(*aggregates)
    check_distinct_names("windowed", totals.columns, _MADE)
    bounds = [F.col(_WINDOW)[bound].alias(name) for bound, name in zip(("start", "end"), _MADE, strict=True)]
    rest = [F.col(*quote_columns([name])) for name in totals.columns if name not in (*keyed, _WINDOW)]
    return totals.select(*quote_columns(keyed), *bounds, *rest)
