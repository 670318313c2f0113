"""Restores a savepoint, under the lease and while no maintenance runs.

A file names the savepoint while it is being restored: until it is gone, no update runs on tables of two times. Every
step can be repeated, so that the next update, or the same command, finishes what a crash has interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.atomic_write import replace_file
from headrace.autoloader.ledger.positions import take_back_to
from headrace.checkpoints.offsets import read_progress
from headrace.checkpoints.restored import copy_behind
from headrace.delta_log.tables import TableVersion, newest_version, table_version
from headrace.errors import PipelineError
from headrace.project.savepoints.restore_plan import (
    FlowAction,
    FlowRestore,
    RestorePlan,
    TableRestore,
    source_exists,
)
from headrace.project.steps import Reached, no_step
from headrace.settings.settings import Settings
from headrace.spark.delta.restore import TableToRestore, empty_table, restore_tables
from headrace.storage.backfills import store_backfill, stored_backfills
from headrace.storage.flow_record import FlowRecord, next_epoch, read_record, write_record
from headrace.storage.flow_records import transaction_id
from headrace.storage.flow_stores import TABLE, tables_of
from headrace.storage.positions import ledger_folders
from headrace.storage.savepoints.pins import put_back
from headrace.storage.savepoints.stored import CHECKPOINT, FLOWS, PINS, RECORD, Savepoints
from headrace.stores.paths import StoragePath

# The client of a store repeats a request that fails, too.
_ATTEMPTS = 3


@dataclass(frozen=True)
class Unfinished:
    """A restore that has begun: of which savepoint, and of which datasets; all if empty."""

    savepoint: str
    datasets: tuple[str, ...]


def unfinished_restore(settings: Settings) -> Unfinished | None:
    """The restore that a crash has interrupted; None without one.

    Raises:
        PipelineError: SAVEPOINT.UNREADABLE; STORAGE.UNUSABLE if the store does not answer.
    """
    file = _file(settings)
    text = _read(file)
    try:
        document = None if text is None else json.loads(text)
        return None if document is None else Unfinished(document["savepoint"], tuple(document["datasets"]))
    except (ValueError, LookupError, TypeError) as error:
        raise PipelineError("SAVEPOINT.UNREADABLE", file=file, reason=type(error).__name__) from error


def _read(file: StoragePath) -> str | None:
    """The text of the file; None without one. This is an update's first request: a store in trouble is asked again."""
    for attempt in range(_ATTEMPTS):
        try:
            return file.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if attempt + 1 == _ATTEMPTS:
                reason = error.strerror or type(error).__name__
                raise PipelineError("STORAGE.UNUSABLE", path=file, reason=reason) from error
    return None


def begin_restore(settings: Settings, unfinished: Unfinished) -> None:
    """Record that a restore begins; from here on, only its end helps."""
    file = _file(settings)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, json.dumps({"savepoint": unfinished.savepoint, "datasets": unfinished.datasets}))


def end_restore(settings: Settings) -> None:
    """Record that a restore is finished."""
    _file(settings).unlink(missing_ok=True)


class Restore:
    """The steps of one restore.

    Args:
        settings: the pipeline's.
        plan: what to do; it has no problems.
        session: opens the session, if a table changes.
        fence: returns while the lease is held; called before each change.
        reached: called at each numbered step, for tests that crash there.
    """

    def __init__(
        self,
        settings: Settings,
        plan: RestorePlan,
        session: Callable[[], SparkSession],
        fence: Callable[[], None],
        reached: Reached = no_step,
    ) -> None:
        self._settings, self._plan, self._session, self._fence = settings, plan, session, fence
        self._reached = reached
        self._folder = Savepoints(settings.layout).folder(plan.savepoint)
        moving = [flow for flow in plan.flows if flow.action is not FlowAction.KEPT]
        self._epochs = {flow.file: self._next_epoch(flow) for flow in moving}
        self._flows = moving

    def run(self) -> None:
        """Do all steps."""
        changed = self._plan.changed_tables
        for table in changed:
            self._put_back(table)
        self._reached("files put back")
        batches = self._batches()
        paths = {table.path: table.saved.version for table in changed} | {
            path: newest_version(path) for path in batches if path not in {table.path for table in changed}
        }
        tables = [TableToRestore(path, version, batches.get(path, {})) for path, version in paths.items()]
        if tables:
            restore_tables(self._session(), tables, self._before)
        for path in dict.fromkeys(self._plan.newer):
            self._before("emptying a table")
            empty_table(self._session(), path)
        self._reached("tables restored")
        for flow in self._flows:
            if flow.action is FlowAction.BACK:
                self._fence()
                self._take_back_files(flow)
        self._reached("ledgers taken back")
        versions = {
            table_id: now
            for table in changed
            if (now := table_version(table.path)) is not None
            for table_id in table.ids
        }
        for flow in self._flows:
            self._fence()
            self._copy_checkpoint(flow, versions)
            self._reached("checkpoint copied")
        for flow in self._flows:
            self._fence()
            self._retire_backfills(flow)
            write_record(flow.file, self._record(flow, versions))
            self._reached("record written")

    def _before(self, step: str) -> None:
        self._reached(step)
        self._fence()

    def _put_back(self, table: TableRestore) -> None:
        if table.saved.pinned and table.missing:
            self._fence()
            put_back(Path(str(self._folder), PINS, table.saved.path), table.path)

    def _batches(self) -> Mapping[str, Mapping[str, int]]:
        """The batches that each restored table has, by its path and by the transactions of the new epochs."""
        found: dict[str, dict[str, int]] = {}
        paths = {table.saved.dataset: table.path for table in self._plan.tables if table.saved.role == TABLE}
        for flow in self._flows:
            if flow.action is FlowAction.BACK and flow.saved is not None and flow.saved.committed is not None:
                record = self._saved_record(flow)
                transaction = transaction_id(
                    record.pipeline or self._settings.id, record.identity, self._epochs[flow.file]
                )
                found.setdefault(paths[flow.saved.dataset], {})[transaction] = flow.saved.committed
        return found

    def _take_back_files(self, flow: FlowRestore) -> None:
        progress = read_progress(self._saved_checkpoint(flow))
        folders = ledger_folders(flow.file.parent)
        for offset in progress.offsets if progress is not None else ():
            if isinstance(offset, Mapping) and {"ledger", "number"} <= offset.keys():
                take_back_to(folders, offset, source_exists)

    def _copy_checkpoint(self, flow: FlowRestore, versions: Mapping[str, TableVersion]) -> None:
        if flow.action is FlowAction.STARTS_OVER:
            return
        copy_behind(self._source(flow), flow.file.parent / str(self._epochs[flow.file]), versions)

    def _record(self, flow: FlowRestore, versions: Mapping[str, TableVersion]) -> FlowRecord:
        epoch = self._epochs[flow.file]
        if flow.action is FlowAction.STARTS_OVER and flow.now is not None:
            record = flow.now.stored.record
            if any(table.saved.dataset == flow.dataset for table in self._plan.tables):
                # Its rows are gone with the restored table.
                return record.cleared(epoch, rows_lost=False)
            return replace(record, resetting=True, accepted=True)
        if flow.action is FlowAction.MOVED and flow.now is not None:
            return replace(flow.now.stored.record, epoch=epoch, running=False)
        record = self._saved_record(flow)
        is_there = flow.now is not None
        tables = tables_of(self._settings.layout, self._settings.naming, self._settings.naming.canonical(flow.dataset))
        known = {role: table_version(tables[role]) for role in record.table_versions}
        target = table_version(tables[TABLE])
        return replace(
            record,
            flow=flow.name if is_there else record.flow,
            dataset=flow.dataset if is_there else record.dataset,
            epoch=epoch,
            running=False,
            resetting=False,
            accepted=False,
            target_id=target.table_id if record.target_id and target is not None else record.target_id,
            inputs={name: _moved(version, self._plan.tables, versions) for name, version in record.inputs.items()},
            table_versions={role: version for role, version in known.items() if version is not None},
        )

    def _retire_backfills(self, flow: FlowRestore) -> None:
        folder = flow.file.parent
        for backfill in stored_backfills(folder, self._settings.naming.canonical) if flow.undone_backfills else ():
            if backfill.number in flow.undone_backfills:
                store_backfill(folder, replace(backfill, done=True, retired=True))

    def _next_epoch(self, flow: FlowRestore) -> int:
        saved = 0 if flow.saved is None else flow.saved.epoch
        record = FlowRecord() if flow.now is None else flow.now.stored.record
        return next_epoch(flow.file, replace(record, epoch=max(record.epoch, saved)))

    def _source(self, flow: FlowRestore) -> StoragePath:
        if flow.action is FlowAction.MOVED and flow.now is not None:
            return flow.now.stores.checkpoint
        return self._saved_checkpoint(flow)

    def _saved_checkpoint(self, flow: FlowRestore) -> StoragePath:
        return self._folder / FLOWS / _saved_folder(flow) / CHECKPOINT

    def _saved_record(self, flow: FlowRestore) -> FlowRecord:
        file = self._folder / FLOWS / _saved_folder(flow) / RECORD
        record = read_record(file)
        if record is None or record.unreadable:
            reason = "it is missing" if record is None else record.unreadable
            raise PipelineError("SAVEPOINT.UNREADABLE", file=file, reason=reason)
        return record


def _saved_folder(flow: FlowRestore) -> str:
    return "" if flow.saved is None else flow.saved.folder


def _moved(version: TableVersion, tables: Iterable[TableRestore], versions: Mapping[str, TableVersion]) -> TableVersion:
    """The version of an input that has the rows from which a view was computed."""
    saved = next((table.saved for table in tables if table.saved.table_id == version.table_id), None)
    return (
        versions.get(version.table_id, version) if saved is not None and saved.version == version.version else version
    )


def _file(settings: Settings) -> StoragePath:
    return Savepoints(settings.layout).restoring_file
