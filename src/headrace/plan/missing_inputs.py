"""Inputs that a flow cannot read because they do not exist yet and this update does not create them."""

from __future__ import annotations

from headrace.cdc.delta_change_feed import FEED_PROPERTY
from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import Selected
from headrace.model.properties import switched_on
from headrace.plan.deployed import DeployedState


def missing_inputs(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> list[PipelineError]:
    """Flows that read a table which does not exist and is not selected."""
    return [
        PipelineError(
            "PLAN.INPUT_MISSING", location=flow.flow.location, flow=flow.name, name=given.name, target=flow.target
        )
        for flow in graph.stored_flows
        if flow.target in selected.refresh
        for given in graph.stored_inputs(flow)
        if given.name not in selected.refresh and state.table(given.name) is None
    ]


def missing_feeds(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> list[PipelineError]:
    """Flows that read the change feed of a table that has none yet and is not selected."""
    names = {str(name): name for name in graph.by_name.keys() - selected.refresh}
    read = [
        (flow, names[source.detail])
        for flow in graph.stored_flows
        if flow.target in selected.refresh
        for source in flow.analysis.sources
        if source.reads_feed and source.detail in names
    ]
    return [
        PipelineError("PLAN.FEED_MISSING", location=flow.flow.location, flow=flow.name, name=name, target=flow.target)
        for flow, name in read
        if (table := state.table(name)) is not None and not switched_on(table.properties, FEED_PROPERTY)
    ]
