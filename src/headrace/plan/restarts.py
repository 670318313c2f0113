"""Flows whose checkpoint is reset while their table keeps its rows: which can be, and where they start."""

from __future__ import annotations

import shlex
from dataclasses import replace

from headrace.errors import PipelineError, Problems, problems_of
from headrace.graph.analysis import SourceKind
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import (
    CompleteFlow,
    OnceFlow,
    OnceMergeFlow,
    RefreshFlow,
    ResolvedFlow,
    RestartableFlow,
    SnapshotFlow,
)
from headrace.graph.select import Selected
from headrace.graph.starts import Start, StartKind
from headrace.model.names import QualifiedName
from headrace.plan.deployed import DeployedHistory
from headrace.plan.source_retention import Restart
from headrace.plan.steps import Decision, FlowStep

_NO_RESTART_REASONS: dict[type, str] = {
    SnapshotFlow: "it compares each snapshot with the rows in the table",
    OnceFlow: "it runs once, and again after a full refresh of its table",
    OnceMergeFlow: "it runs once, and again after a full refresh of its table",
    RefreshFlow: "it is recomputed from all of its input each time",
    CompleteFlow: "each of its batches replaces the whole table, so only a full refresh restarts it",
}


def restarts(
    graph: ResolvedGraph, history: DeployedHistory, selected: Selected, cleared: frozenset[QualifiedName]
) -> tuple[dict[str, Restart], list[PipelineError]]:
    """The start positions of each flow to reset, and a problem for each that cannot be reset.

    Args:
        graph: the flows.
        history: what the storage knows of their sources.
        selected: the flows to reset, and the start that the user wants.
        cleared: tables that the same update clears.
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
            found[name] = Restart(start, history.start_positions(flow, start, cleared))
        except (PipelineError, Problems) as error:
            problems += problems_of(error)
    return found, problems


def restart_step(step: FlowStep, restart: Restart) -> FlowStep:
    """The step of a flow whose checkpoint is reset while its table keeps its rows."""
    reason = f"checkpoint reset: starts at {restart.start}, the table keeps its rows"
    return replace(step, decision=Decision.START, reason=reason, conditional=False, restart=restart)


def resume_start(flow: ResolvedFlow) -> StartKind | None:
    """Where a stream can start that keeps its table; None if its checkpoint cannot be reset without the table.

    A stream that starts at the earliest position reads everything again, like a new flow.
    """
    if not isinstance(flow, RestartableFlow):
        return None
    positions_known = all(source.kind is not SourceKind.OTHER for source in flow.analysis.sources)
    return StartKind.LATEST if positions_known and not flow.analysis.operators else StartKind.EARLIEST


def reset_command(flow: str, start: str) -> str:
    """The command that resets a flow's checkpoint to a start."""
    return f"headrace run --reset-checkpoint {shlex.quote(f'{flow}={start}')}"


def reset_hint(flow: ResolvedFlow) -> str:
    """How a flow can continue without its checkpoint, as the end of a hint."""
    start = resume_start(flow)
    if start is None:
        return ""
    what = "read only new data" if start is StartKind.LATEST else "read everything again, which duplicates rows"
    return f"; or keep its rows and {what}: {reset_command(flow.name, start.value)}"


def _refused(
    flow: ResolvedFlow, start: Start, selected: Selected, cleared: frozenset[QualifiedName]
) -> PipelineError | None:
    location = flow.flow.location
    reason = _NO_RESTART_REASONS.get(type(flow))
    if reason is not None:
        command = f"headrace run --full-refresh {shlex.quote(str(flow.target))}"
        return PipelineError("RESET.NO_PROGRESS", location=location, flow=flow.name, reason=reason, command=command)
    if flow.target not in selected.refresh:
        return PipelineError("RESET.NOT_SELECTED", location=location, flow=flow.name, name=flow.target)
    if flow.target in cleared:
        return PipelineError("RESET.CLEARED", location=location, flow=flow.name, name=flow.target)
    if flow.analysis.operators and start.kind is not StartKind.EARLIEST:
        command = reset_command(flow.name, StartKind.EARLIEST.value)
        operators = ", ".join(dict.fromkeys(operator.kind for operator in flow.analysis.operators))
        return PipelineError(
            "RESET.STATEFUL", location=location, flow=flow.name, start=start, operators=operators, command=command
        )
    return None
