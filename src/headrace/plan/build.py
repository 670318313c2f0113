"""Resolved graph and deployed state to a :class:`Plan`; pure, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.cdc.change_feed import FEED_PROPERTY
from headrace.errors import PipelineError, Problems
from headrace.graph.resolved import Mode, ResolvedFlow, ResolvedGraph
from headrace.graph.select import Selected
from headrace.graph.starts import StartKind
from headrace.model.names import QualifiedName
from headrace.model.properties import switched_on
from headrace.model.table_rules import Fresh
from headrace.plan.backfills import unloadable, unreplayable
from headrace.plan.deployed import DeployedPast, DeployedState, read_anew
from headrace.plan.restarts import again, restarts, start_to_go_on
from headrace.plan.source_retention import Restart
from headrace.plan.state_compatibility import changed_states, other_tables
from headrace.plan.steps import Decision, FlowStep, Plan, TableChange, TableStep
from headrace.plan.table_kinds import changed_kinds
from headrace.plan.tables import table_steps
from headrace.plan.unavailable_sources import away_steps, stranded
from headrace.plan.unfinished_clears import unfinished
from headrace.plan.unrecoverable_rows import clearing
from headrace.plan.views import view_steps


def build_plan(graph: ResolvedGraph, state: DeployedState, past: DeployedPast, selected: Selected) -> Plan:
    """The plan of an update.

    Raises:
        Problems: a deployed table cannot take what is declared now, rows would be lost without having been given up,
            or a flow cannot start where it should.
    """
    # Of full refreshes that were interrupted, which are finished now, nothing is asked again.
    strands = stranded(graph, past, selected)
    due = unfinished(graph, state, selected)
    selected = replace(selected, full_refresh=selected.full_refresh | due.names)
    tables, problems = table_steps(graph, state, selected, due)
    cleared = clearing(graph, past, selected, tables, due)
    tables = cleared.tables
    changed, other_kind = changed_kinds(graph, past, selected)
    restarted, unable = restarts(graph, past, selected, selected.full_refresh)
    problems += [*cleared.problems, *changed, *unable, *strands]
    # Of flows that begin anew, and of tables that are refused as a whole, no more is asked.
    kept = selected.without(other_kind)
    unfit = _contradictions(graph, state, kept)
    problems += changed_states(graph, state, kept)
    problems += other_tables(graph, state, kept)
    problems += _stuck_loads(graph, state, kept)
    problems += _missing_inputs(graph, state, selected)
    problems += _missing_feeds(graph, state, selected)
    if problems:
        raise Problems(problems)
    moving: set[QualifiedName] = set()
    steps: list[FlowStep] = []
    for flow in graph.stored_flows:
        step = _flow_step(graph, flow, state, selected, tables, moving)
        if flow.name in unfit:
            step = _failing(flow, unfit[flow.name])
        elif flow.name in restarted:
            step = _restart(step, restarted[flow.name])
        if step.decision is Decision.START:
            moving.add(flow.target)
        steps.append(step)
    views = view_steps(graph, past, selected)
    away = away_steps(graph, selected)
    return Plan(graph, tuple(tables.values()), tuple(steps), losses=cleared.losses, views=views, away=away)


def _restart(step: FlowStep, restart: Restart) -> FlowStep:
    reason = f"checkpoint reset: starts at {restart.start}, the table keeps its rows"
    return replace(step, decision=Decision.START, reason=reason, conditional=False, restart=restart)


def _failing(flow: ResolvedFlow, error: PipelineError) -> FlowStep:
    place = f" ({error.location})" if error.location else ""
    return FlowStep(flow, Decision.FAIL, f"{error.message}{place}", error=error)


def _contradictions(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> dict[str, PipelineError]:
    """Flows that would lose rows, or bring them twice, because what is known of their progress does not agree.

    They fail, and what does not read their tables runs.
    """
    return {
        flow.name: PipelineError(
            found.code,
            location=flow.flow.location,
            flow=flow.name,
            name=flow.target,
            otherwise=_without_checkpoint(flow),
            **found.said,
        )
        for flow in graph.stored_flows
        if flow.target in selected.refresh - selected.full_refresh
        and flow.name not in selected.starts
        and (found := state.contradiction(flow)) is not None
    }


def _without_checkpoint(flow: ResolvedFlow) -> str:
    """How a flow can go on without its checkpoint, as the end of a hint."""
    start = start_to_go_on(flow)
    if start is None:
        return ""
    what = "read only new data" if start is StartKind.LATEST else "read everything again, which duplicates rows"
    return f"; or keep its rows and {what}: {again(flow.name, start.value)}"


def _stuck_loads(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> list[PipelineError]:
    """Interrupted backfills of queries that were changed since into ones that cannot be run in parts."""
    return [
        problem
        for flow in graph.stored_flows
        if flow.target in selected.refresh - selected.full_refresh
        and (load := state.pending_load(flow)) is not None
        and (problem := unloadable(flow) if load.replay is None else unreplayable(flow)) is not None
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


def _missing_feeds(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> list[PipelineError]:
    """Flows that read what a table does not tell yet, which is not selected."""
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


def _flow_step(
    graph: ResolvedGraph,
    flow: ResolvedFlow,
    state: DeployedState,
    selected: Selected,
    tables: dict[QualifiedName, TableStep],
    moving: set[QualifiedName],
) -> FlowStep:
    stuck = _stuck(graph, flow, state, tables)
    if flow.target not in selected.refresh:
        return FlowStep(flow, Decision.EXCLUDE, f"not selected; {stuck}" if stuck else "not selected")
    step = tables.get(flow.target)
    if flow.target in selected.full_refresh:
        reason = step.reason if step is not None and _is_reset(step) else "full refresh"
        return FlowStep(flow, Decision.START, reason, reset=True)
    load = state.pending_load(flow)
    if load is not None:
        what = "backfill" if load.replay is None else "replay"
        reason = f"finishes an interrupted {what} first: {load.describe()}"
        return FlowStep(flow, Decision.START, reason, load=load)
    if step is not None and step.change is TableChange.CREATE:
        return FlowStep(flow, Decision.START, "first run")
    if stuck:
        return FlowStep(flow, Decision.START, stuck, conditional=step is None)
    news = state.news(graph, flow)
    if news.started:
        return FlowStep(flow, Decision.START, news.reason)
    if step is not None:
        return FlowStep(flow, Decision.START, step.reason)
    return _without_news(graph, flow, news.reason, moving)


def _without_news(graph: ResolvedGraph, flow: ResolvedFlow, reason: str, moving: set[QualifiedName]) -> FlowStep:
    upstream = [given.name for given in graph.stored_inputs(flow) if given.name in moving]
    if flow.mode.streams:
        upstream = [name for name in _streamed(graph, flow) if name in moving]
    if upstream and flow.mode is not Mode.ONCE:
        return FlowStep(flow, Decision.START, f"reads {_listed(upstream)}, updated first", conditional=True)
    if any(isinstance(e.predicate, Fresh) for e in graph.by_name[flow.target].dataset.expectations):
        reason = "checks the freshness of its table in each update"
        return FlowStep(flow, Decision.START, reason, conditional=True, waits=True)
    return FlowStep(flow, Decision.UP_TO_DATE, reason)


def _stuck(
    graph: ResolvedGraph, flow: ResolvedFlow, state: DeployedState, tables: Mapping[QualifiedName, TableStep]
) -> str:
    """Why a stream cannot go on that has read tables which are cleared; nothing when it can."""
    cleared = [given for given in _streamed(graph, flow) if _is_reset(tables.get(given))]
    if not cleared or not state.ran(flow):
        return ""
    return f"reads {_listed(cleared)}, cleared by this update; {read_anew(flow.target)}"


def _streamed(graph: ResolvedGraph, flow: ResolvedFlow) -> list[QualifiedName]:
    """The tables that a flow reads as streams."""
    return [given.name for given in graph.stored_inputs(flow) if given.streaming]


def _is_reset(step: TableStep | None) -> bool:
    return step is not None and step.change is TableChange.RESET


def _listed(names: Iterable[QualifiedName]) -> str:
    return ", ".join(f'"{name}"' for name in names)
