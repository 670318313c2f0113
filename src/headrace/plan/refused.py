"""What is refused of an update, as steps of its plan, and the error that has this plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.errors import PipelineError, Problems
from headrace.graph.resolved import ResolvedGraph
from headrace.model.names import QualifiedName
from headrace.plan.steps import Plan


class RefusedPlan(Problems):
    """All reasons why an update does not run.

    Args:
        plan: the plan with what is refused, and with what the update would do besides. It is never run.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.refused)
        self.plan = plan


def refused_by_flow(graph: ResolvedGraph, problems: Iterable[PipelineError]) -> Mapping[str, PipelineError]:
    """By the name of each flow that is refused, alone or with its dataset, the first reason."""
    found: dict[str, PipelineError] = {}
    for problem in problems:
        flow = problem.params.get("flow", "")
        dataset = dataset_of(graph, problem)
        names = [flow] if flow in graph.by_flow else [] if dataset is None else flows_of(graph, dataset)
        for name in names:
            found.setdefault(name, problem)
    return found


def refused_datasets(graph: ResolvedGraph, problems: Iterable[PipelineError]) -> frozenset[QualifiedName]:
    """The datasets that are refused, or of which a flow is."""
    return frozenset(name for problem in problems if (name := dataset_of(graph, problem)) is not None)


def dataset_of(graph: ResolvedGraph, problem: PipelineError) -> QualifiedName | None:
    """The dataset that a problem is about; None if it is about none."""
    flow = graph.by_flow.get(problem.params.get("flow", ""))
    if flow is not None:
        return flow.target
    name = problem.params.get("name")
    return next((known for known in graph.by_name if str(known) == name), None)


def flows_of(graph: ResolvedGraph, name: QualifiedName) -> list[str]:
    """The names of the flows into a dataset."""
    return [flow.name for flow in graph.flows_into(name)]
