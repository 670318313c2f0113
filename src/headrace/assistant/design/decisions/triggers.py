"""When flows run: from the latency, and the number of tables that a row passes."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.assistant.design.blueprint import Blueprint, Dataset, DatasetKind
from headrace.assistant.design.decisions.decision import Decision
from headrace.assistant.design.durations import spoken
from headrace.assistant.design.suitability import LatencyClass

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
# Periods that cron can express.
_PERIODS_S = (
    *(minutes * _MINUTE_S for minutes in (1, 2, 3, 5, 10, 15, 20, 30)),
    *(hours * _HOUR_S for hours in (1, 2, 3, 4, 6, 12)),
    *(days * _DAY_S for days in (1, 2, 3, 4, 5, 6, 7)),
)
# What a small batch takes at least: docs/reference/benchmarks.md measured 0.7 s for batches back to back.
_BATCH_S = 0.7
_PAGE = "guides/triggers"


def period_s(blueprint: Blueprint) -> int:
    """The time between two updates of a pipeline that runs on a schedule."""
    latency_s = min(dataset.latency_s for dataset in blueprint.datasets)
    # A record that just missed an update waits for the next one, which then has to run.
    longest_s = latency_s if blueprint.latency_class is LatencyClass.BATCH else latency_s / 2
    return max((period for period in _PERIODS_S if period <= longest_s), default=_PERIODS_S[0])


def cron(blueprint: Blueprint) -> str:
    """The schedule as cron has it."""
    seconds = period_s(blueprint)
    if seconds < _HOUR_S:
        return f"*/{seconds // _MINUTE_S} * * * *" if seconds > _MINUTE_S else "* * * * *"
    if seconds < _DAY_S:
        return f"0 */{seconds // _HOUR_S} * * *" if seconds > _HOUR_S else "0 * * * *"
    return f"0 2 */{seconds // _DAY_S} * *" if seconds > _DAY_S else "0 2 * * *"


def interval_s(dataset: Dataset, blueprint: Blueprint) -> float:
    """How often the flow of a dataset checks for new input in a continuous update; 0 for one batch after the other.

    A row waits for a check at each step on its way, so the steps share the latency of the result.
    """
    results = [dataset, *_descendants(dataset, blueprint)]
    least_s = min(one.latency_s / (_steps(one) + 1) for one in results if one.kind.layer or one.output)
    return float(int(least_s)) if least_s >= 1 else 0.0


def trigger_decisions(blueprint: Blueprint) -> Iterator[Decision]:
    """How the pipeline runs, and what its latency costs."""
    least_s = min(dataset.latency_s for dataset in blueprint.datasets)
    text = spoken(least_s)
    match blueprint.latency_class:
        case LatencyClass.BATCH:
            yield Decision(
                "trigger",
                f"an update every {spoken(period_s(blueprint))}, started by a scheduler: `{cron(blueprint)}`",
                f"a latency of {text} needs no process that waits; an update reads what is new, and ends",
                ("a continuous update: results are seconds old, and a session runs all day",),
                _PAGE,
            )
        case LatencyClass.TRIGGERED:
            yield Decision(
                "trigger",
                f"an update every {spoken(period_s(blueprint))}, started by a scheduler: `{cron(blueprint)}`",
                f"within {text}, a record may wait for an update and for its run, so the period is about half",
                ("a continuous update: lower latency, and a session runs all the time",),
                _PAGE,
            )
        case _:
            yield _continuous(blueprint, least_s)
    yield from (_real_time(dataset) for dataset in blueprint.datasets if dataset.is_real_time)


def _continuous(blueprint: Blueprint, least_s: float) -> Decision:
    results = [d for d in blueprint.datasets if (d.kind.layer or d.output) and not d.is_real_time]
    if not results:
        return Decision(
            "trigger",
            "one continuous update: headrace run --continuous",
            f"a latency of {spoken(least_s)} needs a stream that never ends",
            ("an update on a schedule: its latency is minutes",),
            _PAGE,
        )
    slowest = max(results, key=lambda one: _steps(one) * (interval_s(one, blueprint) + _BATCH_S) - one.latency_s)
    expected_s = _steps(slowest) * (interval_s(slowest, blueprint) + _BATCH_S)
    late = expected_s > slowest.latency_s
    steps = "the only step" if _steps(slowest) == 1 else f"the {_steps(slowest)} steps"
    reason = (
        f"a latency of {spoken(slowest.latency_s)} is too short for a new session for each update, "
        f"and has to be enough for {steps} to {slowest.name}"
    )
    if late:
        reason += f"; they take about {expected_s:.1f} s, which is more than {spoken(slowest.latency_s)}"
    return Decision(
        "trigger",
        f"one continuous update; flows check for input every {interval_text(slowest, blueprint)}",
        reason,
        (
            "an update on a schedule: cheaper, and its latency is minutes",
            "real-time mode: milliseconds, from Kafka to Kafka only",
        ),
        _PAGE,
        falls_short=late,
    )


def _real_time(dataset: Dataset) -> Decision:
    return Decision(
        f"trigger.{dataset.name}",
        "real-time mode: each record is passed on at once",
        f"a latency of {spoken(dataset.latency_s)} is less than a batch takes",
        ("batches back to back: about a second, with exactly-once tables on the way",),
        _PAGE,
    )


def interval_text(dataset: Dataset, blueprint: Blueprint) -> str:
    """The interval of a flow, as Headrace reads it."""
    seconds = interval_s(dataset, blueprint)
    return spoken(seconds) if seconds else "0 seconds"


def _steps(dataset: Dataset) -> int:
    """The number of flows that a row passes until it is in the dataset."""
    return dataset.hops + (dataset.kind is DatasetKind.SINK)


def _descendants(dataset: Dataset, blueprint: Blueprint) -> list[Dataset]:
    found: list[Dataset] = []
    waiting = [dataset]
    while waiting:
        for reader in blueprint.readers(waiting.pop().name):
            if reader not in found:
                found.append(reader)
                waiting.append(reader)
    return found
