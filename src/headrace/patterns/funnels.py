"""Funnel analysis: how many of several steps each session reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.patterns.arguments import (
    check_columns,
    check_distinct_names,
    interval,
    micros,
    millis,
    quote_columns,
    with_event_time,
)

_WINDOW, _STEPS = "__session", "__steps"
_MADE = ("session_start", "steps_reached", "last_step")


def funnel(
    events: DataFrame,
    keys: str | Sequence[str],
    at: str,
    steps: Mapping[str, str | Column],
    *,
    gap: str,
    within: str | None = None,
    delay: str | None = None,
) -> DataFrame:
    """Count how many of the given steps each session of a key took in order; other events may come between them.

    A step counts if it comes later than the previous step, and at most *within* after the first one. If a session has
    several such sequences, the longest counts. A stream emits a session when it has ended, as in
    :func:`headrace.patterns.sessionize`.

    Args:
        events: a batch or a stream.
        keys: the key columns; NULL counts as a key.
        at: the event time column; events without a time are in no session.
        steps: for each step name, in order, the condition of an event that takes the step.
        gap: the inactivity that ends a session, such as ``30 minutes``.
        within: the maximum duration from the first to the last step. None: as long as the session.
        delay: how late events can arrive. None: the stream already has a watermark.

    Returns:
        The keys, ``session_start`` (the time of the session's first event), ``steps_reached`` (INT, 0 to the number of
        steps) and ``last_step`` (STRING, the name of the last step reached; NULL if none).

    Raises:
        PipelineError: PATTERN.*.

    Source: ClickHouse's ``windowFunnel``, which passes over the sorted events and keeps, for each step, the start time
    of the latest sequence that reached it.
    """
    keyed = check_columns("funnel", events, keys)
    check_distinct_names("funnel", keyed, _MADE)
    if len(steps) < 2:
        raise PipelineError("PATTERN.NO_STEPS")
    time = F.col(*quote_columns([at]))
    known = with_event_time("funnel", events, at, delay)
    window = F.session_window(time, interval("funnel", gap)).alias(_WINDOW)
    moment = micros(events, at).alias("at")
    # Sort the higher of two simultaneous steps first, so that no event sequence takes two steps at once.
    taken = [
        F.when(
            F.expr(condition) if isinstance(condition, str) else condition,
            F.struct(moment, F.lit(-number).alias("step")),
        )
        for number, condition in enumerate(steps.values())
    ]
    sessions = known.groupBy(*quote_columns(keyed), window)
    found = sessions.agg(
        F.min(time).alias(_MADE[0]),
        F.array_sort(F.flatten(F.collect_list(F.array_compact(F.array(*taken))))).alias(_STEPS),
    )
    longest = None if within is None else F.lit(millis("funnel", within) * 1000)
    reached = F.size(F.array_compact(_start_times(F.col(_STEPS), len(steps), longest)))
    labels = F.array(*map(F.lit, steps))
    last = F.when(F.col(_MADE[1]) > 0, F.element_at(labels, F.col(_MADE[1])))
    return found.select(*quote_columns(keyed), _MADE[0], reached.alias(_MADE[1])).withColumn(_MADE[2], last)


def _start_times(steps: Column, count: int, longest: Column | None) -> Column:
    """For each step, the start time of the latest sequence that reached it; NULL if none did."""
    nothing = F.array(*[F.lit(None).cast("bigint")] * count)

    def advance(start_times: Column, event: Column) -> Column:
        moment, number = event["at"], -event["step"]

        def updated(before: Column, position: Column) -> Column:
            started = F.when(number == 0, moment).otherwise(F.get(start_times, number - 1))
            can_start = (position == number) & started.isNotNull()
            return F.when(
                can_start if longest is None else can_start & (moment <= started + longest), started
            ).otherwise(before)

        return F.transform(start_times, updated)

    return F.aggregate(steps, nothing, advance)
