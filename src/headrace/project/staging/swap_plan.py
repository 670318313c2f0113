"""What a swap would do, and why it is not possible; read without Spark and without the project's code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from headrace.checkpoints.offsets import read_progress
from headrace.delta_log.table_files import is_outside, live_files
from headrace.delta_log.table_layout import table_layout
from headrace.delta_log.tables import TableState, table_state
from headrace.errors import PipelineError
from headrace.graph.new_tables import maps_names
from headrace.graph.resolved_flows import Mode
from headrace.plan.agreement import NONE
from headrace.project.staging.same_input import input_difference
from headrace.settings.settings import Settings
from headrace.storage.backfills import stored_backfills
from headrace.storage.dead_letter_tables import dead_letter_table
from headrace.storage.flow_record import FlowRecord, next_epoch
from headrace.storage.flow_records import transaction_id
from headrace.storage.flow_stores import QUARANTINE, RETAINED_EVENTS, TABLE, tables_of
from headrace.storage.health import FlowHealth
from headrace.storage.input_changes import has_unread_rows
from headrace.storage.stages.manifest import FlowStep, FlowToSwap, Stage, StagedFlow, Swap, TableStep, TableToSwap
from headrace.storage.table_positions import read_positions
from headrace.stores.paths import relative_path, storage_path

# Features of tables that number rows.
_NUMBERING = frozenset({"rowtracking", "identitycolumns"})
_ROLES = {TABLE: "", QUARANTINE: ", quarantine", RETAINED_EVENTS: ", changes"}


@dataclass(frozen=True)
class TableChange:
    """How a swap changes a table, for the reader; versions and rows are None if they are unknown."""

    name: str
    step: TableStep
    version: int | None
    staged_version: int | None
    rows: int | None
    staged_rows: int | None


@dataclass(frozen=True)
class SwapPlan:
    """What a swap would do.

    Attributes:
        swap: the steps.
        changes: of tables, for the reader.
        problems: why it is not possible.
        losses: rows that streams below would miss, or get again, in sentences.
        notes: what happens besides, in sentences.
    """

    swap: Swap
    changes: tuple[TableChange, ...]
    problems: tuple[PipelineError, ...] = ()
    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def plan_swap(
    stage: Stage, settings: Settings, staged: Settings, flows: Sequence[FlowHealth], own: Sequence[FlowHealth]
) -> SwapPlan:
    """What a swap of a stage does.

    Args:
        stage: the stage.
        settings: the pipeline's.
        staged: those of the stage.
        flows: the flows of production, healthy or not.
        own: the flows of the stage.
    """
    return _Comparison(stage, settings, staged, flows, own).plan()


class _Comparison:
    """Compares a stage with production."""

    def __init__(
        self, stage: Stage, settings: Settings, staged: Settings, flows: Sequence[FlowHealth], own: Sequence[FlowHealth]
    ) -> None:
        self._stage, self._settings, self._staged = stage, settings, staged
        self._root, self._own_root = (storage_path(one.layout.root) for one in (settings, staged))
        self._names = frozenset(map(settings.naming.canonical, stage.datasets))
        self._into = [flow for flow in flows if flow.stored.dataset in self._names]
        self._others = [flow for flow in flows if flow.stored.dataset not in self._names]
        self._own = {str(relative_path(flow.stored.file.parent, self._own_root)): flow for flow in own}
        self._tables = {
            name: (
                table_state(settings.layout.table(settings.naming, name)),
                table_state(staged.layout.table(settings.naming, name)),
            )
            for name in sorted(self._names)
        }
        # The tables that are replaced, by their ids in production; and by those in the stage.
        pairs = [(now, own) for now, own in self._tables.values() if now is not None and own is not None]
        self._replaced = {now.table_id: now for now, _ in pairs}
        self._pairs = {own.table_id: now.table_id for now, own in pairs}

    def plan(self) -> SwapPlan:
        readers = [flow for flow in self._others if _ids(flow) & self._replaced.keys()]
        problems = [*self._problems_of_tables(), *self._problems_of_flows(), *self._problems_of_readers(readers)]
        tables, changes = [], []
        for table, change in self._table_steps():
            tables.append(table)
            changes.append(change)
        flows = (*self._staged_flows(), *self._cleared_flows(), *map(self._moved_flow, readers))
        swap = Swap(uuid4().hex, self._stage.name, tuple(tables), flows)
        return SwapPlan(
            swap, tuple(changes), tuple(problems), tuple(self._losses(readers)), tuple(self._notes(readers))
        )

    def _problems_of_tables(self) -> Iterator[PipelineError]:
        for name, (now, own) in self._tables.items():
            if own is None:
                yield PipelineError("STAGE.NOT_BUILT", stage=self._stage.name, name=name)
            elif now is None:
                yield PipelineError("STAGE.NOT_DEPLOYED", name=name)
            elif features := sorted(_NUMBERING & (table_layout(now.path).features | table_layout(own.path).features)):
                reason = f"one of the two tables has {', '.join(features)}, and its numbers could be used twice"
                yield PipelineError("STAGE.TABLE", name=name, reason=reason)
            elif maps_names(now.properties) and not maps_names(own.properties):
                reason = "it has column mapping, which Delta cannot take away, and the staged table does not have it"
                yield PipelineError("STAGE.TABLE", name=name, reason=reason)
            elif any(is_outside(file.path) for file in live_files(own.path, own.version)):
                yield PipelineError("STAGE.TABLE", name=name, reason="the staged table has files outside of its folder")

    def _problems_of_flows(self) -> Iterator[PipelineError]:
        """What has changed in production since, and what the stage has not finished."""
        records = {str(relative_path(flow.stored.file.parent, self._root)): flow for flow in self._into}
        for then in self._stage.flows:
            flow, own = records.get(then.folder), self._own.get(then.folder)
            changed = _changed(then, None if flow is None else flow.stored.record)
            if changed:
                yield PipelineError("STAGE.PRODUCTION_CHANGED", flow=then.name, reason=changed, stage=self._stage.name)
            reason = "it has not run" if own is None or not own.stored.has_run else self._unfinished(own)
            if reason:
                yield PipelineError("STAGE.UNFINISHED", flow=then.name, reason=reason, stage=self._stage.name)
        for flow in self._into:
            backfills = stored_backfills(flow.stored.file.parent, self._settings.naming.canonical)
            if any(one.pending for one in backfills):
                reason = "its backfill or replay is not finished"
                yield PipelineError("STAGE.READER_BEHIND", flow=flow.stored.name, reason=reason)

    def _unfinished(self, flow: FlowHealth) -> str:
        if flow.problem is not None:
            return f"it cannot continue ({flow.problem.code})"
        if flow.stored.record.resetting:
            return "its reset is not finished"
        if flow.stored.record.running and not flow.has_checkpoint:
            return "its last run was interrupted"
        own = {state.table_id: state for _, state in self._tables.values() if state is not None}
        return _open_batch(flow) or _unread(flow, own)

    def _problems_of_readers(self, readers: Iterable[FlowHealth]) -> Iterator[PipelineError]:
        for flow in readers:
            reason = "" if flow.problem is None else f"it cannot continue ({flow.problem.code})"
            if flow.stores.mode is Mode.SNAPSHOT:
                reason = "it reads the versions of a table as snapshots, and would take the swap for one"
            reason = reason or _open_batch(flow) or _unread(flow, self._replaced)
            if reason:
                yield PipelineError("STAGE.READER_BEHIND", flow=flow.stored.name, reason=reason)

    def _table_steps(self) -> Iterator[tuple[TableToSwap, TableChange]]:
        for name in sorted(self._names):
            tables = tables_of(self._settings.layout, self._settings.naming, name)
            own = tables_of(self._staged.layout, self._settings.naming, name)
            flows = [flow for flow in self._own.values() if flow.stored.dataset == name]
            for role, path in tables.items():
                batches = {} if role != TABLE else dict(filter(None, map(self._batch, flows)))
                yield from self._table_step(f"{name}{_ROLES[role]}", path, own[role], batches)
        for folder in sorted({*self._own, *(self._folder(flow) for flow in self._into)}):
            letters, own_letters = (dead_letter_table(root / folder) for root in (self._root, self._own_root))
            yield from self._table_step(f"{folder.rpartition('/')[2]}, dead letters", letters, own_letters, {})

    def _table_step(
        self, name: str, path: str, own_path: str, batches: Mapping[str, int]
    ) -> Iterator[tuple[TableToSwap, TableChange]]:
        now, own = table_state(path), table_state(own_path)
        if now is None and own is None:
            return
        step = TableStep.EMPTIED if own is None else TableStep.ADDED if now is None else TableStep.REPLACED
        place = str(relative_path(storage_path(path), self._root))
        version = -1 if own is None else own.version
        yield (
            TableToSwap(name, place, step, version, batches),
            TableChange(
                name,
                step,
                None if now is None else now.version,
                None if own is None else own.version,
                _rows(now),
                _rows(own),
            ),
        )

    def _batch(self, flow: FlowHealth) -> tuple[str, int] | None:
        return _committed(flow, self._settings.id, flow.stored.record.epoch)

    def _staged_flows(self) -> Iterator[FlowToSwap]:
        for folder, flow in self._own.items():
            epoch = flow.stored.record.epoch
            name, dataset = flow.stored.name, str(flow.stored.dataset)
            yield FlowToSwap(name, dataset, folder, FlowStep.STAGED, epoch, epoch)

    def _cleared_flows(self) -> Iterator[FlowToSwap]:
        """Flows of production that the code of the stage does not have: their rows are gone."""
        for flow in self._into:
            folder, record = self._folder(flow), flow.stored.record
            if folder not in self._own:
                epoch = next_epoch(flow.stored.file, record)
                yield FlowToSwap(
                    flow.stored.name, str(flow.stored.dataset), folder, FlowStep.CLEARED, record.epoch, epoch
                )

    def _moved_flow(self, flow: FlowHealth) -> FlowToSwap:
        record = flow.stored.record
        epoch = next_epoch(flow.stored.file, record)
        found = FlowToSwap(
            flow.stored.name, str(flow.stored.dataset), self._folder(flow), FlowStep.MOVED, record.epoch, epoch
        )
        batch, path = _committed(flow, self._settings.id, epoch), flow.stores.tables[TABLE]
        if batch is None or table_state(path) is None:
            return found
        transaction, committed = batch
        table = str(relative_path(storage_path(path), self._root))
        return replace(found, transaction=transaction, committed=committed, table=table)

    def _losses(self, readers: Sequence[FlowHealth]) -> Iterator[str]:
        """Where streams that are moved behind the swap would miss rows, or get rows again."""
        read = frozenset().union(*map(_ids, readers)) & self._replaced.keys()
        known = {state.table_id: state for state in filter(None, (table_state(p) for p in self._paths_of_production()))}
        above = self._upstream(read)
        for flow in self._into:
            own = self._own.get(self._folder(flow))
            table_id = next((i for i, s in self._replaced.items() if s.path == flow.stores.tables[TABLE]), "")
            if own is None or table_id not in above:
                continue
            difference = input_difference(flow, own, self._pairs, known)
            if difference is not None:
                below = ", ".join(sorted({str(reader.stored.dataset) for reader in readers}))
                yield f'flow "{flow.stored.name}" has not read the same in the stage: {difference}; below it: {below}'

    def _upstream(self, table_ids: frozenset[str]) -> frozenset[str]:
        """The replaced tables from which others of them get their rows, with these."""
        writes = {state.path: table_id for table_id, state in self._replaced.items()}
        found, known = set(table_ids), -1
        while known != len(found):
            known = len(found)
            for flow in self._into:
                if writes.get(flow.stores.tables[TABLE]) in found:
                    found |= _ids(flow) & self._replaced.keys()
        return frozenset(found)

    def _paths_of_production(self) -> Iterator[str]:
        for flow in (*self._into, *self._others):
            yield flow.stores.tables[TABLE]

    def _notes(self, readers: Iterable[FlowHealth]) -> Iterator[str]:
        for flow in readers:
            yield f'"{flow.stored.dataset}" keeps its rows, which are computed from the old rows'
        ours = {f"{self._folder(flow)}/".removeprefix("checkpoints/") for flow in (*self._into, *self._others)}
        for position in read_positions(self._settings.layout.root).known:
            if position.table_id in self._replaced and not any(f"{position.reader}/".startswith(one) for one in ours):
                yield f"the stream with the checkpoint {position.reader} is not of the pipeline, and has to start again"
        yield from self._stage.left_out

    def _folder(self, flow: FlowHealth) -> str:
        return str(relative_path(flow.stored.file.parent, self._root))


def _ids(flow: FlowHealth) -> frozenset[str]:
    """The ids of the tables that a flow reads as a stream, or as snapshots."""
    record = flow.stored.record
    found = {table.table_id for table in record.inputs.values()} if flow.stores.mode is Mode.SNAPSHOT else set()
    progress = read_progress(flow.stores.checkpoint) if flow.has_checkpoint else None
    offsets = progress.offsets if progress is not None else ()
    found |= {str(one["reservoirId"]) for one in offsets if isinstance(one, Mapping) and "reservoirId" in one}
    return frozenset(found)


def _committed(flow: FlowHealth, pipeline: str, epoch: int) -> tuple[str, int] | None:
    """The transaction of a flow's commits in an epoch, and the newest batch that its table has; None for none."""
    committed, record = flow.batches.committed, flow.stored.record
    if committed in (None, NONE):
        return None
    return transaction_id(record.pipeline or pipeline, record.identity, epoch), committed


def _changed(then: StagedFlow, now: FlowRecord | None) -> str:
    """What has happened in production since a stage was made."""
    if now is None:
        return "it is gone from production" if then.production_epoch != NONE else ""
    if then.production_epoch == NONE:
        return "it has run in production"
    if now.epoch != then.production_epoch:
        return "it was reset or restored in production"
    return "it has run other code in production" if now.fingerprint != then.production_fingerprint else ""


def _open_batch(flow: FlowHealth) -> str:
    progress = read_progress(flow.stores.checkpoint) if flow.has_checkpoint else None
    return "" if progress is None or progress.completed else f"its batch {progress.batch_id} is not finished"


def _unread(flow: FlowHealth, tables: Mapping[str, TableState]) -> str:
    progress = read_progress(flow.stores.checkpoint) if flow.has_checkpoint else None
    for offset in progress.offsets if progress is not None else ():
        table = tables.get(str(offset.get("reservoirId"))) if isinstance(offset, Mapping) else None
        if table is not None and has_unread_rows(table.path, table.version, offset):
            return f"it has not read all rows of the table at {table.path}"
    return ""


def _rows(state: TableState | None) -> int | None:
    if state is None:
        return None
    files = live_files(state.path, state.version)
    if any(file.rows is None for file in files):
        return None
    return sum((file.rows or 0) - file.deleted_rows for file in files)
