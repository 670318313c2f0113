"""Flows whose progress is dropped while their tables are kept: which can be, and where they start."""

from __future__ import annotations

import shlex

from headrace.errors import PipelineError, Problems, problems_of
from headrace.graph.resolved import Mode, ResolvedFlow, ResolvedGraph, SourceKind
from headrace.graph.select import Selected
from headrace.graph.starts import Start, StartKind
from headrace.model.names import QualifiedName
from headrace.plan.deployed import DeployedPast
from headrace.plan.source_retention import Restart

_WHY_NOT = {
    Mode.SNAPSHOT: "it compares each snapshot with the rows in the table",
    Mode.ONCE: "it runs once, and again after a full refresh of its table",
    Mode.REPLACE: "it is recomputed from its whole inputs each time",
    Mode.COMPLETE: "each of its batches replaces the whole table, so only a full refresh restarts it",
}


def restarts(
    graph: ResolvedGraph, past: DeployedPast, selected: Selected, cleared: frozenset[QualifiedName]
) -> tuple[dict[str, Restart], list[PipelineError]]:
    """Where each flow starts whose progress is dropped, and why some cannot.

    Args:
        graph: the flows.
        past: what the storage knows of their sources.
        selected: which flows, and where the user wants them to start.
        cleared: tables that are cleared by the same update.
    """
    found: dict[str, Restart] = {}
    problems: list[PipelineError] = []
    for name, start in selected.starts.items():
        flow = graph.by_flow[name]
        problem = _refused(flow, start, selected, cleared)
        if problem is not None:
            problems.append(problem)
            continue
        try:
            found[name] = Restart(start, past.starting(flow, start, cleared))
        except (PipelineError, Problems) as error:
            problems += problems_of(error)
    return found, problems


def start_to_go_on(flow: ResolvedFlow) -> StartKind | None:
    """Where a stream can start that goes on with a table as it is; None when its progress cannot be dropped alone.

    What begins at the earliest position reads again what is there, as a new flow would.
    """
    if flow.mode not in (Mode.APPEND, Mode.UPDATE, Mode.MERGE):
        return None
    positions_known = all(source.kind is not SourceKind.OTHER for source in flow.analysis.sources)
    return StartKind.LATEST if positions_known and not flow.analysis.operators else StartKind.EARLIEST


def again(flow: str, start: str) -> str:
    """The command that starts a flow anew at another place."""
    return f"headrace run --reset-checkpoint {shlex.quote(f'{flow}={start}')}"


def _refused(
    flow: ResolvedFlow, start: Start, selected: Selected, cleared: frozenset[QualifiedName]
) -> PipelineError | None:
    place = flow.flow.location
    if flow.mode in _WHY_NOT:
        command = f"headrace run --full-refresh {shlex.quote(str(flow.target))}"
        return PipelineError(
            "RESET.NO_PROGRESS", location=place, flow=flow.name, reason=_WHY_NOT[flow.mode], command=command
        )
    if flow.target not in selected.refresh:
        return PipelineError("RESET.NOT_SELECTED", location=place, flow=flow.name, name=flow.target)
    if flow.target in cleared:
        return PipelineError("RESET.CLEARED", location=place, flow=flow.name, name=flow.target)
    if flow.analysis.operators and start.kind is not StartKind.EARLIEST:
        command = again(flow.name, StartKind.EARLIEST.value)
        operators = ", ".join(dict.fromkeys(operator.kind for operator in flow.analysis.operators))
        return PipelineError(
            "RESET.STATEFUL", location=place, flow=flow.name, start=start, operators=operators, command=command
        )
    return None
