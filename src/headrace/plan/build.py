"""Resolved graph and deployed state to a :class:`Plan`; pure, and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from headrace.errors import PipelineError, Problems
from headrace.graph.resolved import Mode, ResolvedDataset, ResolvedFlow, ResolvedGraph
from headrace.graph.select import Selected
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema
from headrace.plan.steps import Decision, FlowStep, Plan, TableChange, TableStep


@dataclass(frozen=True)
class News:
    """Whether a flow has something to do, and the reason in words."""

    started: bool
    reason: str


class DeployedState(Protocol):
    """Reads what is deployed; never writes."""

    def table_schema(self, dataset: ResolvedDataset) -> Schema | None:
        """The schema of a table in the storage, or None when there is none."""

    def news(self, graph: ResolvedGraph, flow: ResolvedFlow) -> News:
        """Whether the flow has something to do, given the tables as they are now."""

    def resetting(self, flow: ResolvedFlow) -> bool:
        """True when a crash interrupted a reset of the flow, which is then finished first."""


def build_plan(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> Plan:
    """The plan of an update.

    Raises:
        Problems: a deployed table cannot take the new schema.
    """
    interrupted = {flow.target for flow in graph.stored_flows if state.resetting(flow)} & selected.refresh
    selected = replace(selected, full_refresh=selected.full_refresh | interrupted)
    tables, problems = _table_steps(graph, state, selected)
    if problems:
        raise Problems(problems)
    moving: set[QualifiedName] = set()
    steps: list[FlowStep] = []
    for flow in graph.stored_flows:
        step = _flow_step(graph, flow, state, selected, tables, moving)
        if step.decision is Decision.START:
            moving.add(flow.target)
        steps.append(step)
    return Plan(graph, tuple(tables.values()), tuple(steps))


def _table_steps(
    graph: ResolvedGraph, state: DeployedState, selected: Selected
) -> tuple[dict[QualifiedName, TableStep], list[PipelineError]]:
    tables: dict[QualifiedName, TableStep] = {}
    problems: list[PipelineError] = []
    for dataset in graph.datasets:
        if dataset.name not in selected.refresh or not dataset.kind.stored:
            continue
        deployed = state.table_schema(dataset)
        if deployed is None:
            tables[dataset.name] = TableStep(dataset.name, TableChange.CREATE, "not there yet")
        elif dataset.name in selected.full_refresh:
            tables[dataset.name] = TableStep(dataset.name, TableChange.RESET, "full refresh clears it first")
        elif not _replaced(graph, dataset):
            step, problem = _evolution(dataset, deployed)
            if step is not None:
                tables[dataset.name] = step
            if problem is not None:
                problems.append(problem)
    return tables, problems


def _replaced(graph: ResolvedGraph, dataset: ResolvedDataset) -> bool:
    """True for tables whose every batch brings the schema with it."""
    return all(flow.mode in (Mode.REPLACE, Mode.COMPLETE) for flow in graph.flows_into(dataset.name))


def _evolution(dataset: ResolvedDataset, deployed: Schema) -> tuple[TableStep | None, PipelineError | None]:
    added = [column for column in dataset.schema.columns if deployed.find(column.name) is None]
    changed = [
        f'"{now.name}" is {was.type_text} in the table and {now.type_text} in the query'
        for now in dataset.schema.columns
        if (was := deployed.find(now.name)) is not None and was.json_type != now.json_type
    ]
    if changed:
        return None, PipelineError(
            "TABLE.TYPE_CHANGED",
            location=dataset.dataset.location,
            name=dataset.name,
            changes="; ".join(changed),
        )
    if added:
        names = tuple(column.name for column in added)
        listed = ", ".join(f'"{name}"' for name in names)
        return TableStep(dataset.name, TableChange.EVOLVE, f"adds {listed}", names), None
    return None, None


def _flow_step(
    graph: ResolvedGraph,
    flow: ResolvedFlow,
    state: DeployedState,
    selected: Selected,
    tables: dict[QualifiedName, TableStep],
    moving: set[QualifiedName],
) -> FlowStep:
    if flow.target not in selected.refresh:
        return FlowStep(flow, Decision.EXCLUDE, "not selected")
    step = tables.get(flow.target)
    if flow.target in selected.full_refresh:
        return FlowStep(flow, Decision.START, "full refresh", reset=True)
    if step is not None and step.change is TableChange.CREATE:
        return FlowStep(flow, Decision.START, "first run")
    news = state.news(graph, flow)
    if news.started:
        return FlowStep(flow, Decision.START, news.reason)
    if step is not None:
        return FlowStep(flow, Decision.START, step.reason)
    upstream = [given.name for given in graph.stored_inputs(flow) if given.name in moving]
    if flow.mode in (Mode.APPEND, Mode.COMPLETE):
        upstream = [given.name for given in graph.stored_inputs(flow) if given.streaming and given.name in moving]
    if upstream and flow.mode is not Mode.ONCE:
        listed = ", ".join(f'"{name}"' for name in upstream)
        return FlowStep(flow, Decision.START, f"reads {listed}, updated first", conditional=True)
    return FlowStep(flow, Decision.UP_TO_DATE, news.reason)
