"""What a restore would do, and what it could not do; read without Spark, and nothing is written."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from headrace.autoloader.ledger.positions import lost_since
from headrace.checkpoints.offsets import files_seen, read_progress
from headrace.delta_log.table_files import missing_files
from headrace.delta_log.tables import TableState, commit_actions, open_table, table_state
from headrace.errors import PipelineError
from headrace.graph.resolved_flows import Mode
from headrace.model.names import InvalidName, Naming
from headrace.project.savepoints.adopted import adoption_problems
from headrace.settings.storage import StorageLayout
from headrace.storage.backfills import stored_backfills
from headrace.storage.dead_letter_tables import dead_letter_table
from headrace.storage.flow_stores import TABLE
from headrace.storage.health import FlowHealth
from headrace.storage.input_changes import has_unread_rows
from headrace.storage.positions import ledger_folders
from headrace.storage.savepoints.manifest import SavedFlow, SavedTable, Savepoint
from headrace.storage.savepoints.pins import pinned_files, version_files
from headrace.storage.savepoints.stored import CHECKPOINT, FLOWS, PINS, Savepoints
from headrace.stores.paths import StoragePath, relative_path, storage_path


class FlowAction(str, Enum):
    """What a restore does with a flow."""

    KEPT = "stays as it is"
    BACK = "goes back"
    MOVED = "reads on behind the restore"
    STARTS_OVER = "starts over"


@dataclass(frozen=True)
class TableRestore:
    """What a restore does with a table.

    Attributes:
        saved: the table as it was.
        path: where it is now.
        version: its version now; None if it is gone, and the savepoint has its files.
        missing: files of the saved version that are gone, and that the savepoint has.
        table_id: its id now, which a full refresh changes; empty if it is gone.
    """

    saved: SavedTable
    path: str
    version: int | None
    missing: int = 0
    table_id: str = ""

    @property
    def is_unchanged(self) -> bool:
        """Whether it has the saved version."""
        return self.version == self.saved.version and not self.missing

    @property
    def ids(self) -> frozenset[str]:
        """The ids that positions of streams in it can have."""
        return frozenset({self.saved.table_id, self.table_id} - {""})


@dataclass(frozen=True)
class FlowRestore:
    """What a restore does with a flow.

    Attributes:
        name: its name now.
        dataset: the dataset that it writes to now.
        action: what happens to it.
        saved: the flow as it was; None if the savepoint does not have it.
        file: its record.
        now: the flow as it is; None if the storage no longer has it.
        undone_backfills: the numbers of backfills and replays that are undone.
    """

    name: str
    dataset: str
    action: FlowAction
    saved: SavedFlow | None
    file: StoragePath
    now: FlowHealth | None
    undone_backfills: tuple[int, ...] = ()


@dataclass(frozen=True)
class RestorePlan:
    """What a restore would do.

    Attributes:
        savepoint: the savepoint.
        tables: the tables that belong to it.
        flows: the flows that it changes, and those that it leaves.
        problems: why it is not possible.
        losses: rows that would be lost, in sentences.
        notes: what it cannot undo, in sentences.
        newer: the paths of quarantines, dead letters and retained events that are newer than it, and are emptied.
    """

    savepoint: Savepoint
    tables: tuple[TableRestore, ...]
    flows: tuple[FlowRestore, ...]
    problems: tuple[PipelineError, ...] = ()
    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()

    @property
    def changed_tables(self) -> tuple[TableRestore, ...]:
        """The tables that go back."""
        return tuple(table for table in self.tables if not table.is_unchanged)

    @property
    def is_needed(self) -> bool:
        """Whether anything changes."""
        return bool(self.changed_tables) or any(flow.action is not FlowAction.KEPT for flow in self.flows)


def plan_restore(
    savepoint: Savepoint,
    flows: Sequence[FlowHealth],
    layout: StorageLayout,
    naming: Naming,
    datasets: Collection[str] = (),
) -> RestorePlan:
    """What a restore of a savepoint does.

    Args:
        savepoint: the savepoint.
        flows: the flows of the storage, healthy or not.
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
        datasets: what to restore, with all that streams read from there; everything if empty.

    Raises:
        PipelineError: SAVEPOINT.NOT_IN_IT.
    """
    return _Look(savepoint, flows, layout, naming).plan(datasets)


class _Look:
    """Compares a savepoint with the storage."""

    def __init__(
        self, savepoint: Savepoint, flows: Sequence[FlowHealth], layout: StorageLayout, naming: Naming
    ) -> None:
        self._savepoint, self._flows, self._naming = savepoint, flows, naming
        self._layout, self._root = layout, storage_path(layout.root)
        self._folder = Savepoints(layout).folder(savepoint)
        self._states = dict(_tables_now(flows))
        self._now = {saved: self._flow_now(saved) for saved in savepoint.flows}

    def plan(self, wanted: Collection[str]) -> RestorePlan:
        datasets = self._with_readers(self._named(wanted)) if wanted else None
        problems: list[PipelineError] = []
        tables = []
        for saved in self._savepoint.tables:
            if datasets is None or saved.dataset in datasets:
                try:
                    tables.append(self._table(saved))
                except PipelineError as error:
                    problems.append(error)
        changed = {table_id: table for table in tables if not table.is_unchanged for table_id in table.ids}
        flows = tuple(self._restores(datasets, changed))
        problems += self._problems(flows, changed)
        cleared = [table.saved.dataset for table in changed.values()]
        cleared += [flow.dataset for flow in flows if flow.action is FlowAction.STARTS_OVER]
        problems += adoption_problems(self._layout, self._naming, cleared, self._savepoint.id)
        losses = [loss for flow in flows for loss in self._losses(flow)]
        newer = tuple(self._newer(flows, {table.path for table in tables}))
        emptied = (f"{path} is newer than the savepoint, and is emptied" for path in dict.fromkeys(newer))
        notes = (*_notes(flows), *emptied)
        return RestorePlan(self._savepoint, tuple(tables), flows, tuple(problems), tuple(losses), notes, newer)

    def _newer(self, flows: Iterable[FlowRestore], saved: Collection[str]) -> Iterator[str]:
        """What flows that go back have written beside their tables, into tables that the savepoint does not have."""
        found = (flow.now for flow in flows if flow.action is FlowAction.BACK and flow.now is not None)
        for flow in found:
            beside = [path for role, path in flow.stores.tables.items() if role != TABLE]
            for path in (*beside, dead_letter_table(flow.stored.file.parent)):
                if path in self._states and path not in saved:
                    yield path

    def _named(self, wanted: Collection[str]) -> set[str]:
        known = {table.dataset for table in self._savepoint.tables}
        found = set()
        for name in wanted:
            try:
                dataset = str(self._naming.canonical(name))
            except InvalidName:
                dataset = name
            if dataset not in known:
                raise PipelineError("SAVEPOINT.NOT_IN_IT", name=name, savepoint=self._savepoint.label)
            found.add(dataset)
        return found

    def _with_readers(self, datasets: set[str]) -> set[str]:
        """The datasets, and all that streams write from their tables."""
        found = set(datasets)
        while True:
            ids = self._ids_of(found)
            readers = {
                str(flow.stored.dataset) for flow in self._flows if not _is_sink(flow) and ids & self._read(flow)
            }
            readers |= {
                saved.dataset for saved in self._savepoint.flows if not saved.is_sink and ids & self._read_then(saved)
            }
            if readers <= found:
                return found
            found |= readers

    def _ids_of(self, datasets: Collection[str]) -> set[str]:
        """The ids that the tables of datasets have, and had."""
        saved = [table for table in self._savepoint.tables if table.dataset in datasets]
        paths = {str(self._root / table.path) for table in saved}
        now = {state.table_id for path, state in self._states.items() if path in paths}
        return {table.table_id for table in saved} | now

    def _read(self, flow: FlowHealth) -> set[str]:
        """The ids of the tables that a flow reads as a stream or as a snapshot."""
        found = _ids(flow.stores.checkpoint) if flow.has_checkpoint else set()
        if flow.stores.mode is Mode.SNAPSHOT:
            found |= {table.table_id for table in flow.stored.record.inputs.values()}
        return found

    def _read_then(self, saved: SavedFlow) -> set[str]:
        return _ids(self._folder / FLOWS / saved.folder / CHECKPOINT)

    def _flow_now(self, saved: SavedFlow) -> FlowHealth | None:
        """The flow of the storage that is a saved one, which may have been renamed since."""
        same = [flow for flow in self._flows if flow.stored.record.identity == saved.identity]
        ids = self._ids_of([saved.dataset])
        for flow in same:
            if str(relative_path(flow.stored.file.parent, self._root)) == saved.folder:
                return flow
        for flow in same:
            state = self._states.get(flow.stores.tables[TABLE])
            if state is not None and state.table_id in ids:
                return flow
        return None

    def _table(self, saved: SavedTable) -> TableRestore:
        path = next(
            (path for path, state in self._states.items() if state.table_id == saved.table_id),
            str(self._root / saved.path),
        )
        state = self._states.get(path) or table_state(path)
        pins = Path(str(self._folder), PINS, saved.path)
        if state is None and not saved.pinned:
            raise PipelineError("SAVEPOINT.TABLE_GONE", name=saved.name, path=path, reason="the table does not exist")
        if state is not None and state.table_id != saved.table_id and not _was(path, saved):
            raise PipelineError("SAVEPOINT.TABLE_REPLACED", name=saved.name, path=path)
        if state is None:
            return TableRestore(saved, path, None, sum(1 for _ in pinned_files(pins)))
        if saved.pinned:
            missing = sum(1 for name in pinned_files(pins) if not os.path.lexists(f"{path}/{name}"))
            if state.version == saved.version:
                # Delta has cleaned up its log, and the version is still there.
                missing = sum(1 for name in pinned_files(pins) if _is_lost_data(path, name))
            return TableRestore(saved, path, state.version, missing, state.table_id)
        return TableRestore(saved, path, state.version, _check_unpinned(saved, path), state.table_id)

    def _restores(self, datasets: Collection[str] | None, changed: Mapping[str, TableRestore]) -> Iterator[FlowRestore]:
        matched = set()
        for saved, now in self._now.items():
            if now is not None:
                matched.add(now.stored.file)
            if saved.is_sink or (datasets is not None and saved.dataset not in datasets):
                continue
            yield self._back(saved, now, changed)
        for flow in self._flows:
            dataset = str(flow.stored.dataset)
            if _is_sink(flow):
                if self._read(flow) & changed.keys():
                    yield FlowRestore(flow.stored.name, dataset, FlowAction.MOVED, None, flow.stored.file, flow)
            elif flow.stored.file not in matched and (datasets is None or dataset in datasets):
                yield FlowRestore(flow.stored.name, dataset, FlowAction.STARTS_OVER, None, flow.stored.file, flow)

    def _back(self, saved: SavedFlow, now: FlowHealth | None, changed: Mapping[str, TableRestore]) -> FlowRestore:
        if now is None:
            file = self._root / saved.folder / "flow.json"
            return FlowRestore(saved.name, saved.dataset, FlowAction.BACK, saved, file, None)
        undone = tuple(
            backfill.number
            for backfill in stored_backfills(now.stored.file.parent, self._naming.canonical)
            if backfill.number not in saved.backfills and not backfill.retired
        )
        record = now.stored.record
        ids = self._ids_of([saved.dataset])
        is_same = (
            record.epoch == saved.epoch
            and not record.resetting
            and not undone
            and now.problem is None
            and (not now.has_numbered_batches or now.batches.planned == now.batches.done == _number(saved.batch))
            and not changed.keys() & (self._read(now) | ids)
        )
        action = FlowAction.KEPT if is_same else FlowAction.BACK
        name, dataset = now.stored.name, str(now.stored.dataset)
        return FlowRestore(name, dataset, action, saved, now.stored.file, now, undone)

    def _problems(self, flows: Iterable[FlowRestore], changed: Mapping[str, TableRestore]) -> Iterator[PipelineError]:
        """Sinks that have not had all rows of the savepoint, which their moved positions would skip."""
        for flow in flows:
            if flow.action is not FlowAction.MOVED or flow.now is None:
                continue
            progress = read_progress(flow.now.stores.checkpoint)
            if progress is None:
                continue
            behind = [
                changed[str(offset["reservoirId"])].saved.name
                for offset in progress.offsets
                if isinstance(offset, Mapping)
                and str(offset.get("reservoirId")) in changed
                and has_unread_rows(
                    changed[str(offset["reservoirId"])].path, changed[str(offset["reservoirId"])].saved.version, offset
                )
            ]
            if behind or not progress.completed:
                yield PipelineError("SAVEPOINT.SINK_BEHIND", flow=flow.name, tables=", ".join(behind) or "its batch")

    def _losses(self, flow: FlowRestore) -> Iterator[str]:
        """What a flow could not read again."""
        if flow.action is not FlowAction.BACK or flow.saved is None:
            return
        checkpoint = self._folder / FLOWS / flow.saved.folder / CHECKPOINT
        progress = read_progress(checkpoint)
        for number, offset in enumerate(progress.offsets if progress is not None else ()):
            if not isinstance(offset, Mapping):
                continue
            if {"ledger", "number"} <= offset.keys():
                yield from _lost_of_ledger(flow, offset)
            elif offset.keys() == {"logOffset"} and flow.now is not None and flow.now.has_checkpoint:
                yield from _lost_files(flow.name, checkpoint, flow.now.stores.checkpoint, number)
            elif "reservoirId" in offset:
                yield from self._lost_commits(flow.name, offset)

    def _lost_commits(self, flow: str, offset: Mapping[str, Any]) -> Iterator[str]:
        """Commits of a table that is not restored, which the flow would read again, and of which files are gone."""
        table_id, first = str(offset["reservoirId"]), int(offset["reservoirVersion"])
        path, state = next(
            ((path, state) for path, state in self._states.items() if state.table_id == table_id), (None, None)
        )
        is_restored = any(table.table_id == table_id for table in self._savepoint.tables)
        if path is None or state is None or is_restored:
            return
        for version in range(first, state.version + 1):
            actions = commit_actions(path, version)
            adds = [action["add"] for action in actions or () if "add" in action]
            if actions is None or any(not (storage_path(path) / add["path"]).exists() for add in adds):
                yield f'flow "{flow}" cannot read version {version} of {path} again: files are gone'
                return


def _tables_now(flows: Iterable[FlowHealth]) -> Iterator[tuple[str, TableState]]:
    seen = set()
    for flow in flows:
        for path in (*flow.stores.tables.values(), dead_letter_table(flow.stored.file.parent)):
            if path not in seen:
                seen.add(path)
                state = table_state(path)
                if state is not None:
                    yield path, state


def _is_sink(flow: FlowHealth) -> bool:
    return table_state(flow.stores.tables[TABLE]) is None


def _ids(checkpoint: StoragePath) -> set[str]:
    """The ids of the tables that a stream reads."""
    progress = read_progress(checkpoint)
    offsets = progress.offsets if progress is not None else ()
    return {str(offset["reservoirId"]) for offset in offsets if isinstance(offset, Mapping) and "reservoirId" in offset}


def _number(batch: int | None) -> int:
    return -1 if batch is None else batch


def _check_unpinned(saved: SavedTable, path: str) -> int:
    """Check that the table still has its version; returns 0."""
    try:
        wanted = version_files(path, saved.version)
    except PipelineError as error:
        raise PipelineError(
            "SAVEPOINT.TABLE_GONE", name=saved.name, path=path, reason=f"version {saved.version}: {error.detail}"
        ) from error
    lost = next(iter(missing_files(path, wanted)), None)
    if lost is not None:
        reason = f"file {lost} of version {saved.version} was deleted, as VACUUM does"
        raise PipelineError("SAVEPOINT.TABLE_GONE", name=saved.name, path=path, reason=reason)
    return 0


def _was(path: str, saved: SavedTable) -> bool:
    """Whether the log at a path has the saved version: a full refresh gives a table another id."""
    try:
        then = open_table(path, saved.version)
    except PipelineError:
        return False
    return then is not None and str(then.metadata().id) == saved.table_id


def _is_lost_data(path: str, name: str) -> bool:
    return not name.startswith("_delta_log/") and not os.path.lexists(f"{path}/{name}")


def _lost_of_ledger(flow: FlowRestore, offset: Mapping[str, Any]) -> Iterator[str]:
    lost = lost_since(ledger_folders(flow.file.parent), offset, source_exists)
    if lost is None:
        yield f'flow "{flow.name}" cannot tell which files it has read: its ledger {offset["ledger"]} is gone'
    elif lost:
        more = "" if len(lost) == 1 else f" and {len(lost) - 1} more"
        yield f'flow "{flow.name}" cannot read {lost[0]}{more} again: gone since'


def _lost_files(flow: str, then: StoragePath, now: StoragePath, source: int) -> Iterator[str]:
    lost = [file for file in sorted(files_seen(now, source) - files_seen(then, source)) if not source_exists(file)]
    if lost:
        more = "" if len(lost) == 1 else f" and {len(lost) - 1} more"
        yield f'flow "{flow}" cannot read {lost[0]}{more} again: the file is gone'


def source_exists(file: str) -> bool:
    """Whether a source file exists; of a file that is not on this machine, that is assumed."""
    return "://" in file or os.path.exists(file)  # noqa: PTH110 - thousands of files


def _notes(flows: Iterable[FlowRestore]) -> Iterator[str]:
    for flow in flows:
        if flow.action is FlowAction.MOVED:
            yield (
                f'"{flow.dataset}" keeps what flow "{flow.name}" has delivered, and gets the rows after the savepoint'
                " again"
            )
        for number in flow.undone_backfills:
            yield f'backfill or replay {number} of flow "{flow.name}" is undone; run it again'
