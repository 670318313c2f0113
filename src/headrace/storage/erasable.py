"""The places of a storage that hold rows, and the flows that must read on before rows can be erased."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from headrace.checkpoints.offsets import Progress, read_progress
from headrace.delta_log.tables import TableState, TableVersion, commit_actions, has_data_changes, table_exists
from headrace.delta_log.unread_commits import BETWEEN_COMMITS
from headrace.model.erasure import PlaceKind
from headrace.model.names import QUARANTINE_SUFFIX, InvalidName, Naming, QualifiedName
from headrace.settings.storage import StorageLayout
from headrace.storage.backfills import stored_backfills
from headrace.storage.checkpoint_folders import CheckpointFolder, find_checkpoints
from headrace.storage.flow_record import write_record
from headrace.storage.inventory import StoredFlow, stored_flows, stored_tables
from headrace.storage.spill_queue import SpilledBatch, spilled_batches
from headrace.stores.paths import StoragePath, relative_path, sorted_paths, storage_path

_ROW = ("row",)
_KEY = ("key",)
_SCRIPTS = "_scripts"
# Before the first version, so that every change of the table is new to the flow.
_NEVER_READ = -1


@dataclass(frozen=True)
class DeltaPlace:
    """A Delta table with rows of a dataset; its columns are in the structs *prefixes*, or at the top for ()."""

    kind: PlaceKind
    dataset: QualifiedName
    path: str
    prefixes: tuple[tuple[str, ...], ...] = ((),)

    @property
    def name(self) -> str:
        """The name of the dataset."""
        return str(self.dataset)

    @property
    def table(self) -> str | None:
        """The name of the table, if queries can read it."""
        suffix = QUARANTINE_SUFFIX if self.kind is PlaceKind.QUARANTINE else ""
        return None if self.kind is PlaceKind.CHANGE_EVENTS else f"{self.dataset}{suffix}"


@dataclass(frozen=True)
class OpenFlow:
    """A flow, or the stream of a script, that has to read on, and why."""

    name: str
    reason: str


def delta_places(layout: StorageLayout, naming: Naming) -> tuple[DeltaPlace, ...]:
    """The tables of a storage, their quarantines and the retained events of change data capture."""
    fed = {flow.dataset for flow in stored_flows(layout, naming)}
    found = []
    for name, path in stored_tables(layout, naming):
        dataset = replace(name, name=name.name.removesuffix(QUARANTINE_SUFFIX))
        if name == dataset:
            found.append(DeltaPlace(PlaceKind.TABLE, name, path))
        elif name not in fed and dataset in fed:
            found.append(DeltaPlace(PlaceKind.QUARANTINE, dataset, path, (_ROW,)))
        else:
            # A table of a script, or a quarantine whose flow is gone.
            found.append(DeltaPlace(PlaceKind.TABLE, name, path, ((), _ROW)))
    return (*found, *_change_events(layout, naming))


def _change_events(layout: StorageLayout, naming: Naming) -> Iterator[DeltaPlace]:
    root = storage_path(layout.root) / "system" / "cdc"
    for log in (*sorted_paths(root.glob("*/*/_delta_log")), *sorted_paths(root.glob("*/*/*/_delta_log"))):
        folder = log.parent
        with suppress(InvalidName):
            dataset = naming.canonical(".".join(f"`{part}`" for part in relative_path(folder, root).parts))
            if table_exists(str(folder)):
                yield DeltaPlace(PlaceKind.CHANGE_EVENTS, dataset, str(folder), (_ROW, _KEY))


def waiting_batches(flow: StoredFlow) -> Iterator[tuple[SpilledBatch, bool]]:
    """The batches that wait for the sinks of a flow, each with whether its sink may already have a part of it."""
    for queue in sorted_paths((flow.file.parent / "waiting").glob("*")):
        for position, batch in enumerate(spilled_batches(queue)):
            # Only the first was ever sent.
            yield batch, position == 0


def open_flows(layout: StorageLayout, naming: Naming, tables: Mapping[str, TableState]) -> tuple[OpenFlow, ...]:
    """The flows and other streams that have not read everything of some tables, or have not finished a batch.

    What cannot be read counts as such. A stream that is behind would read the erased rows from old files, or fail once
    these are deleted.

    Args:
        layout: of the storage.
        naming: of the pipeline.
        tables: the tables, by name.
    """
    by_id = {table.table_id: (name, table) for name, table in tables.items()}
    flows = stored_flows(layout, naming)
    checkpoints = find_checkpoints(layout.root)
    found = [OpenFlow(flow.name, reason) for flow in flows if (reason := _reason_of(flow, naming, by_id))]
    for name, path in _of_no_flow(checkpoints.found, flows):
        if reason := _open_reason(_progress(path), by_id):
            found.append(OpenFlow(name, reason))
    found += (OpenFlow("unknown", f"{reason}, and may have checkpoints") for reason in checkpoints.unknown)
    return tuple(found)


def _reason_of(flow: StoredFlow, naming: Naming, tables: Mapping[str, tuple[str, TableState]]) -> str | None:
    if flow.record.unreadable:
        return f"its record {flow.file} cannot be read: {flow.record.unreadable}"
    if _has_pending_backfill(flow, naming):
        return "a backfill or a replay is unfinished"
    progress = _progress(flow.file.parent / str(flow.record.epoch))
    reason = _open_reason(progress, tables)
    # A batch that writes such a table would be written once more.
    writes = {name for name, _ in tables.values()}
    if reason is None and isinstance(progress, Progress) and not progress.completed and str(flow.dataset) in writes:
        reason = f"batch {progress.batch_id} is unfinished"
    return reason


def _of_no_flow(found: Iterable[CheckpointFolder], flows: Iterable[StoredFlow]) -> Iterator[tuple[str, StoragePath]]:
    """The checkpoints of scripts and of other streams, each with a name for people."""
    of_flows = {flow.file.parent.resolve() for flow in flows}
    for checkpoint in found:
        path = checkpoint.path
        if path.name.isdigit() and path.parent.resolve() in of_flows:
            continue
        if path.parent.parent.name == _SCRIPTS:
            yield f"script {path.parent.name}, {path.name}", path
        else:
            yield checkpoint.name, path


def _progress(checkpoint: StoragePath) -> Progress | str | None:
    """The newest batch of a checkpoint; a text says why it cannot be read."""
    try:
        progress = read_progress(checkpoint)
    except OSError as error:
        return f"its checkpoint cannot be read ({type(error).__name__})"
    if progress is not None and not progress.offsets:
        return f"batch {progress.batch_id} of its checkpoint cannot be read"
    return progress


def _has_pending_backfill(flow: StoredFlow, naming: Naming) -> bool:
    return any(not one.done and not one.retired for one in stored_backfills(flow.file.parent, naming.canonical))


def _open_reason(progress: Progress | str | None, tables: Mapping[str, tuple[str, TableState]]) -> str | None:
    if progress is None or isinstance(progress, str):
        return progress
    for offset in progress.offsets:
        table_id = offset.get("reservoirId", "") if isinstance(offset, dict) else ""
        if table_id not in tables:
            continue
        name, table = tables[table_id]
        if not progress.completed:
            return f'batch {progress.batch_id}, which reads "{name}", is unfinished'
        try:
            if is_unread(table.path, table.version, offset):
                return f'it has not read all of "{name}"'
        except (LookupError, TypeError, ValueError) as error:
            return f'its position in "{name}" cannot be read ({type(error).__name__})'
    return None


def is_unread(path: str, newest: int, offset: Mapping[str, Any]) -> bool:
    """Whether a stream at an offset of Delta's has something to read in the table at a path."""
    version, index = int(offset["reservoirVersion"]), int(offset.get("index", 0))
    if offset.get("isStartingVersion"):
        return True
    if index != BETWEEN_COMMITS:
        files = [
            file
            for action in commit_actions(path, version) or ()
            for kind, file in action.items()
            if kind in ("add", "remove", "cdc") and (kind == "cdc" or file.get("dataChange"))
        ]
        if not files or index < len(files) - 1:
            return True
        version += 1
    return has_data_changes(path, version, newest)


def recompute_later(layout: StorageLayout, naming: Naming, tables: Iterable[str]) -> tuple[str, ...]:
    """Make the next update recompute the datasets that are computed from some tables; returns their names.

    An erasing commit changes no data for streams, so it is not seen as a change of an input.

    Args:
        layout: of the storage.
        naming: of the pipeline.
        tables: names and paths of tables.
    """
    changed = set(tables)
    found: dict[str, None] = {}
    for flow in computed_from(layout, naming, changed):
        inputs = {
            name: TableVersion(known.table_id, _NEVER_READ) if name in changed else known
            for name, known in flow.record.inputs.items()
        }
        write_record(flow.file, replace(flow.record, inputs=inputs))
        found[str(flow.dataset)] = None
    return tuple(found)


def computed_from(layout: StorageLayout, naming: Naming, tables: Iterable[str]) -> tuple[StoredFlow, ...]:
    """The flows that compute a dataset from some tables, given by names and paths."""
    wanted = set(tables)
    return tuple(
        flow
        for flow in stored_flows(layout, naming)
        if not flow.record.unreadable and wanted & flow.record.inputs.keys()
    )


def stateful_flows(layout: StorageLayout, naming: Naming) -> tuple[str, ...]:
    """The flows with state in the checkpoint of an epoch."""
    flows = stored_flows(layout, naming)
    return tuple(flow.name for flow in flows if any(flow.file.parent.glob("*/state/*")))
