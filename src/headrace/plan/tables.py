"""The steps for tables before their flows run: create, clear, or evolve to the declaration."""

from __future__ import annotations

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedDataset, ResolvedGraph
from headrace.graph.resolved_flows import CompleteFlow, RefreshFlow
from headrace.graph.select import Selected
from headrace.model.datasets import Kind
from headrace.model.names import QualifiedName
from headrace.plan.deployed import DeployedState
from headrace.plan.schema_evolution import EvolvedBy, evolution
from headrace.plan.steps import TableChange, TableStep
from headrace.plan.unfinished_clears import PendingClears


def table_steps(
    graph: ResolvedGraph, state: DeployedState, selected: Selected, pending: PendingClears
) -> tuple[dict[QualifiedName, TableStep], list[PipelineError]]:
    """The step for each selected table before its flows run, and the problems of those that cannot evolve."""
    tables: dict[QualifiedName, TableStep] = {}
    problems: list[PipelineError] = []
    for dataset in graph.datasets:
        if dataset.name in selected.full_refresh and dataset.kind is Kind.SINK:
            reason = "full refresh: delivers all rows again and withdraws none"
            tables[dataset.name] = TableStep(dataset.name, TableChange.RESET, reason)
        if dataset.name not in selected.refresh or not dataset.kind.stored:
            continue
        deployed = state.table(dataset.name)
        if dataset.name in pending.deleted:
            reason = "the table was deleted; its flows start over in a new epoch"
            tables[dataset.name] = TableStep(dataset.name, TableChange.RESET, reason)
        elif deployed is None:
            tables[dataset.name] = TableStep(dataset.name, TableChange.CREATE, "new table")
        elif dataset.name in selected.full_refresh and not _recomputed(graph, dataset):
            reason = "finishes an interrupted full refresh" if dataset.name in pending.interrupted else "full refresh"
            tables[dataset.name] = TableStep(dataset.name, TableChange.RESET, reason)
        else:
            layout = state.layout(dataset.name)
            full_refresh = dataset.name in selected.full_refresh
            by = evolved_by(graph, dataset)
            step, problem = evolution(dataset, deployed, layout, by, full_refresh=full_refresh)
            if step is not None:
                tables[dataset.name] = step
            if problem is not None:
                problems.append(problem)
    return tables, problems


def _recomputed(graph: ResolvedGraph, dataset: ResolvedDataset) -> bool:
    """True for materialized views: a full refresh recomputes them, and readers never see them empty."""
    return all(isinstance(flow, RefreshFlow) for flow in graph.flows_into(dataset.name))


def evolved_by(graph: ResolvedGraph, dataset: ResolvedDataset) -> EvolvedBy:
    """What applies a changed schema to the table of a dataset."""
    flows = graph.flows_into(dataset.name)
    if not all(isinstance(flow, RefreshFlow | CompleteFlow) for flow in flows):
        return EvolvedBy.STEP
    completes = any(isinstance(flow, CompleteFlow) for flow in flows)
    return EvolvedBy.BATCH if completes else EvolvedBy.COMPUTATION
