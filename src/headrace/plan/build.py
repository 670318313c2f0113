"""Resolved graph and deployed state to a :class:`Plan`; pure, and writes nothing."""

from __future__ import annotations

from dataclasses import replace

from headrace.errors import PipelineError, Problems
from headrace.graph.resolved import Mode, ResolvedFlow, ResolvedGraph
from headrace.graph.select import Selected
from headrace.model.names import QualifiedName
from headrace.plan.deployed import DeployedPast, DeployedState
from headrace.plan.kinds import changed_kinds
from headrace.plan.loss import clearing
from headrace.plan.reach import Restart
from headrace.plan.restarts import restarts
from headrace.plan.state import changed_states
from headrace.plan.steps import Decision, FlowStep, Plan, TableChange, TableStep
from headrace.plan.tables import table_steps
from headrace.plan.views import view_steps


def build_plan(graph: ResolvedGraph, state: DeployedState, past: DeployedPast, selected: Selected) -> Plan:
    """The plan of an update.

    Raises:
        Problems: a deployed table cannot take what is declared now, rows would be lost without having been given up,
            or a flow cannot start where it should.
    """
    interrupted = {flow.target for flow in graph.stored_flows if state.resetting(flow)} & selected.refresh
    lost = frozenset(name for name in selected.refresh if _lost_its_table(graph, state, name))
    selected = replace(selected, full_refresh=selected.full_refresh | interrupted | lost)
    tables, problems = table_steps(graph, state, selected, lost)
    cleared = clearing(graph, past, selected, tables, lost | interrupted)
    tables = cleared.tables
    changed, other_kind = changed_kinds(graph, past, selected)
    restarted, unable = restarts(graph, past, selected, selected.full_refresh)
    problems += [*cleared.problems, *changed, *unable]
    # Of flows that begin anew, and of tables that are refused as a whole, no more is asked.
    kept = selected.without(other_kind)
    problems += _lost_checkpoints(graph, state, kept)
    problems += changed_states(graph, state, kept)
    problems += _missing_inputs(graph, state, selected)
    if problems:
        raise Problems(problems)
    moving: set[QualifiedName] = set()
    steps: list[FlowStep] = []
    for flow in graph.stored_flows:
        step = _flow_step(graph, flow, state, selected, tables, moving)
        if flow.name in restarted:
            step = _restart(step, restarted[flow.name])
        if step.decision is Decision.START:
            moving.add(flow.target)
        steps.append(step)
    views = view_steps(graph, past, selected)
    return Plan(graph, tuple(tables.values()), tuple(steps), losses=cleared.losses, views=views)


def _restart(step: FlowStep, restart: Restart) -> FlowStep:
    reason = f"its progress is dropped, it starts at {restart.start}; the table keeps its rows"
    return replace(step, decision=Decision.START, reason=reason, conditional=False, restart=restart)


def _lost_its_table(graph: ResolvedGraph, state: DeployedState, name: QualifiedName) -> bool:
    """True when streams fed a table that somebody has deleted: they have to read from the start again."""
    if name not in graph.by_name or not graph.by_name[name].kind.stored or state.table(name) is not None:
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
        and flow.name not in selected.starts
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
