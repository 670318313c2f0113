"""Sums over everything so far, and over windows of time."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.patterns.given import columns, free, length, millis, names, timed

_WINDOW = "__window"
_MADE = ("window_start", "window_end")


def running_totals(events: DataFrame, keys: str | Sequence[str], *aggregates: Column) -> DataFrame:
    """What the events of each key add up to so far.

    The state has a row for each key and forgets none. In a pipeline its table is replaced by each batch; an update flow
    delivers the keys that have changed to a sink.

    Args:
        events: a batch or a stream.
        keys: columns; NULL is a key as any other.
        aggregates: such as ``F.sum("amount").alias("spent")``.

    Returns:
        The keys, ``events`` (BIGINT, how many there were), then the aggregates.

    Raises:
        PipelineError: PATTERN.*.
    """
    keyed = names("running_totals", events, keys)
    free("running_totals", keyed, ("events",))
    found = events.groupBy(*columns(keyed)).agg(F.count(F.lit(1)).alias("events"), *aggregates)
    free("running_totals", found.columns, ())
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
    """What the events of each key add up to in windows of time, such as features of a model.

    Over a stream a window is there once the watermark is past its end. ``dp.create_feature_table`` keeps the newest
    of them for each key, with its history, by ``window_end``.

    Args:
        events: a batch or a stream.
        keys: columns; NULL is a key as any other.
        at: the column of the events' time; events without one are in no window.
        size: of a window, such as ``1 hour``.
        aggregates: such as ``F.sum("amount").alias("spent")``; at least one.
        slide: how far apart windows begin (default: *size*, so that they do not overlap).
        delay: how late events may come. None: the stream has a watermark already.

    Returns:
        The keys, ``window_start`` and ``window_end``, then the aggregates.

    Raises:
        PipelineError: PATTERN.*.
    """
    keyed = names("windowed", events, keys)
    free("windowed", keyed, _MADE)
    if not aggregates:
        raise PipelineError("PATTERN.NO_AGGREGATE")
    if slide is not None and millis("windowed", slide) > millis("windowed", size):
        raise PipelineError("PATTERN.LONG_SLIDE", slide=slide, size=size)
    known = timed("windowed", events, at, delay)
    step = None if slide is None else length("windowed", slide)
    window = F.window(F.col(*columns([at])), length("windowed", size), step).alias(_WINDOW)
    totals = known.groupBy(*columns(keyed), window).agg(*aggregates)
    free("windowed", totals.columns, _MADE)
    bounds = [F.col(_WINDOW)[bound].alias(name) for bound, name in zip(("start", "end"), _MADE, strict=True)]
    rest = [F.col(*columns([name])) for name in totals.columns if name not in (*keyed, _WINDOW)]
    return totals.select(*columns(keyed), *bounds, *rest)
