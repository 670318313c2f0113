"""Finds the datasets whose code or settings differ from what is deployed, for ``state:modified``."""

from __future__ import annotations

from headrace.graph.resolved import ResolvedDataset, ResolvedGraph
from headrace.graph.select import Selected
from headrace.model.names import QualifiedName
from headrace.plan.deployed import DeployedHistory, DeployedState
from headrace.plan.persisted_views import view_steps
from headrace.plan.schema_evolution import evolution
from headrace.plan.table_kinds import changed_kinds
from headrace.plan.tables import evolved_by


def modified_datasets(graph: ResolvedGraph, state: DeployedState, history: DeployedHistory) -> frozenset[QualifiedName]:
    """New datasets, and those that an update would compute or store in another way than the last one.

    A table is modified if the query, the rules or the settings of one of its flows changed, or if its columns,
    properties, comment, layout or kind did. A temporary view is never modified; the flows that read it are. The storage
    does not have the options of a sink, so they are not compared.
    """
    everything = Selected(frozenset(graph.by_name), frozenset())
    _, other_kind = changed_kinds(graph, history, everything)
    views = (step.dataset for step in view_steps(graph, history, everything))
    tables = (dataset.name for dataset in graph.datasets if _is_modified(graph, state, dataset))
    return frozenset({*other_kind, *views, *tables})


def _is_modified(graph: ResolvedGraph, state: DeployedState, dataset: ResolvedDataset) -> bool:
    if not dataset.kind.has_flows:
        return False
    if any(state.is_modified(flow) for flow in graph.flows_into(dataset.name)):
        return True
    if not dataset.kind.stored:
        return False
    deployed = state.table(dataset.name)
    if deployed is None:
        return True
    step, problem = evolution(
        dataset, deployed, state.layout(dataset.name), evolved_by(graph, dataset), full_refresh=False
    )
    return step is not None or problem is not None
