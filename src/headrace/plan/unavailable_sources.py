"""What becomes of the flows that could not be resolved because a source is away."""

from __future__ import annotations

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import Selected
from headrace.graph.unavailable_sources import AwayFlow, errors_of
from headrace.plan.deployed import DeployedPast
from headrace.plan.steps import Decision, UnavailableStep


def away_steps(graph: ResolvedGraph, selected: Selected) -> tuple[UnavailableStep, ...]:
    """What an update does with flows that could not be resolved: they fail, or are skipped where another one fails.

    Each error that keeps a selected flow from running fails one at least: where the flow that has met it is not
    selected, those that it blocks. Of temporary views an update says nothing.
    """
    told = [away.error.to_json() for away in graph.away if away.target in selected.refresh and not away.blocked]

    def decision(away: AwayFlow) -> Decision:
        if away.target not in selected.refresh:
            return Decision.EXCLUDE
        return Decision.SKIP if away.blocked and away.error.to_json() in told else Decision.FAIL

    return tuple(UnavailableStep(away, decision(away)) for away in graph.away if away.dataset.kind.kept)


def stranded(graph: ResolvedGraph, past: DeployedPast, selected: Selected) -> list[PipelineError]:
    """What is away of streams that have read tables which are to be cleared: they could not go on once it is back."""
    return errors_of(
        away for away in graph.away if any(past.streamed(away, name) for name in sorted(selected.full_refresh))
    )
