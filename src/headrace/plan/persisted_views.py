"""The steps for the stored definitions of persisted views."""

from __future__ import annotations

from headrace.errors import InternalError
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import Selected
from headrace.model.datasets import Kind, SqlQuery
from headrace.model.views import ViewDefinition
from headrace.plan.deployed import DeployedHistory
from headrace.plan.steps import ViewChange, ViewStep


def view_steps(graph: ResolvedGraph, history: DeployedHistory, selected: Selected) -> tuple[ViewStep, ...]:
    """The definitions to store or replace, and to remove because a table now has the name."""
    steps = []
    for dataset in graph.datasets:
        # Temporary views cannot be selected. A stored definition of the same name is removed.
        if dataset.name not in selected.refresh and dataset.kind.has_storage:
            continue
        stored = history.view(dataset.name)
        if dataset.kind is Kind.PERSISTED_VIEW:
            (flow,) = [flow.flow for flow in graph.flows_into(dataset.name)]
            if not isinstance(flow.query, SqlQuery):
                raise InternalError(f'persisted view "{dataset.name}" has a query that is not SQL')
            declared = ViewDefinition.of(dataset.dataset, flow.query, flow.spark_conf)
            if stored is None:
                steps.append(ViewStep(dataset.name, ViewChange.CREATE, "new view", declared))
            elif stored != declared:
                steps.append(ViewStep(dataset.name, ViewChange.REPLACE, "its definition changed", declared))
        elif stored is not None:
            # Otherwise queries would find the view instead of the table, or an old definition.
            steps.append(ViewStep(dataset.name, ViewChange.REMOVE, f"is now a {dataset.label}"))
    return tuple(steps)
