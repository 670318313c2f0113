"""Detects whether a flow has anything to do, without starting it (D9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.autoloader.ledger.positions import offset_problem
from headrace.autoloader.pending_files import auto_loader_changes
from headrace.autoloader.source import Source as LoaderSource
from headrace.checkpoints.offsets import Progress, read_progress
from headrace.delta_log.tables import (
    TableState,
    table_version_or_none,
)
from headrace.graph.analysis import Source, SourceKind
from headrace.graph.graph_flow import GraphFlow
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import AppendFlow, OneTimeFlow, ResolvedFlow, SnapshotFlow, StreamingFlow
from headrace.model.datasets import Flow, Kind
from headrace.model.names import QualifiedName
from headrace.plan.agreement import Disagreement
from headrace.plan.deployed import NewInput
from headrace.sinks.formats import format_of
from headrace.storage.agreement import confirmed, disagreement_of
from headrace.storage.flow_record import FlowRecord
from headrace.storage.flow_stores import TABLE
from headrace.storage.input_changes import files_change, input_change, once_changes, replaced_source, table_change
from headrace.storage.spill_queue import SpillFolders, spill_folders, spilled_batches
from headrace.storage.table_states import StoredTables

# An idle flow is started once in a while, so that its offset does not age out of its source's log.
MAX_REST_S = 7 * 24 * 3600.0


class StoredState(StoredTables):
    """Deployed tables and flow records of one pipeline on a local disk, and what flows have to do."""

    def disagreement(self, flow: ResolvedFlow) -> Disagreement | None:
        """The first disagreement between the stores of a flow; None when it can continue."""
        read = [source.detail for source in flow.analysis.sources if source.kind is SourceKind.DATASET]
        return confirmed(lambda: self._disagreement(flow, read)) or self._ledger_disagreement(flow)

    def _disagreement(self, flow: ResolvedFlow, read: Sequence[str]) -> Disagreement | None:
        tables = [self.table(self._naming.canonical(name)) for name in read]
        return disagreement_of(self.stores(flow), [table for table in tables if table is not None])

    def _ledger_disagreement(self, flow: ResolvedFlow) -> Disagreement | None:
        """A disagreement between a flow's checkpoint and the ledgers of its Auto Loader sources."""
        streams = isinstance(flow, StreamingFlow)
        progress = read_progress(self.checkpoint(flow, self.progress_of(flow).epoch)) if streams else None
        for source, offset in zip(flow.analysis.sources, progress.offsets if progress else (), strict=False):
            if source.kind is not SourceKind.AUTO_LOADER or not isinstance(offset, Mapping) or "ledger" not in offset:
                continue
            problem = offset_problem(LoaderSource.from_json(source.detail).ledgers, offset)
            if problem is not None and problem.condition.retry is not True:
                return Disagreement(problem.code, problem.params)
        return None

    def last_snapshot_version(self, flow: Flow | GraphFlow) -> Any:
        """The version of the newest snapshot that a flow's table contains; None when it contains none."""
        record = self.record(flow)
        if record is None or record.snapshot is None:
            return None
        done = not record.running or self.has_committed(flow, record, record.snapshot.number)
        return record.snapshot.version if done else record.snapshot.previous

    def detect_changes(self, graph: ResolvedGraph, flow: ResolvedFlow) -> NewInput:
        """Whether the flow has anything to do, given the current tables."""
        record = self.record(flow)
        if record is None or not record.started_at:
            return NewInput(is_due=True, reason="first run")
        if isinstance(flow, OneTimeFlow):
            if graph.by_name[flow.target].kind is Kind.SINK:
                return NewInput(is_due=False, reason="delivered once")
            path = self._layout.table(self._naming, flow.target)
            return once_changes(path, self.transaction(self.progress_of(flow)))
        streams = isinstance(flow, StreamingFlow)
        queues = self.spill_queues(graph, flow).values() if streams else ()
        spilled = sum(len(spilled_batches(queue)) for queue in queues)
        if spilled:
            return NewInput(is_due=True, reason=f"{spilled} batch{'' if spilled == 1 else 'es'} in the spill queue")
        replaced = self._replaced_source(graph, flow, record) if streams else None
        if replaced is not None:
            return NewInput(is_due=True, reason=replaced)
        if _runs_other_code(flow, record):
            return NewInput(is_due=True, reason="its code, settings or input columns changed")
        if not streams:
            return _view_changes(graph, flow, record, self.table)
        return self._stream_changes(flow, record)

    def is_modified(self, flow: ResolvedFlow) -> bool:
        """True if the flow last ran with other code or settings, or never."""
        record = self.record(flow)
        return record is None or not record.started_at or _runs_other_code(flow, record)

    def spill_queues(self, graph: ResolvedGraph, flow: ResolvedFlow) -> SpillFolders:
        """The spill queue of each of a flow's sinks, by name; none if Spark writes them itself."""
        sink, members = graph.by_name[flow.target].dataset.sink, map(str, graph.by_name[flow.target].members)
        if sink is None or format_of(sink.format) is None:
            return {}
        return spill_folders(self.record_file(flow).parent, str(flow.target), members)

    def _replaced_source(self, graph: ResolvedGraph, flow: ResolvedFlow, record: FlowRecord) -> str | None:
        """Why a stream cannot continue because a table it reads was replaced, so that Spark would fail; or None."""
        progress = read_progress(self.checkpoint(flow, record.epoch))
        for source, offset in zip(flow.analysis.sources, progress.offsets if progress else (), strict=False):
            if source.kind is not SourceKind.DATASET or offset is None:
                continue
            table = self.table(self._naming.canonical(source.detail))
            if table is not None and offset.get("reservoirId") != table.table_id:
                return replaced_source(graph, flow, source.detail)
        return None

    def _stream_changes(self, flow: ResolvedFlow, record: FlowRecord) -> NewInput:
        # A start in the future was recorded by a clock that was ahead.
        if not 0 <= self.now() - record.started_at <= MAX_REST_S:
            return NewInput(is_due=True, reason="runs at least once a week")
        if any(operator.has_timers for operator in flow.analysis.operators):
            return NewInput(is_due=True, reason="its state may have timers that are due")
        checkpoint = self.checkpoint(flow, record.epoch)
        progress = read_progress(checkpoint)
        pending = _pending(flow, progress)
        if pending:
            return NewInput(is_due=True, reason=pending)
        # Before the first planned batch, only sources that can be listed show whether they have new data.
        offsets = (None,) * len(record.sources) if progress is None else progress.offsets
        sources = flow.analysis.sources
        known = record.sources
        same = len(known) == len(sources) and all(map(Source.is_same, sources, known))
        if not same or len(offsets) != len(sources):
            return NewInput(is_due=True, reason="its sources changed")
        for number, (source, offset) in enumerate(zip(sources, offsets, strict=True)):
            if source.kind is SourceKind.FILES:
                reason = files_change(source.detail, offset, checkpoint, number)
            else:
                reason = self._source_change(source, offset)
            if reason:
                return NewInput(is_due=True, reason=reason)
        if record.running:
            return NewInput(is_due=True, reason="its last run was interrupted")
        return NewInput(is_due=False, reason="no new data in its sources")

    def _source_change(self, source: Source, offset: Any) -> str | None:
        match source.kind:
            case SourceKind.DATASET:
                return table_change(source, self.table(self._naming.canonical(source.detail)), offset)
            case SourceKind.AUTO_LOADER:
                return auto_loader_changes(LoaderSource.from_json(source.detail), offset, self.now)
            case _:
                return f"must start to check {source.detail} for new data"


def _runs_other_code(flow: ResolvedFlow, record: FlowRecord) -> bool:
    return record.fingerprint not in (flow.analysis.fingerprint, flow.analysis.former_fingerprint)


def has_closed_results(flow: ResolvedFlow, progress: Progress) -> bool:
    """True when the last batch of a stream closed results that only the next batch writes."""
    # A single aggregation that rewrites its whole result has nothing that a watermark closes.
    closes = isinstance(flow, AppendFlow) or len(flow.analysis.operators) > 1
    return progress.completed and progress.watermark_moved and bool(flow.analysis.operators) and closes


def uses_clock_timers(flow: ResolvedFlow) -> bool:
    """True for a stream with processing-time timers, which Spark never ends because they may fire at any time."""
    return any(operator.has_processing_time_timers for operator in flow.analysis.operators)


def _view_changes(
    graph: ResolvedGraph,
    flow: ResolvedFlow,
    record: FlowRecord,
    table_of: Callable[[QualifiedName], TableState | None],
) -> NewInput:
    if isinstance(flow, SnapshotFlow) and record.running:
        return NewInput(is_due=True, reason="its last run was interrupted")
    if flow.analysis.unrepeatable:
        if isinstance(flow, SnapshotFlow) and flow.calls_function:
            return NewInput(is_due=True, reason=flow.analysis.unrepeatable)
        return NewInput(is_due=True, reason=f"full recompute: {flow.analysis.unrepeatable}")
    target = table_of(flow.target)
    if target is None or target.table_id != record.target_id:
        return NewInput(is_due=True, reason="its table was replaced since its last run")
    ended_at = record.table_versions.get(TABLE)
    if ended_at is not None and target.version < ended_at.version:
        return NewInput(is_due=True, reason="its table is older than its last result")
    for given in graph.stored_inputs(flow):
        table = table_of(given.name)
        reason = input_change(str(given.name), table.path if table else "", table, record)
        if reason:
            return NewInput(is_due=True, reason=reason)
    for path in flow.analysis.external_tables:
        reason = input_change(path, path, table_version_or_none(path), record)
        if reason:
            return NewInput(is_due=True, reason=reason)
    return NewInput(is_due=False, reason="inputs, code and settings are unchanged")


def _pending(flow: ResolvedFlow, progress: Progress | None) -> str | None:
    """What Spark still has to do for planned batches, whether or not there is new data."""
    if progress is None:
        return None
    if not progress.completed:
        return f"batch {progress.batch_id} is unfinished"
    return "its watermark closed results that are not written yet" if has_closed_results(flow, progress) else None
