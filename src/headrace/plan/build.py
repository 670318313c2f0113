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


class DeployedLayout(Protocol):
    """How a table in the storage is clustered, and its protocol."""

    @property
    def cluster_by(self) -> tuple[str, ...] | None:
        """The columns that it is clustered by; None when that is not known."""

    def holds(self, key: str, value: str) -> bool | None:
        """Whether a property that is kept in the protocol is met; None for any other property."""


class DeployedState(Protocol):
    """Reads what is deployed; never writes."""

    def table(self, name: QualifiedName) -> DeployedTable | None:
        """The table of a dataset in the storage, or None when there is none."""

    def layout(self, name: QualifiedName) -> DeployedLayout:
        """How the table of a dataset is laid out."""

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
    problems += _missing_inputs(graph, state, selected)
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


def _missing_inputs(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> list[PipelineError]:
    """Flows that would be computed from nothing: a table that they read was never made, and is not selected."""
    return [
        PipelineError(
            "PLAN.INPUT_MISSING", location=flow.flow.location, flow=flow.name, name=given.name, target=flow.target
        )
        for flow in graph.stored_flows
        if flow.target in selected.refresh
        for given in graph.stored_inputs(flow)
        if given.name not in selected.refresh and state.table(given.name) is None
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
            layout = state.layout(dataset.name)
            step, problem = _evolution(dataset, deployed, layout, replaced=_replaced(graph, dataset))
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
    dataset: ResolvedDataset, deployed: DeployedTable, layout: DeployedLayout, *, replaced: bool
) -> tuple[TableStep | None, PipelineError | None]:
    declared = dataset.dataset
    added: tuple[str, ...] = ()
    if not replaced:
        problem = _refused_change(dataset, deployed)
        if problem is not None:
            return None, problem
        added = tuple(c.name for c in dataset.schema.columns if deployed.schema.find(c.name) is None)
    properties = _changed_properties(declared.properties, deployed.properties, layout)
    clustered = _changed_clustering(dataset, deployed, layout)
    comment = declared.comment if declared.comment not in (None, deployed.comment) else None
    said = [f'adds "{name}"' for name in added]
    said += [f'sets property "{key}"' for key in properties]
    said += ["sets the comment"] if comment else []
    if replaced and declared.schema is not None:
        # Its next computation brings them, and nothing else tells that it is due.
        said += [f'adds "{c.name}"' for c in dataset.schema.columns if deployed.schema.find(c.name) is None]
    if replaced and _folded(declared.partition_by) != _folded(deployed.partition_by):
        said.append(f"partitions by {_listed(declared.partition_by)}")
    if clustered is not None:
        said.append(f"clusters by {_listed(clustered)}")
    if not said:
        return None, None
    reason = ", ".join(said)
    step = TableStep(
        dataset.name, TableChange.EVOLVE, reason, added, tuple(properties.items()), comment, cluster_by=clustered
    )
    return step, None


def _changed_properties(
    declared: Mapping[str, str], deployed: Mapping[str, str], layout: DeployedLayout
) -> dict[str, str]:
    # Delta spells its own properties as it knows them.
    spelled = {key.casefold(): value for key, value in deployed.items() if key.casefold().startswith("delta.")}
    changed = {}
    for key, value in declared.items():
        held = layout.holds(key, value)
        if held is None:
            held = deployed.get(key, spelled.get(key.casefold())) == value
        if not held:
            changed[key] = value
    return changed


def _changed_clustering(
    dataset: ResolvedDataset, deployed: DeployedTable, layout: DeployedLayout
) -> tuple[str, ...] | None:
    """The declared columns when the table is clustered otherwise; None when not, or when that cannot be told."""
    wanted = dataset.dataset.cluster_by
    if layout.cluster_by is None or deployed.partition_by or _folded(wanted) == _folded(layout.cluster_by):
        return None
    return wanted


def _folded(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.casefold() for name in names)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names) or "nothing"


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
    if _folded(dataset.dataset.partition_by) != _folded(deployed.partition_by):
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
