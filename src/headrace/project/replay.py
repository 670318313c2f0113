"""A replay of quarantine as a plan: the flows whose rows are open, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedFlow, ResolvedGraph
from headrace.graph.select import dataset_name
from headrace.model.names import Naming, QualifiedName
from headrace.plan.backfills import Load, Replay, Replayed, unreplayable
from headrace.plan.steps import Decision, FlowStep, Plan, TableChange
from headrace.settings.storage import StorageLayout
from headrace.storage.backfills import loads_of, next_number
from headrace.storage.change_detection import StoredState
from headrace.storage.dead_letters import QUERY_FAILED, SINK_REFUSED, failing_rows_kept, stored_failing_rows
from headrace.storage.flow_records import unfinished_batch
from headrace.storage.open_quarantine import set_aside
from headrace.storage.spill_queue import waiting_batches


def with_replay(plan: Plan, wanted: Replayed, state: StoredState, layout: StorageLayout, naming: Naming) -> Plan:
    """The plan with what replays the open rows of a dataset, and nothing else.

    Raises:
        PipelineError: DATASET.UNKNOWN, QUARANTINE.NONE, REPLAY.*.
    """
    graph = plan.graph
    name = dataset_name(graph, wanted.name, naming)
    waiting, asked = _waiting(graph, name, wanted, state, layout, naming)
    reset = any(table.dataset == name and table.change is TableChange.RESET for table in plan.tables)
    steps = []
    for step in plan.flows:
        flow = step.flow
        pending = state.pending_load(flow) if flow.target == name else None
        if flow.target != name or (pending is None and not waiting.get(flow.name, 0)):
            steps.append(FlowStep(flow, Decision.EXCLUDE, "not part of the replay"))
            continue
        problem = (
            step.error
            or unreplayable(flow)
            or (None if wanted.abandon else _not_now(graph, flow, state, pending, asked, reset=reset))
        )
        if problem is not None:
            raise problem
        before = loads_of(state.record_file(flow).parent, naming.canonical)
        load = pending or Load(next_number(before), (), fences=False, replay=asked)
        if wanted.abandon:
            load = _abandoned(flow, pending, state)
        steps.append(FlowStep(flow, Decision.START, load.describe(), load=load, streams=False))
    if not any(step.decision is Decision.START for step in steps):
        raise PipelineError(
            "REPLAY.NOTHING", name=name, rules=f" that broke {', '.join(wanted.rules)}" * bool(wanted.rules)
        )
    return replace(plan, flows=tuple(steps), tables=tuple(table for table in plan.tables if table.dataset == name))


def _waiting(
    graph: ResolvedGraph,
    name: QualifiedName,
    wanted: Replayed,
    state: StoredState,
    layout: StorageLayout,
    naming: Naming,
) -> tuple[dict[str, int], Replay]:
    """How many rows wait that are meant, by the names of flows, and what is asked.

    Rows that broke rules come before those that queries have failed with, and these before those that sinks have
    refused, unless they are named.
    """
    flows = graph.flows_into(name)
    if wanted.from_source and wanted.changes:
        raise PipelineError("REPLAY.SET_FROM_SOURCE", change=wanted.changes[0])
    folders = {flow.name: state.record_file(flow).parent for flow in flows}
    open_batches = {flow.name: unfinished_batch(state, flow) for flow in flows}
    failing = {flow: stored_failing_rows(folder, but=open_batches[flow]) for flow, folder in folders.items()}
    cause = QUERY_FAILED
    if wanted.rules == (SINK_REFUSED,) or (not wanted.rules and not any(failing.values())):
        cause = SINK_REFUSED
        failing = {
            flow: stored_failing_rows(folder, refused=True, but=open_batches[flow]) for flow, folder in folders.items()
        }
    if len(wanted.rules) > 1 and {QUERY_FAILED, SINK_REFUSED}.intersection(wanted.rules):
        raise PipelineError("REPLAY.ONE_CAUSE", name=wanted.name, causes=", ".join(wanted.rules))
    of_rules = wanted.rules not in ((QUERY_FAILED,), (SINK_REFUSED,))
    aside = set_aside(layout.quarantine(naming, name), wanted.rules) if of_rules else None
    if aside is not None:
        rows = {flow.name: aside.rows.get(state.progress_of(flow).identity, 0) for flow in flows}
        if wanted.rules or any(rows.values()) or not any(failing.values()):
            changes = tuple(_change(text, aside.columns) for text in wanted.changes)
            asked = Replay(name, aside.version, wanted.rules, changes, wanted.judged, from_source=wanted.from_source)
            return rows, asked
    elif not any(failing.values()) and not any(map(failing_rows_kept, folders.values())):
        raise PipelineError("QUARANTINE.NONE", name=wanted.name, suggestion="")
    if (of_rules and wanted.rules) or wanted.from_source:
        failing = {}
    columns = dict.fromkeys(column for rows in failing.values() for row in rows for column in json.loads(row.row))
    changes = tuple(_change(text, tuple(columns)) for text in wanted.changes)
    asked = Replay(name, -1, (cause,), changes, wanted.judged, failing=())
    return {flow: len(rows) for flow, rows in failing.items()}, asked


def _not_now(
    graph: ResolvedGraph, flow: ResolvedFlow, state: StoredState, pending: Load | None, asked: Replay, *, reset: bool
) -> PipelineError | None:
    """Why rows cannot be replayed before an update has run; None when they can.

    Rows of a batch that is not in the table yet are set aside anew, or are not, when the batch comes again.
    """
    place, name = flow.flow.location, flow.target
    if reset:
        return PipelineError("REPLAY.NOT_NOW", location=place, flow=flow.name, name=name, reason="it is to be cleared")
    # Of rows that were set aside without a rule it is known which batch they are of.
    if asked.failing is None and (unfinished_batch(state, flow) is not None or not state.ran(flow)):
        reason = "a batch that has set rows aside is not in it yet"
        return PipelineError("REPLAY.NOT_NOW", location=place, flow=flow.name, name=name, reason=reason)
    if any(map(waiting_batches, state.waiting(graph, flow).values())):
        reason = "a batch that has set rows aside waits for it"
        return PipelineError("REPLAY.NOT_NOW", location=place, flow=flow.name, name=name, reason=reason)
    before = None if pending is None or pending.replay is None else pending.replay
    if before is not None and before.failing is not None:
        # Which rows they are was found when it began.
        before = replace(before, failing=())
    if pending is not None and (before is None or replace(before, version=asked.version) != asked):
        return PipelineError("REPLAY.PENDING", location=place, flow=flow.name, name=name, pending=pending.describe())
    return None


def _abandoned(flow: ResolvedFlow, pending: Load | None, state: StoredState) -> Load:
    if pending is None or pending.replay is None or state.load_is_in_table(flow, pending):
        raise PipelineError("REPLAY.NOT_PENDING", flow=flow.name, name=flow.target)
    return replace(pending, retired=True)


def _change(text: str, columns: tuple[str, ...]) -> tuple[str, str]:
    column, equals, expression = text.partition("=")
    stored = {known.casefold(): known for known in columns}
    if not equals or not expression.strip() or column.strip().casefold() not in stored:
        known = ", ".join(f'"{known}"' for known in columns)
        raise PipelineError("REPLAY.BAD_CHANGE", change=text, known=known)
    return stored[column.strip().casefold()], expression.strip()
