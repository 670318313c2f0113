"""Whether a flow has anything to do, found without starting it (D9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.autoloader.pending_files import news_of_auto_loader
from headrace.autoloader.positions import problem_of_offset
from headrace.autoloader.source import Source as LoaderSource
from headrace.cdc.merge_keys import ROWS_PROPERTY, MergedRows
from headrace.storage.agreement import BETWEEN_COMMITS, contradiction_of
from headrace.delta_log.tables import Commit, TableState, TableVersion, commit_actions, committed_transaction, data_changed, table_state, version_outside
from headrace.storage.flow_records import StoredRecords
from headrace.storage.flow_stores import TABLE
from headrace.storage.inventory import flows_of
from headrace.delta_log.table_layout import TableLayout, table_layout
from headrace.storage.file_listing import listed_files
from headrace.checkpoints.offsets import Progress, files_seen, newest_listing, read_progress
from headrace.storage.flow_record import FlowRecord
from headrace.storage.spill_queue import waiting_batches, waiting_places
from headrace.graph.flows import GraphFlow
from headrace.graph.resolved import Mode, ResolvedFlow, ResolvedGraph, Source, SourceKind
from headrace.model.datasets import Flow, Kind
from headrace.model.names import Naming, QualifiedName
from headrace.plan.agreement import Disagreement
from headrace.plan.deployed import NewInput, read_anew
from headrace.settings.storage import StorageLayout
from headrace.sinks.formats import format_of

# A resting flow is started once in a while so that its offset does not age out of its source's log.
LONGEST_REST_S = 7 * 24 * 3600.0


class StoredState(StoredRecords):
    """Deployed tables and flow records of one pipeline on a local disk.

    Args:
        layout: where things lie.
        naming: how names are spelled in full.
        pipeline_id: whose transactions the flows commit under.
        now: the time.
        logged: the newest epoch, and the newest batch in it, that the event log has of a flow into a dataset, or None.
    """

    def __init__(
        self,
        layout: StorageLayout,
        naming: Naming,
        pipeline_id: str,
        now: Callable[[], float],
        logged: Callable[[str, str], tuple[int, int] | None],
    ) -> None:
        super().__init__(layout, naming, pipeline_id, logged)
        self.now = now
        self._tables: dict[str, tuple[Commit, TableState]] = {}
        self._layouts: dict[tuple[str, str, int], TableLayout] = {}

    def table(self, name: QualifiedName) -> TableState | None:
        """A stored dataset's table as it is now, or None; it is read again once its log has another newest commit."""
        path = self._layout.table(self._naming, name)
        seen = self._tables.get(path)
        if seen is not None and seen[0].is_newest():
            return seen[1]
        found = table_state(path)
        if found is None:
            self._tables.pop(path, None)
        else:
            self._tables[path] = (Commit.of(path, found.version), found)
        return found

    def layout(self, name: QualifiedName) -> TableLayout:
        """How a stored dataset's table is laid out."""
        found = self.table(name)
        if found is None:
            return TableLayout()
        key = (found.path, found.table_id, found.version)
        if key not in self._layouts:
            self._layouts = {other: kept for other, kept in self._layouts.items() if other[0] != found.path}
            self._layouts[key] = table_layout(found.path)
        return self._layouts[key]

    def merged_rows(self, name: QualifiedName) -> MergedRows | None:
        """By what changes were merged into a table: as it says itself, or the records of flows that did so before."""
        found = self.table(name)
        said = found.properties.get(ROWS_PROPERTY) if found is not None else None
        if said is not None:
            return MergedRows.of_property(said)
        records = [flow.record for flow in flows_of(self._layout, self._naming, name) if flow.ran]
        noted = [known.description for r in records if r.made_with is not None for known in r.made_with.operators]
        return next(filter(None, map(MergedRows.of_meaning, noted)), None)

    def contradiction(self, flow: ResolvedFlow) -> Disagreement | None:
        """What does not agree between the stores of a flow, or None when it can go on."""
        read = [source.detail for source in flow.analysis.sources if source.kind is SourceKind.DATASET]
        tables = [self.table(self._naming.canonical(name)) for name in read]
        found = contradiction_of(self.stores(flow), [table for table in tables if table is not None])
        return found or self._contradiction_of_ledgers(flow)

    def _contradiction_of_ledgers(self, flow: ResolvedFlow) -> Disagreement | None:
        """What does not agree between a flow's checkpoint and the ledgers that it reads files through."""
        progress = read_progress(self.checkpoint(flow, self.progress_of(flow).epoch)) if flow.mode.streams else None
        for source, offset in zip(flow.analysis.sources, progress.offsets if progress else (), strict=False):
            if source.kind is not SourceKind.AUTO_LOADER or not isinstance(offset, Mapping) or "ledger" not in offset:
                continue
            problem = problem_of_offset(LoaderSource.from_json(source.detail).ledgers, offset)
            if problem is not None and problem.condition.retry is not True:
                return Disagreement(problem.code, problem.params)
        return None

    def snapshot_taken(self, flow: Flow | GraphFlow) -> Any:
        """The version of the newest snapshot that is in the table of a flow; None when none is."""
        record = self.record(flow)
        if record is None or record.snapshot is None:
            return None
        done = not record.running or self.has_committed(flow, record, record.snapshot.number)
        return record.snapshot.version if done else record.snapshot.before

    def news(self, graph: ResolvedGraph, flow: ResolvedFlow) -> NewInput:
        """Whether the flow has something to do, given the tables as they are now."""
        record = self.record(flow)
        if record is None or not record.started_at:
            return NewInput(started=True, reason="first run")
        if flow.mode is Mode.ONCE and graph.by_name[flow.target].kind is Kind.SINK:
            return NewInput(started=False, reason="delivered once")
        if flow.mode is Mode.ONCE:
            path = self._layout.table(self._naming, flow.target)
            return _news_of_once(path, self.transaction(self.progress_of(flow)))
        places = self.waiting(graph, flow).values() if flow.mode.streams else ()
        waiting = sum(len(waiting_batches(place)) for place in places)
        if waiting:
            return NewInput(started=True, reason=f"{waiting} batch{'' if waiting == 1 else 'es'} in the spill queue")
        rebuilt = self._rebuilt(flow, record) if flow.mode.streams else None
        if rebuilt is not None:
            return NewInput(started=True, reason=rebuilt)
        if record.fingerprint not in (flow.analysis.fingerprint, flow.analysis.former_fingerprint):
            return NewInput(started=True, reason="its code, settings or input columns changed")
        if not flow.mode.streams:
            return _news_of_view(graph, flow, record, self.table)
        return self._news_of_stream(flow, record)

    def waiting(self, graph: ResolvedGraph, flow: ResolvedFlow) -> dict[str, Path]:
        """Where batches of a flow wait for each of its sinks, by their names; none where Spark itself writes them."""
        sink, members = graph.by_name[flow.target].dataset.sink, map(str, graph.by_name[flow.target].members)
        if sink is None or format_of(sink.format) is None:
            return {}
        return waiting_places(self.record_file(flow).parent, str(flow.target), members)

    def _rebuilt(self, flow: ResolvedFlow, record: FlowRecord) -> str | None:
        """Why a stream cannot go on that has read tables which are others now; Spark ends it when it starts."""
        progress = read_progress(self.checkpoint(flow, record.epoch))
        for source, offset in zip(flow.analysis.sources, progress.offsets if progress else (), strict=False):
            if source.kind is not SourceKind.DATASET or offset is None:
                continue
            table = self.table(self._naming.canonical(source.detail))
            if table is not None and offset.get("reservoirId") != table.table_id:
                return f'"{source.detail}" was replaced since its last run; {read_anew(flow.target)}'
        return None

    def _news_of_stream(self, flow: ResolvedFlow, record: FlowRecord) -> NewInput:
        # One that was started in the future was started by a clock that was ahead.
        if not 0 <= self.now() - record.started_at <= LONGEST_REST_S:
            return NewInput(started=True, reason="runs at least once a week")
        if any(operator.has_timers for operator in flow.analysis.operators):
            return NewInput(started=True, reason="its state may have timers that are due")
        checkpoint = self.checkpoint(flow, record.epoch)
        progress = read_progress(checkpoint)
        pending = _pending(flow, progress)
        if pending:
            return NewInput(started=True, reason=pending)
        # Where nothing was ever planned, only a source that can be looked at tells whether something came since.
        offsets = (None,) * len(record.sources) if progress is None else progress.offsets
        sources = flow.analysis.sources
        known = record.sources
        same = len(known) == len(sources) and all(map(Source.is_same, sources, known))
        if not same or len(offsets) != len(sources):
            return NewInput(started=True, reason="its sources changed")
        for number, (source, offset) in enumerate(zip(sources, offsets, strict=True)):
            reason = self._news_of_source(source, offset, checkpoint, number)
            if reason:
                return NewInput(started=True, reason=reason)
        if record.running:
            return NewInput(started=True, reason="its last run was interrupted")
        return NewInput(started=False, reason="no new data in its sources")

    def _news_of_source(self, source: Source, offset: Any, checkpoint: Path, number: int) -> str | None:
        match source.kind:
            case SourceKind.DATASET:
                return _news_of_table(source, self.table(self._naming.canonical(source.detail)), offset)
            case SourceKind.FILES:
                return _news_of_files(source.detail, offset, checkpoint, number)
            case SourceKind.AUTO_LOADER:
                return news_of_auto_loader(LoaderSource.from_json(source.detail), offset, self.now)
            case SourceKind.OTHER:
                return f"must start to check {source.detail} for new data"


def has_closed_results(flow: ResolvedFlow, progress: Progress) -> bool:
    """True when the last batch of a stream has closed results that only a batch after it writes."""
    # One aggregation whose whole result is written each time has no results that a watermark would close.
    closes = flow.mode is Mode.APPEND or len(flow.analysis.operators) > 1
    return progress.completed and progress.watermark_moved and bool(flow.analysis.operators) and closes


def goes_by_clock(flow: ResolvedFlow) -> bool:
    """True for a stream that Spark would never end, because timers of its state may be due at any time."""
    return any(operator.goes_by_clock for operator in flow.analysis.operators)


def _news_of_view(
    graph: ResolvedGraph,
    flow: ResolvedFlow,
    record: FlowRecord,
    table_of: Callable[[QualifiedName], TableState | None],
) -> NewInput:
    if flow.mode is Mode.SNAPSHOT and record.running:
        return NewInput(started=True, reason="its last run was interrupted")
    if flow.analysis.unrepeatable:
        if flow.asks:
            return NewInput(started=True, reason=flow.analysis.unrepeatable)
        return NewInput(started=True, reason=f"full recompute: {flow.analysis.unrepeatable}")
    target = table_of(flow.target)
    if target is None or target.table_id != record.target_id:
        return NewInput(started=True, reason="its table was replaced since its last run")
    left = record.left.get(TABLE)
    if left is not None and target.version < left.version:
        return NewInput(started=True, reason="its table is older than its last result")
    for given in graph.stored_inputs(flow):
        table = table_of(given.name)
        reason = _news_of_input(str(given.name), table.path if table else "", table, record)
        if reason:
            return NewInput(started=True, reason=reason)
    for path in flow.analysis.external_tables:
        reason = _news_of_input(path, path, version_outside(path), record)
        if reason:
            return NewInput(started=True, reason=reason)
    return NewInput(started=False, reason="inputs, code and settings are unchanged")


def _news_of_input(name: str, path: str, now: TableState | TableVersion | None, record: FlowRecord) -> str | None:
    """What is new in a table that a view was computed from; None when nothing is."""
    known = record.inputs.get(name)
    if now is None or known is None:
        return f'"{name}" is a new input'
    if now.table_id != known.table_id or now.version < known.version:
        return f'"{name}" was replaced'
    return f'"{name}" changed' if data_changed(path, known.version + 1, now.version) else None


def _news_of_once(table: str, app_id: str) -> NewInput:
    if committed_transaction(table, app_id) is None:
        return NewInput(started=True, reason="once flow that has not run yet")
    return NewInput(started=False, reason="ran once")


def _news_of_table(source: Source, table: TableState | None, offset: Any) -> str | None:
    if table is None:
        return f'"{source.detail}" does not exist yet'
    if offset is None:
        return f'"{source.detail}" has rows' if data_changed(table.path, 0, table.version) else None
    version, index = int(offset["reservoirVersion"]), int(offset.get("index", 0))
    if index != BETWEEN_COMMITS:
        if not source.reads_feed or offset.get("isStartingVersion") or _has_more(table.path, version, index):
            return f'"{source.detail}" has unread rows'
        version += 1
    changed = data_changed(table.path, version, table.version)
    return f'"{source.detail}" has new rows' if changed else None


def _has_more(path: str, version: int, index: int) -> bool:
    """Whether a commit has changes behind a position in it; a change feed stays there when it has read the last one."""
    actions = commit_actions(path, version) or []
    kept = [action for action in actions if "cdc" in action]
    files = [action.get("add") or action.get("remove") or {} for action in actions]
    changes = kept or [file for file in files if file.get("dataChange")]
    return not actions or index < len(changes) - 1


def _pending(flow: ResolvedFlow, progress: Progress | None) -> str | None:
    """What Spark has still to do for batches that are planned, whether or not something is new."""
    if progress is None:
        return None
    if not progress.completed:
        return f"batch {progress.batch_id} is unfinished"
    return "its watermark closed results that are not written yet" if has_closed_results(flow, progress) else None


def _news_of_files(detail: str, offset: Any, checkpoint: Path, number: int) -> str | None:
    processed = -1 if offset is None else offset.get("logOffset")
    if processed != newest_listing(checkpoint, number):
        return "listed files are not processed yet"
    try:
        fresh = listed_files(detail) - files_seen(checkpoint, number)
    except OSError as error:
        return f'"{error.filename}" cannot be listed'
    return f"{len(fresh)} new file{'s' if len(fresh) > 1 else ''}" if fresh else None
