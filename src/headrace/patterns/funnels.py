"""How far somebody came on a way of several steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.patterns.given import columns, free, length, micros, millis, names, timed

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
    """How many of some steps each session of a key took, one after the other, others between them or not.

    A step counts when it comes later than the one before it, and no later than *within* after the first one. Of several
    ways through a session the longest counts. Over a stream a session is there once it is over, as in
    :func:`headrace.patterns.sessionize`.

    Args:
        events: a batch or a stream.
        keys: columns; NULL is a key as any other.
        at: the column of the events' time; events without one are in no session.
        steps: by their names, in their order, the condition of an event that takes the step.
        gap: the silence that ends a session, such as ``30 minutes``.
        within: how long the whole way may take. None: as long as the session.
        delay: how late events may come. None: the stream has a watermark already.

    Returns:
        The keys, ``session_start`` (the time of the session's first event), ``steps_reached`` (INT, 0 to the number of
        steps) and ``last_step`` (STRING, the name of the last one that was reached; NULL if none was).

    Raises:
        PipelineError: PATTERN.*.

    Source: the pass over the sorted events that remembers for each step when the newest way to it began is that of
    ClickHouse's ``windowFunnel``.
    """
    keyed = names("funnel", events, keys)
    free("funnel", keyed, _MADE)
    if len(steps) < 2:
        raise PipelineError("PATTERN.NO_STEPS")
    time = F.col(*columns([at]))
    known = timed("funnel", events, at, delay)
    window = F.session_window(time, length("funnel", gap)).alias(_WINDOW)
    moment = micros(events, at).alias("at")
    # The higher step of two at a time first, so that nothing takes two steps at once.
    taken = [
        F.when(
            F.expr(condition) if isinstance(condition, str) else condition,
            F.struct(moment, F.lit(-number).alias("step")),
        )
        for number, condition in enumerate(steps.values())
    ]
    sessions = known.groupBy(*columns(keyed), window)
    found = sessions.agg(
        F.min(time).alias(_MADE[0]),
        F.array_sort(F.flatten(F.collect_list(F.array_compact(F.array(*taken))))).alias(_STEPS),
    )
    longest = None if within is None else F.lit(millis("funnel", within) * 1000)
    reached = F.size(F.array_compact(_begun(F.col(_STEPS), len(steps), longest)))
    labels = F.array(*map(F.lit, steps))
    last = F.when(F.col(_MADE[1]) > 0, F.element_at(labels, F.col(_MADE[1])))
    return found.select(*columns(keyed), _MADE[0], reached.alias(_MADE[1])).withColumn(_MADE[2], last)


def _begun(steps: Column, count: int, longest: Column | None) -> Column:
    """For each step, when the newest way to it began; NULL where none led there."""
    nothing = F.array(*[F.lit(None).cast("bigint")] * count)

    def walked(begun: Column, event: Column) -> Column:
        moment, number = event["at"], -event["step"]

        def after(before: Column, place: Column) -> Column:
            began = F.when(number == 0, moment).otherwise(F.get(begun, number - 1))
            leads = (place == number) & began.isNotNull()
            return F.when(leads if longest is None else leads & (moment <= began + longest), began).otherwise(before)

        return F.transform(begun, after)

    return F.aggregate(steps, nothing, walked)
