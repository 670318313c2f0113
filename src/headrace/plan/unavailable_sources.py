"""The steps of flows that could not be resolved because a source is unavailable."""

from __future__ import annotations

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import Selected
from headrace.graph.unavailable_sources import UnavailableFlow, distinct_errors
from headrace.plan.deployed import DeployedHistory
from headrace.plan.steps import Decision, UnavailableStep


def unavailable_steps(graph: ResolvedGraph, selected: Selected) -> tuple[UnavailableStep, ...]:
    """The steps of flows that could not be resolved: they fail, or are skipped if another flow fails with the error.

    Each error that blocks a selected flow fails at least one flow. If the flow that reads the source is not selected,
    the flows that it blocks fail. Temporary views have no step.
    """
    failing_errors = [
        unavailable.error.to_json()
        for unavailable in graph.unavailable
        if unavailable.target in selected.refresh and not unavailable.blocked
    ]

    def decision(unavailable: UnavailableFlow) -> Decision:
        if unavailable.target not in selected.refresh:
            return Decision.EXCLUDE
        return Decision.SKIP if unavailable.blocked and unavailable.error.to_json() in failing_errors else Decision.FAIL

    return tuple(
        UnavailableStep(unavailable, decision(unavailable))
        for unavailable in graph.unavailable
        if unavailable.dataset.kind.has_storage
    )


def stranded(graph: ResolvedGraph, history: DeployedHistory, selected: Selected) -> list[PipelineError]:
    """Errors of unavailable streams that have read a table to clear: they could not continue later."""
    return distinct_errors(
        unavailable
        for unavailable in graph.unavailable
        if any(history.has_streamed(unavailable, name) for name in sorted(selected.full_refresh))
    )
