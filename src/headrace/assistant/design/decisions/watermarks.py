"""How long streams wait for late events: as stated, or as measured, compared with what is usual."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.assistant.design.blueprint import Blueprint, Dataset, DatasetKind
from headrace.assistant.design.decisions.decision import Decision
from headrace.assistant.design.durations import interval, spoken
from headrace.assistant.design.requirements import Requirements
from headrace.model.lateness import Lateness as MeasuredLateness

_PAGE = "guides/watermarks"
# What is usual, by scenario: its title, and the shortest and longest delay in seconds.
USUAL = {
    "dashboard": ("real-time dashboards", 60.0, 300.0),
    "iot": ("devices", 600.0, 1800.0),
    "mobile": ("mobile apps", 3600.0, 86400.0),
    "batch": ("data in batches", 3600.0, 7 * 86400.0),
}


def delay_s(requirements: Requirements) -> float:
    """The delay of watermarks; zero if nothing needs one."""
    return requirements.lateness.within_s or 0.0


def watermark_decisions(blueprint: Blueprint, origin: str | None) -> Iterator[Decision]:
    """One decision on the delay, and one for each result that waits for it; without an origin, the delay is stated."""
    stateful = [dataset for dataset in blueprint.datasets if dataset.keeps_state]
    if not stateful:
        return
    requirements = blueprint.requirements
    delay = delay_s(requirements)
    yield Decision(
        "watermark",
        f"{interval(delay)} behind the newest event",
        f"{origin or _stated(requirements)}; {_comparison(requirements, delay)}",
        (
            "a longer delay: more late events count, with more state and later results",
            "a shorter delay: earlier results and less state, and more events are too late",
            "a materialized view: no event is too late, and each update computes everything again",
        ),
        _PAGE,
    )
    yield from (_wait(dataset, delay) for dataset in stateful if dataset.kind is not DatasetKind.DEDUP)


def _stated(requirements: Requirements) -> str:
    return f"{requirements.lateness.share * 100:g} % of the events are stated to arrive within it"


def measured_origin(measured: MeasuredLateness) -> str:
    """Where a delay that was measured in a table comes from."""
    if measured.suggested_s is None:
        return f"{measured.table} has no two commits to compare, so no event was seen to be late"
    late = measured.dropped_by(measured.suggested_s)
    return f"of {measured.rows:,} events measured in {measured.table}, {late:,} were as late or later"


def _comparison(requirements: Requirements, delay: float) -> str:
    scenario = requirements.lateness.scenario
    if scenario is not None:
        title, least_s, most_s = USUAL[scenario]
        usual = f"{spoken(least_s)} to {spoken(most_s)}"
        place = "less than" if delay < least_s else "more than" if delay > most_s else "within"
        return f"it is {place} the {usual} that are usual for {title}"
    fits = [title for title, least_s, most_s in USUAL.values() if least_s <= delay <= most_s]
    return f"usual for {' and '.join(fits)}" if fits else "between or outside of the usual delays"


def _wait(dataset: Dataset, delay: float) -> Decision:
    output = dataset.output
    if dataset.kind is DatasetKind.WINDOWS:
        what, length_s = "a window", (output.size_s or 0.0) if output else 0.0
    elif dataset.kind is DatasetKind.SESSIONS:
        what, length_s = "a session", (output.gap_s or 0.0) if output else 0.0
    else:
        what, length_s = "a pair", 0.0
    after = f"{interval(delay)} after its end" if length_s else "as soon as both events are there"
    longer = delay + length_s > dataset.latency_s and bool(length_s)
    note = (
        f"; this wait is longer than the latency of {spoken(dataset.latency_s)}, which counts from then"
        if longer
        else ""
    )
    return Decision(
        f"results.{dataset.name}",
        f"{what} is written {after}",
        f"a table that is appended to cannot take a result back, so it waits for late events{note}",
        ("a materialized view: results at once, which change while events arrive",),
        "guides/windows" if length_s else "guides/joins",
    )
