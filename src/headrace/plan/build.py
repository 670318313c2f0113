"""Builds a :class:`Plan` from the resolved graph and the deployed state. Pure: it writes nothing."""

from __future__ import annotations

from dataclasses import replace

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import StoredFlow
from headrace.graph.select import Selected
from headrace.model.names import QualifiedName
from headrace.plan.backfills import no_backfill_reason, no_replay_reason
from headrace.plan.branches import failing_below
from headrace.plan.deployed import DeployedHistory, DeployedState
from headrace.plan.flow_steps import flow_step
from headrace.plan.missing_inputs import missing_feeds, missing_inputs
from headrace.plan.persisted_views import view_steps
from headrace.plan.refused import RefusedPlan, refused_by_flow, refused_datasets
from headrace.plan.restarts import reset_hint, restart_step, restarts
from headrace.plan.state_compatibility import changed_states, table_mismatches
from headrace.plan.steps import Decision, FlowStep, Plan
from headrace.plan.table_kinds import changed_kinds
from headrace.plan.tables import table_steps
from headrace.plan.unavailable_sources import stranded, unavailable_steps
from headrace.plan.unfinished_clears import pending_clears
from headrace.plan.unrecoverable_rows import plan_clears


def build_plan(graph: ResolvedGraph, state: DeployedState, history: DeployedHistory, selected: Selected) -> Plan:
    """The plan of an update.

    Raises:
        RefusedPlan: a deployed table cannot evolve to its declaration, rows would be lost without the user's consent,
            or a flow cannot start at the requested position.
    """
    return checked(draft_plan(graph, state, history, selected))


def checked(plan: Plan) -> Plan:
    """The plan, if it may run.

    Raises:
        RefusedPlan: something of it is refused.
    """
    if plan.refused:
        raise RefusedPlan(plan)
    return plan


def draft_plan(graph: ResolvedGraph, state: DeployedState, history: DeployedHistory, selected: Selected) -> Plan:
    """The plan of an update, which must not run if anything of it is refused. Flows that are refused fail in it."""
    # Interrupted full refreshes, which are finished now, need no new consent.
    stranded_problems = stranded(graph, history, selected)
    pending = pending_clears(graph, state, selected)
    selected = replace(selected, full_refresh=selected.full_refresh | pending.names)
    tables, problems = table_steps(graph, state, selected, pending)
    cleared = plan_clears(graph, history, selected, tables, pending)
    tables = cleared.tables
    changed, other_kind = changed_kinds(graph, history, selected)
    restarted, unable = restarts(graph, history, selected, selected.full_refresh)
    problems += [*cleared.problems, *changed, *unable, *stranded_problems]
    # Flows that start over, and tables that are refused as a whole, need no further checks.
    checked = selected.without(other_kind)
    failing = _disagreements(graph, state, checked)
    problems += changed_states(graph, state, checked)
    problems += table_mismatches(graph, state, checked)
    problems += _stuck_backfills(graph, state, checked)
    problems += missing_inputs(graph, state, selected)
    problems += missing_feeds(graph, state, selected)
    left_out = refused_datasets(graph, problems)
    tables = {name: step for name, step in tables.items() if name not in left_out}
    refused = refused_by_flow(graph, problems)
    updated: set[QualifiedName] = set()
    steps: list[FlowStep] = []
    for flow in graph.stored_flows:
        error = refused.get(flow.name) or failing.get(flow.name)
        step = _failing(flow, error) if error else flow_step(graph, flow, state, selected, tables, updated)
        if error is None and flow.name in restarted:
            step = restart_step(step, restarted[flow.name])
        if step.decision is Decision.START:
            updated.add(flow.target)
        steps.append(step)
    views = view_steps(graph, history, selected)
    unavailable = unavailable_steps(graph, selected)
    return Plan(
        graph,
        tuple(tables.values()),
        tuple(steps),
        losses=tuple(loss for loss in cleared.losses if loss.dataset not in left_out),
        views=views,
        unavailable=unavailable,
        notices=failing_below(graph, tables, steps, state.has_run),
        refused=tuple(problems),
    )


def _failing(flow: StoredFlow, error: PipelineError) -> FlowStep:
    location = f" ({error.location})" if error.location else ""
    return FlowStep(flow, Decision.FAIL, f"{error.message}{location}", error=error)


def _disagreements(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> dict[str, PipelineError]:
    """Flows that would lose or duplicate rows because the stores of their progress disagree.

    They fail. Flows that do not read their tables run.
    """
    return {
        flow.name: PipelineError(
            found.code,
            location=flow.flow.location,
            flow=flow.name,
            name=flow.target,
            otherwise=reset_hint(flow),
            **found.params,
        )
        for flow in graph.stored_flows
        if flow.target in selected.refresh - selected.full_refresh
        and flow.name not in selected.starts
        and (found := state.disagreement(flow)) is not None
    }


def _stuck_backfills(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> list[PipelineError]:
    """Interrupted backfills whose query has changed so that it cannot run over a part of its input."""
    return [
        problem
        for flow in graph.stored_flows
        if flow.target in selected.refresh - selected.full_refresh
        and (backfill := state.pending_backfill(flow)) is not None
        and (problem := no_backfill_reason(flow) if backfill.replay is None else no_replay_reason(flow)) is not None
    ]
