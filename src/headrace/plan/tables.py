"""What happens to each table before its flows run: created, cleared, or brought to what is declared now."""

from __future__ import annotations

from headrace.errors import PipelineError
from headrace.graph.resolved import Mode, ResolvedDataset, ResolvedGraph
from headrace.graph.select import Selected
from headrace.model.datasets import Kind
from headrace.model.names import QualifiedName
from headrace.plan.deployed import DeployedState
from headrace.plan.schema_evolution import Brought, evolution
from headrace.plan.steps import TableChange, TableStep
from headrace.plan.unfinished_clears import Unfinished


def table_steps(
    graph: ResolvedGraph, state: DeployedState, selected: Selected, due: Unfinished
) -> tuple[dict[QualifiedName, TableStep], list[PipelineError]]:
    """What happens to each selected table before its flows run, and why some cannot take what is declared now."""
    tables: dict[QualifiedName, TableStep] = {}
    problems: list[PipelineError] = []
    for dataset in graph.datasets:
        if dataset.name in selected.full_refresh and dataset.kind is Kind.SINK:
            reason = "full refresh: delivers all rows again and withdraws none"
            tables[dataset.name] = TableStep(dataset.name, TableChange.RESET, reason)
        if dataset.name not in selected.refresh or not dataset.kind.stored:
            continue
        deployed = state.table(dataset.name)
        if dataset.name in due.lost:
            reason = "the table was deleted; its flows start over in a new epoch"
            tables[dataset.name] = TableStep(dataset.name, TableChange.RESET, reason)
        elif deployed is None:
            tables[dataset.name] = TableStep(dataset.name, TableChange.CREATE, "new table")
        elif dataset.name in selected.full_refresh and not _recomputed(graph, dataset):
            reason = "finishes an interrupted full refresh" if dataset.name in due.interrupted else "full refresh"
            tables[dataset.name] = TableStep(dataset.name, TableChange.RESET, reason)
        else:
            layout = state.layout(dataset.name)
            full_refresh = dataset.name in selected.full_refresh
            brought = _brought_by(graph, dataset)
            step, problem = evolution(dataset, deployed, layout, brought, full_refresh=full_refresh)
            if step is not None:
                tables[dataset.name] = step
            if problem is not None:
                problems.append(problem)
    return tables, problems


def _recomputed(graph: ResolvedGraph, dataset: ResolvedDataset) -> bool:
    """True for materialized views: a full refresh computes them anew, and readers never see them empty."""
    return all(flow.mode is Mode.REPLACE for flow in graph.flows_into(dataset.name))


def _brought_by(graph: ResolvedGraph, dataset: ResolvedDataset) -> Brought:
    modes = {flow.mode for flow in graph.flows_into(dataset.name)}
    if not modes <= {Mode.REPLACE, Mode.COMPLETE}:
        return Brought.BY_STEP
    return Brought.BY_BATCH if Mode.COMPLETE in modes else Brought.BY_COMPUTATION
