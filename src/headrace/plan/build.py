"""Resolved graph and deployed state to a :class:`Plan`; pure, and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
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


class DeployedTable(Protocol):
    """A table in the storage as it is now."""

    @property
    def schema(self) -> Schema:
        """Its columns."""

    @property
    def comment(self) -> str | None:
        """What is said about it."""

    @property
    def properties(self) -> Mapping[str, str]:
        """Its table properties."""

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The columns that it is partitioned by."""


class DeployedState(Protocol):
    """Reads what is deployed; never writes."""

    def table(self, name: QualifiedName) -> DeployedTable | None:
        """The table of a dataset in the storage, or None when there is none."""

    def news(self, graph: ResolvedGraph, flow: ResolvedFlow) -> News:
        """Whether the flow has something to do, given the tables as they are now."""

    def resetting(self, flow: ResolvedFlow) -> bool:
        """True when a crash interrupted a reset of the flow, which is then finished first."""

    def ran(self, flow: ResolvedFlow) -> bool:
        """True when the flow has progress: it was run before."""

    def lost_checkpoint(self, flow: ResolvedFlow) -> str | None:
        """Where the checkpoint of a flow that ran before is missing, or None when it is there."""


def build_plan(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> Plan:
    """The plan of an update.

    Raises:
        Problems: a deployed table cannot take the new schema.
    """
    interrupted = {flow.target for flow in graph.stored_flows if state.resetting(flow)} & selected.refresh
    lost = frozenset(name for name in selected.refresh if _lost_its_table(graph, state, name))
    selected = replace(selected, full_refresh=selected.full_refresh | interrupted | lost)
    tables, problems = _table_steps(graph, state, selected, lost)
    problems += _lost_checkpoints(graph, state, selected)
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


def _lost_its_table(graph: ResolvedGraph, state: DeployedState, name: QualifiedName) -> bool:
    """True when streams fed a table that somebody has deleted: they have to read from the start again."""
    if name not in graph.by_name or state.table(name) is not None:
        return False
    return any(flow.mode is not Mode.REPLACE and state.ran(flow) for flow in graph.flows_into(name))


def _lost_checkpoints(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> list[PipelineError]:
    """Flows that would read everything again into a table that has it already."""
    return [
        PipelineError(
            "FLOW.CHECKPOINT_LOST", location=flow.flow.location, flow=flow.name, name=flow.target, checkpoint=missing
        )
        for flow in graph.stored_flows
        if flow.target in selected.refresh - selected.full_refresh
        and (missing := state.lost_checkpoint(flow)) is not None
    ]


def _table_steps(
    graph: ResolvedGraph, state: DeployedState, selected: Selected, lost: frozenset[QualifiedName]
) -> tuple[dict[QualifiedName, TableStep], list[PipelineError]]:
    tables: dict[QualifiedName, TableStep] = {}
    problems: list[PipelineError] = []
    for dataset in graph.datasets:
        if dataset.name not in selected.refresh or not dataset.kind.stored:
            continue
        deployed = state.table(dataset.name)
        if dataset.name in lost:
            reason = "the table was deleted; its flows start again in a new epoch"
            tables[dataset.name] = TableStep(dataset.name, TableChange.RESET, reason)
        elif deployed is None:
            tables[dataset.name] = TableStep(dataset.name, TableChange.CREATE, "not there yet")
        elif dataset.name in selected.full_refresh and not _recomputed(graph, dataset):
            tables[dataset.name] = TableStep(dataset.name, TableChange.RESET, "full refresh")
        else:
            step, problem = _evolution(dataset, deployed, replaced=_replaced(graph, dataset))
            if step is not None:
                tables[dataset.name] = step
            if problem is not None:
                problems.append(problem)
    return tables, problems


def _recomputed(graph: ResolvedGraph, dataset: ResolvedDataset) -> bool:
    """True for materialized views: a full refresh computes them anew, and readers never see them empty."""
    return all(flow.mode is Mode.REPLACE for flow in graph.flows_into(dataset.name))


def _replaced(graph: ResolvedGraph, dataset: ResolvedDataset) -> bool:
    """True for tables whose every batch brings the schema with it."""
    return all(flow.mode in (Mode.REPLACE, Mode.COMPLETE) for flow in graph.flows_into(dataset.name))


def _evolution(
    dataset: ResolvedDataset, deployed: DeployedTable, *, replaced: bool
) -> tuple[TableStep | None, PipelineError | None]:
    declared = dataset.dataset
    added: tuple[str, ...] = ()
    if not replaced:
        problem = _refused_change(dataset, deployed)
        if problem is not None:
            return None, problem
        added = tuple(c.name for c in dataset.schema.columns if deployed.schema.find(c.name) is None)
    properties = {key: value for key, value in declared.properties.items() if deployed.properties.get(key) != value}
    comment = declared.comment if declared.comment not in (None, deployed.comment) else None
    said = [f'adds "{name}"' for name in added]
    said += [f'sets property "{key}"' for key in properties]
    said += ["sets the comment"] if comment else []
    if not said:
        return None, None
    step = TableStep(dataset.name, TableChange.EVOLVE, ", ".join(said), added, tuple(properties.items()), comment)
    return step, None


def _refused_change(dataset: ResolvedDataset, deployed: DeployedTable) -> PipelineError | None:
    """Why a table that keeps its rows cannot be brought to what is declared now."""
    changed = [
        f'"{now.name}" is {was.type_text} in the table and {now.type_text} in the query'
        for now in dataset.schema.columns
        if (was := deployed.schema.find(now.name)) is not None and was.json_type != now.json_type
    ]
    location = dataset.dataset.location
    if changed:
        return PipelineError("TABLE.TYPE_CHANGED", location=location, name=dataset.name, changes="; ".join(changed))
    wanted = tuple(name.casefold() for name in dataset.dataset.partition_by)
    if wanted != tuple(name.casefold() for name in deployed.partition_by):
        return PipelineError(
            "TABLE.PARTITIONS_CHANGED",
            location=location,
            name=dataset.name,
            now=", ".join(dataset.dataset.partition_by) or "nothing",
            before=", ".join(deployed.partition_by) or "nothing",
        )
    return None


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
        reason = step.reason if step is not None and step.change is TableChange.RESET else "full refresh"
        return FlowStep(flow, Decision.START, reason, reset=True)
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
