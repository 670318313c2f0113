"""Decides whether a flow starts in an update, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import OneTimeFlow, ResolvedFlow, StoredFlow, StreamingFlow
from headrace.graph.select import Selected
from headrace.model.names import QualifiedName
from headrace.model.outcome import NOT_SELECTED
from headrace.model.table_rules import Fresh
from headrace.plan.branches import clears_table, start_over_command, streamed
from headrace.plan.deployed import DeployedState
from headrace.plan.steps import Decision, FlowStep, TableChange, TableStep


def flow_step(
    graph: ResolvedGraph,
    flow: StoredFlow,
    state: DeployedState,
    selected: Selected,
    tables: Mapping[QualifiedName, TableStep],
    updated: set[QualifiedName],
) -> FlowStep:
    """The step of a flow, as far as its own code, table and inputs decide it.

    Args:
        graph: what the flow reads.
        flow: the flow.
        state: what is deployed.
        selected: the tables of this update.
        tables: what happens to tables before their flows run.
        updated: tables whose flows start before this one.
    """
    stuck = _stuck_reason(graph, flow, state, tables)
    if flow.target not in selected.refresh:
        reason = f"{NOT_SELECTED}; {stuck}" if stuck else NOT_SELECTED
        return FlowStep(flow, Decision.EXCLUDE, reason, is_stuck=bool(stuck))
    step = tables.get(flow.target)
    if flow.target in selected.full_refresh:
        reason = step.reason if step is not None and clears_table(step) else "full refresh"
        return FlowStep(flow, Decision.START, reason, reset=True)
    backfill = state.pending_backfill(flow)
    if backfill is not None:
        what = "backfill" if backfill.replay is None else "replay"
        reason = f"finishes an interrupted {what} first: {backfill.describe()}"
        return FlowStep(flow, Decision.START, reason, backfill=backfill)
    if step is not None and step.change is TableChange.CREATE:
        return FlowStep(flow, Decision.START, "first run")
    if stuck:
        return FlowStep(flow, Decision.START, stuck, conditional=step is None, is_stuck=True)
    changes = state.detect_changes(graph, flow)
    if changes.is_due:
        return FlowStep(flow, Decision.START, changes.reason)
    if step is not None:
        return FlowStep(flow, Decision.START, step.reason)
    return _without_changes(graph, flow, changes.reason, updated)


def _without_changes(graph: ResolvedGraph, flow: StoredFlow, reason: str, updated: set[QualifiedName]) -> FlowStep:
    upstream = [given.name for given in graph.stored_inputs(flow) if given.name in updated]
    if isinstance(flow, StreamingFlow):
        upstream = [name for name in streamed(graph, flow) if name in updated]
    if upstream and not isinstance(flow, OneTimeFlow):
        return FlowStep(flow, Decision.START, f"reads {_listed(upstream)}, updated first", conditional=True)
    if any(isinstance(e.predicate, Fresh) for e in graph.by_name[flow.target].dataset.expectations):
        reason = "checks the freshness of its table in each update"
        return FlowStep(flow, Decision.START, reason, conditional=True, is_waiting=True)
    return FlowStep(flow, Decision.UP_TO_DATE, reason)


def _stuck_reason(
    graph: ResolvedGraph, flow: ResolvedFlow, state: DeployedState, tables: Mapping[QualifiedName, TableStep]
) -> str:
    """Why a stream cannot continue because tables that it reads are cleared; empty if it can."""
    cleared = [given for given in streamed(graph, flow) if clears_table(tables.get(given))]
    if not cleared or not state.has_run(flow):
        return ""
    return f"reads {_listed(cleared)}, cleared by this update; to continue, run: {start_over_command(graph, flow)}"


def _listed(names: Iterable[QualifiedName]) -> str:
    return ", ".join(f'"{name}"' for name in names)
