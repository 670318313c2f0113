"""Explains one dataset from the storage; needs no session."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from headrace.checkpoints.offsets import read_progress
from headrace.checkpoints.state_size import state_sizes
from headrace.delta_log.tables import committed_transaction, count_rows, open_table_log, table_size
from headrace.errors import Problems
from headrace.graph.analysis import Source, SourceKind
from headrace.graph.resolved import ResolvedDataset, ResolvedGraph
from headrace.graph.resolved_flows import ChangeFlow, ResolvedFlow, StreamingFlow, ViewFlow
from headrace.graph.select import Selection
from headrace.model.datasets import Kind
from headrace.model.names import Naming
from headrace.plan.steps import Plan
from headrace.plan.triggers import trigger_of
from headrace.project.inspection.explain_layout import layout_report
from headrace.project.inspection.explanation import Explanation, FlowExplanation, MergedBatch, TableFacts
from headrace.project.planning.plan_update import Planning
from headrace.settings.settings import Settings
from headrace.spark.delta.commit_counts import merged_rows
from headrace.storage.change_detection import StoredState
from headrace.storage.positions import NOTHING_READ, files_position, table_position
from headrace.storage.start_positions import describe_source

_LONGEST_OFFSET = 200


def explanation(
    graph: ResolvedGraph, dataset: ResolvedDataset, planning: Planning, settings: Settings, now_s: float
) -> Explanation:
    """The dataset with its table, its flows, their positions, and what the next update would do with them.

    Args:
        graph: the project.
        dataset: the dataset.
        planning: plans the next update.
        settings: the pipeline's.
        now_s: the time, in seconds since 1970.
    """
    plan: Plan | None = None
    problems: tuple[str, ...] = ()
    flows = graph.flows_into(dataset.name)
    try:
        plan = planning.plan(graph, Selection())
    except Problems as found:
        own = {str(dataset.name), *(flow.name for flow in flows)}
        problems = tuple(
            error.message for error in found if own & {error.params.get(key, "") for key in ("name", "flow")}
        )
    problems += tuple(
        f'flow "{unavailable.name}" cannot run now: {unavailable.reason}'
        for unavailable in graph.unavailable_into(dataset.name)
    )
    read_by = {str(flow.target): None for flow in graph.flows if dataset.name in {i.name for i in flow.analysis.inputs}}
    explained_flows = (_flow(graph, flow, plan, planning.state, settings) for flow in flows)
    explained = tuple(replace(flow, delivers=dataset.kind is Kind.SINK) for flow in explained_flows)
    facts = _facts(planning.state, dataset)
    report, unreadable = layout_report(dataset, settings, now_s) if facts is not None else (None, ())
    return Explanation(dataset, explained, facts, tuple(read_by), problems + unreadable, report)


def _facts(state: StoredState, dataset: ResolvedDataset) -> TableFacts | None:
    known = state.table(dataset.name) if dataset.kind.stored else None
    table = open_table_log(known.path) if known is not None else None
    if known is None or table is None:
        return None
    return TableFacts(known.version, count_rows(table, known.path), table_size(table), known.schema)


def _flow(
    graph: ResolvedGraph, flow: ResolvedFlow, plan: Plan | None, state: StoredState, settings: Settings
) -> FlowExplanation:
    if isinstance(flow, ViewFlow):
        return FlowExplanation(flow, 0, None, "computed by its readers")
    step = plan.step_for(flow.name) if plan is not None else None
    coming = f"{step.decision.value}: {step.reason}" if step is not None else state.detect_changes(graph, flow).reason
    epoch = state.progress_of(flow).epoch
    found = trigger_of(graph, flow, continuous=settings.continuous, interval_s=settings.trigger_interval_s)
    trigger = found.describe()
    merged = _merged(flow, state) if isinstance(flow, ChangeFlow) else None
    if not isinstance(flow, StreamingFlow):
        return FlowExplanation(flow, epoch, None, coming, trigger, merged=merged)
    checkpoint = state.checkpoint(flow, epoch)
    positions = tuple(_positions(flow, state, epoch, settings.naming))
    sizes = state_sizes(checkpoint)
    return FlowExplanation(flow, epoch, str(checkpoint), coming, trigger, positions, merged, state_bytes=sizes)


def _merged(flow: ResolvedFlow, state: StoredState) -> MergedBatch | None:
    """The last batch that a flow committed to its table, if the table's log still contains it."""
    table, record = state.table(flow.target), state.record(flow)
    if table is None or record is None:
        return None
    transaction = state.transaction(record)
    newest = committed_transaction(table.path, transaction)
    found = None if newest is None else merged_rows(table.path, transaction, newest)
    if newest is None or found is None or found.path is None:
        return None
    return MergedBatch(newest, found.path, found.written, found.upserted, found.deleted)


def _positions(flow: ResolvedFlow, state: StoredState, epoch: int, naming: Naming) -> list[tuple[str, str]]:
    """For each source, the position of the checkpoint's newest offset."""
    checkpoint = state.checkpoint(flow, epoch)
    progress = read_progress(checkpoint)
    sources = flow.analysis.sources
    if progress is None:
        return [(describe_source(source), NOTHING_READ) for source in sources]
    if len(progress.offsets) != len(sources):
        return [
            (describe_source(source), "not known: the query has other sources than its checkpoint")
            for source in sources
        ]
    late = "" if progress.completed else f"; batch {progress.batch_id} is unfinished"
    return [
        (
            describe_source(source),
            (
                files_position(checkpoint, number)
                if _is_listed(source, offset)
                else _position(source, offset, state, naming)
            )
            + late,
        )
        for number, (source, offset) in enumerate(zip(sources, progress.offsets, strict=True))
    ]


def _is_listed(source: Source, offset: Any) -> bool:
    """Whether a source has read something, and keeps what in a listing of files."""
    return offset is not None and source.kind is SourceKind.FILES


def _position(source: Source, offset: Any, state: StoredState, naming: Naming) -> str:
    if offset is None:
        return NOTHING_READ
    if source.kind is not SourceKind.DATASET:
        return json.dumps(offset)[:_LONGEST_OFFSET]
    table = state.table(naming.canonical(source.detail))
    if table is None or offset.get("reservoirId") != table.table_id:
        return f"version {int(offset['reservoirVersion'])} of a table that is no longer there"
    return table_position(offset, table.version)
