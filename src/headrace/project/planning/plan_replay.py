"""Plans a quarantine replay: only the flows with open rows run."""

from __future__ import annotations

import json
from dataclasses import replace

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.graph.select import dataset_name
from headrace.model.names import Naming, QualifiedName
from headrace.plan.backfills import Backfill, Replay, ReplayRequest, no_replay_reason
from headrace.plan.steps import Decision, FlowStep, Plan, TableChange
from headrace.settings.storage import StorageLayout
from headrace.storage.backfills import next_number, stored_backfills
from headrace.storage.change_detection import StoredState
from headrace.storage.dead_letter_tables import QUERY_FAILED, SINK_REFUSED
from headrace.storage.dead_letters import has_dead_letters, read_dead_letters
from headrace.storage.flow_records import unfinished_batch
from headrace.storage.open_quarantine import read_open_quarantine
from headrace.storage.spill_queue import spilled_batches


def with_replay(plan: Plan, request: ReplayRequest, state: StoredState, layout: StorageLayout, naming: Naming) -> Plan:
    """The plan that replays the open rows of a dataset, and does nothing else.

    Raises:
        PipelineError: DATASET.UNKNOWN, QUARANTINE.NONE, REPLAY.*.
    """
    graph = plan.graph
    name = dataset_name(graph, request.name, naming)
    open_rows, requested = _open_rows(graph, name, request, state, layout, naming)
    reset = any(table.dataset == name and table.change is TableChange.RESET for table in plan.tables)
    steps = []
    for step in plan.flows:
        flow = step.flow
        pending = state.pending_backfill(flow) if flow.target == name else None
        if flow.target != name or (pending is None and not open_rows.get(flow.name, 0)):
            steps.append(FlowStep(flow, Decision.EXCLUDE, "not part of the replay"))
            continue
        problem = (
            step.error
            or no_replay_reason(flow)
            or (None if request.abandon else _blocking_problem(graph, flow, state, pending, requested, reset=reset))
        )
        if problem is not None:
            raise problem
        before = stored_backfills(state.record_file(flow).parent, naming.canonical)
        backfill = pending or Backfill(next_number(before), (), stream_starts_after=False, replay=requested)
        if request.abandon:
            backfill = _abandoned(flow, pending, state)
        steps.append(FlowStep(flow, Decision.START, backfill.describe(), backfill=backfill, streams=False))
    if not any(step.decision is Decision.START for step in steps):
        rules = f" for the rule{'' if len(request.rules) == 1 else 's'} {', '.join(request.rules)}"
        raise PipelineError("REPLAY.NOTHING", name=name, rules=rules if request.rules else "")
    return replace(plan, flows=tuple(steps), tables=tuple(table for table in plan.tables if table.dataset == name))


def _open_rows(
    graph: ResolvedGraph,
    name: QualifiedName,
    request: ReplayRequest,
    state: StoredState,
    layout: StorageLayout,
    naming: Naming,
) -> tuple[dict[str, int], Replay]:
    """The number of matching open rows by flow name, and the replay to run.

    Unless a cause is named, rows that violated rules come first, then rows that failed processing, then rows that sinks
    rejected.
    """
    flows = graph.flows_into(name)
    if request.from_source and request.changes:
        raise PipelineError("REPLAY.SET_FROM_SOURCE", change=request.changes[0])
    folders = {flow.name: state.record_file(flow).parent for flow in flows}
    open_batches = {flow.name: unfinished_batch(state, flow) for flow in flows}
    failing = {flow: read_dead_letters(folder, exclude=open_batches[flow]) for flow, folder in folders.items()}
    cause = QUERY_FAILED
    if request.rules == (SINK_REFUSED,) or (not request.rules and not any(failing.values())):
        cause = SINK_REFUSED
        failing = {
            flow: read_dead_letters(folder, from_sinks=True, exclude=open_batches[flow])
            for flow, folder in folders.items()
        }
    if len(request.rules) > 1 and {QUERY_FAILED, SINK_REFUSED}.intersection(request.rules):
        raise PipelineError("REPLAY.ONE_CAUSE", name=request.name, causes=", ".join(request.rules))
    from_rules = request.rules not in ((QUERY_FAILED,), (SINK_REFUSED,))
    quarantined = read_open_quarantine(layout.quarantine(naming, name), request.rules) if from_rules else None
    if quarantined is not None:
        rows = {flow.name: quarantined.rows.get(state.progress_of(flow).identity, 0) for flow in flows}
        if request.rules or any(rows.values()) or not any(failing.values()):
            changes = tuple(_change(text, quarantined.columns) for text in request.changes)
            requested = Replay(
                name,
                quarantined.version,
                request.rules,
                changes,
                request.applies_rules,
                from_source=request.from_source,
            )
            return rows, requested
    elif not any(failing.values()) and not any(map(has_dead_letters, folders.values())):
        raise PipelineError("QUARANTINE.NONE", name=request.name, suggestion="")
    if (from_rules and request.rules) or request.from_source:
        failing = {}
    columns = dict.fromkeys(column for rows in failing.values() for row in rows for column in json.loads(row.row))
    changes = tuple(_change(text, tuple(columns)) for text in request.changes)
    requested = Replay(name, -1, (cause,), changes, request.applies_rules, dead_letter_ids=())
    return {flow: len(rows) for flow, rows in failing.items()}, requested


def _blocking_problem(
    graph: ResolvedGraph,
    flow: ResolvedFlow,
    state: StoredState,
    pending: Backfill | None,
    requested: Replay,
    *,
    reset: bool,
) -> PipelineError | None:
    """The problem that prevents a replay before the next update; None without one.

    A batch that is not in the table yet is retried, and quarantines its rows again, or not.
    """
    location, name = flow.flow.location, flow.target
    if reset:
        reason = "the next update clears the table"
        return PipelineError("REPLAY.NOT_NOW", location=location, flow=flow.name, name=name, reason=reason)
    # Dead letters record their batch.
    if requested.dead_letter_ids is None and (unfinished_batch(state, flow) is not None or not state.has_run(flow)):
        reason = "a batch with quarantined rows is not in the table yet"
        return PipelineError("REPLAY.NOT_NOW", location=location, flow=flow.name, name=name, reason=reason)
    if any(map(spilled_batches, state.spill_queues(graph, flow).values())):
        reason = "a batch of the flow is still in the spill queue"
        return PipelineError("REPLAY.NOT_NOW", location=location, flow=flow.name, name=name, reason=reason)
    before = None if pending is None or pending.replay is None else pending.replay
    if before is not None and before.dead_letter_ids is not None:
        # The rows were selected when it started.
        before = replace(before, dead_letter_ids=())
    if pending is not None and (before is None or replace(before, version=requested.version) != requested):
        return PipelineError("REPLAY.PENDING", location=location, flow=flow.name, name=name, pending=pending.describe())
    return None


def _abandoned(flow: ResolvedFlow, pending: Backfill | None, state: StoredState) -> Backfill:
    if pending is None or pending.replay is None or state.is_backfill_committed(flow, pending):
        raise PipelineError("REPLAY.NOT_PENDING", flow=flow.name, name=flow.target)
    return replace(pending, retired=True)


def _change(text: str, columns: tuple[str, ...]) -> tuple[str, str]:
    column, equals, expression = text.partition("=")
    stored = {known.casefold(): known for known in columns}
    if not equals or not expression.strip() or column.strip().casefold() not in stored:
        known = ", ".join(f'"{known}"' for known in columns)
        raise PipelineError("REPLAY.BAD_CHANGE", change=text, known=known)
    return stored[column.strip().casefold()], expression.strip()
