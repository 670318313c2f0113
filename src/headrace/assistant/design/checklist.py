"""The success checklist of a design: how each criterion is met, and the command that shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.assistant.design.blueprint import Blueprint, DatasetKind
from headrace.assistant.design.decisions.decision import Decision
from headrace.assistant.design.durations import interval, spoken


@dataclass(frozen=True)
class Criterion:
    """One criterion.

    Attributes:
        id: the same in each design.
        text: what must hold.
        how: how the design meets it.
        command: the command that shows it.
        open: what is left to do, or where the design falls short; empty if nothing is.
    """

    id: str
    text: str
    how: str
    command: str
    open: str = ""

    def to_json(self) -> dict[str, Any]:
        """The criterion as one JSON object."""
        met = not self.open
        return {**vars(self), "open": self.open or None, "met_by_design": met}


def checklist(blueprint: Blueprint, decisions: tuple[Decision, ...], delay_s: float) -> tuple[Criterion, ...]:
    """The criteria in their order."""
    short = {decision.id: decision for decision in decisions if decision.falls_short}
    return (
        *_running(blueprint, short, delay_s),
        _lag(blueprint, short),
        _memory(blueprint, short),
        _errors(blueprint),
        _monitoring(blueprint),
        *_documents(short),
    )


def _running(blueprint: Blueprint, short: dict[str, Decision], delay_s: float) -> Iterator[Criterion]:
    yield Criterion(
        "checkpointing",
        "Each stream has a checkpoint of its own, on a disk that survives the machine",
        "each flow has its own folder below storage/checkpoints, next to its tables",
        "headrace checkpoints verify",
        "put the storage of the profile production on such a disk, and back it up as a whole",
    )
    stateful = [dataset.name for dataset in blueprint.datasets if dataset.keeps_state]
    yield Criterion(
        "watermark",
        "Each stateful stream has a watermark that fits its data, so that its state is removed",
        f"{', '.join(stateful)}: {interval(delay_s)}" if stateful else "no stream keeps state",
        _lateness_command(blueprint) if stateful else "headrace plan",
    )
    tests = "tests/test_crashes.py" if blueprint.tables else "the tests of the sinks"
    repeats = [decision for name, decision in short.items() if name.startswith("guarantee.")]
    yield Criterion(
        "fault-tolerance",
        "A crash loses nothing and repeats nothing, and this is tested",
        f"{tests} let updates crash at each point, and compare the rows",
        "pytest",
        "; ".join(f"{one.id.partition('.')[2]} is delivered {one.choice}: {one.reason}" for one in repeats),
    )


def _lag(blueprint: Blueprint, short: dict[str, Decision]) -> Criterion:
    least_s = min(dataset.latency_s for dataset in blueprint.datasets)
    return Criterion(
        "lag",
        "The lag stays within the latency",
        f"batches are limited to what arrives at the peak, and an alert opens when a flow is behind by its latency "
        f"({spoken(least_s)} at least)",
        "headrace status",
        short["trigger"].reason if "trigger" in short else "",
    )


def _memory(blueprint: Blueprint, short: dict[str, Decision]) -> Criterion:
    stateful = [dataset for dataset in blueprint.datasets if dataset.keeps_state]
    return Criterion(
        "memory",
        "State and batches fit into the memory, also at the peak",
        "the state is estimated in design.md, and each source has a limit of records a batch",
        f"headrace explain {stateful[0].name}" if stateful else "headrace metrics",
        short["state"].choice if "state" in short else "",
    )


def _errors(blueprint: Blueprint) -> Criterion:
    policy = blueprint.requirements.on_error
    return Criterion(
        "errors",
        "Wrong records are handled, and stop no others unless they must",
        f"{policy.value if policy else ''}: expectations on each bronze table, with tests of a wrong record",
        "headrace quarantine list",
    )


def _monitoring(blueprint: Blueprint) -> Criterion:
    set_up = blueprint.requirements.alerts is not None
    return Criterion(
        "monitoring",
        "An alert reaches the team when a flow fails, is behind, or quarantines more than usual",
        "limits of lag in pipeline.yml" + (", and a channel for messages" if set_up else ""),
        "headrace alerts test" if set_up else "headrace alerts check",
        "" if set_up else "add a channel below alerts.deliver in pipeline.yml, or run the command from cron",
    )


def _documents(short: dict[str, Decision]) -> Iterator[Criterion]:
    yield Criterion(
        "schema",
        "A change of a source's schema is noticed",
        "columns are declared in the requirements, and a record that does not fit them is a wrong record",
        "headrace validate",
    )
    kept = [name.partition(".")[2] for name in short if name.startswith("duplicates.")]
    yield Criterion(
        "duplicates",
        "Records that a source repeats are removed where they would be counted twice",
        "design.md says what happens to the duplicates of each source",
        "headrace status",
        f"duplicates of {', '.join(kept)} are kept" if kept else "",
    )
    yield Criterion(
        "documentation",
        "The design, its operation and its limits are written down",
        "design.md, runbook.md, this checklist, and a comment on each table",
        "headrace graph",
    )


def _lateness_command(blueprint: Blueprint) -> str:
    bronze = next(iter(blueprint.of(DatasetKind.BRONZE)), None)
    return f"headrace lateness {bronze.name} {bronze.event_time}" if bronze and bronze.event_time else "headrace status"
