"""Swaps a stage in, under the lease and while no maintenance runs.

A file has all that the steps need: until it is gone, no update runs on tables of two stages. Every step can be
repeated, so that the next update, or the same command, finishes what a crash has interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.autoloader.ledger.places import LEDGERS
from headrace.autoloader.ledger.stored_ledgers import copy_ledgers
from headrace.autoloader.schemas.schema_store import adopt_schema
from headrace.checkpoints.restored import copy_behind
from headrace.delta_log.tables import TableVersion, committed_transaction, table_exists, table_version
from headrace.errors import PipelineError
from headrace.project.steps import Reached, no_step
from headrace.settings.settings import Settings
from headrace.spark.delta.contents import Contents, set_contents
from headrace.spark.delta.restore import empty_table
from headrace.spark.delta.transaction import delta_transaction
from headrace.storage.backfills import retire_backfills
from headrace.storage.flow_record import FlowRecord, read_record, write_record
from headrace.storage.flow_stores import tables_of
from headrace.storage.savepoints.pins import adopt_version
from headrace.storage.stages.manifest import FlowStep, FlowToSwap, Swap, TableStep, TableToSwap
from headrace.stores.copies import copy_tree, sync_folder
from headrace.stores.paths import StoragePath, relative_path, remove_tree, sorted_paths, storage_path

_RECORD = "flow.json"


class SwapSteps:
    """The steps of one swap.

    Args:
        swap: what to do.
        settings: the pipeline's.
        staged: those of the stage.
        session: opens the session.
        fence: returns while the lease is held; called before each change.
        code_digest: of the code that the flows ran with.
        reached: called at each step, for tests that crash there.
    """

    def __init__(
        self,
        swap: Swap,
        settings: Settings,
        staged: Settings,
        session: Callable[[], SparkSession],
        fence: Callable[[], None],
        code_digest: str,
        reached: Reached = no_step,
    ) -> None:
        self._swap, self._settings = swap, settings
        self._session, self._fence, self._reached = session, fence, reached
        self._code_digest = code_digest
        self._root, self._own_root = (storage_path(one.layout.root) for one in (settings, staged))
        # In each table that has been replaced.
        self._transaction = f"headrace:swap:{swap.id}"

    def run(self) -> None:
        """Do all steps."""
        for table in self._swap.tables:
            self._swap_table(table)
        for flow in self._swap.flows:
            if flow.table:
                self._record_batches(flow)
        versions = self._versions()
        self._adopt_auto_loader()
        for flow in self._swap.flows:
            self._fence()
            self._copy_checkpoint(flow, versions)
            self._reached("checkpoint copied")
        for flow in self._swap.flows:
            self._fence()
            self._write_record(flow, versions)
            self._reached("record written")

    def _swap_table(self, table: TableToSwap) -> None:
        path, own = (str(root / table.path) for root in (self._root, self._own_root))
        self._fence()
        match table.step:
            case TableStep.REPLACED:
                if committed_transaction(path, self._transaction) is not None:
                    return
                self._link(table, own, path)
                self._reached("files linked")
                self._fence()
                batches = {**(table.batches or {}), self._transaction: 0}
                set_contents(self._session(), path, Contents(own, table.version, batches))
            case TableStep.ADDED:
                _copy_table(self._own_root / table.path, self._root / table.path)
            case TableStep.EMPTIED:
                empty_table(self._session(), path)
        self._reached("table swapped")

    def _link(self, table: TableToSwap, own: str, path: str) -> None:
        try:
            adopt_version(own, table.version, path)
        except OSError as error:
            reason = f"its files cannot be taken: {error.strerror or type(error).__name__}"
            raise PipelineError("STAGE.TABLE", name=table.name, reason=reason) from error

    def _record_batches(self, flow: FlowToSwap) -> None:
        """Say in the table of a flow that is moved which batches of its new epoch it has."""
        path = str(self._root / flow.table)
        known = committed_transaction(path, flow.transaction)
        if known is None or known < flow.committed:
            self._fence()
            delta_transaction(self._session(), path).record({flow.transaction: flow.committed})
            self._reached("batches recorded")

    def _versions(self) -> Mapping[str, TableVersion]:
        """By the ids that positions in a replaced table can have, the table with the version of the swap."""
        found: dict[str, TableVersion] = {}
        for table in self._swap.tables:
            now = table_version(str(self._root / table.path))
            own = table_version(str(self._own_root / table.path))
            if table.step is TableStep.REPLACED and now is not None and own is not None:
                found |= dict.fromkeys((now.table_id, own.table_id), now)
        return found

    def _adopt_auto_loader(self) -> None:
        """Copy the ledgers and schemas of flows, and of the views that they read."""
        checkpoints = self._own_root / "checkpoints"
        # With a catalog, flows are a folder deeper.
        found = (folder for levels in ("*/*/*", "*/*/*/*") for folder in checkpoints.glob(f"{levels}/auto_loader/*"))
        for folder in sorted_paths(found):
            self._fence()
            target = self._root / str(relative_path(folder, self._own_root))
            copy_ledgers(folder / LEDGERS, target / LEDGERS)
            adopt_schema(folder, target)
            self._reached("ledgers copied")

    def _copy_checkpoint(self, flow: FlowToSwap, versions: Mapping[str, TableVersion]) -> None:
        if flow.step is FlowStep.CLEARED:
            return
        root = self._own_root if flow.step is FlowStep.STAGED else self._root
        copy_behind(root / flow.folder / str(flow.before), self._root / flow.folder / str(flow.epoch), versions)

    def _write_record(self, flow: FlowToSwap, versions: Mapping[str, TableVersion]) -> None:
        file = self._root / flow.folder / _RECORD
        known = read_record(file)
        if flow.step is FlowStep.STAGED:
            own = _readable(self._own_root / flow.folder / _RECORD)
            retire_backfills(file.parent, self._settings.naming.canonical)
            write_record(file, self._staged_record(flow, own, known or FlowRecord(), versions))
        elif known is not None and flow.step is FlowStep.MOVED:
            own_versions = self._own_versions(flow, known)
            write_record(file, replace(known, epoch=flow.epoch, running=False, table_versions=own_versions))
        elif known is not None and known.epoch != flow.epoch:
            retire_backfills(file.parent, self._settings.naming.canonical)
            write_record(file, known.cleared(flow.epoch, rows_lost=False))

    def _staged_record(
        self, flow: FlowToSwap, own: FlowRecord, known: FlowRecord, versions: Mapping[str, TableVersion]
    ) -> FlowRecord:
        target = versions.get(own.target_id)
        return replace(
            own,
            epoch=flow.epoch,
            running=False,
            former_names=known.former_names,
            pipeline=own.pipeline or known.pipeline,
            target_id=own.target_id if target is None else target.table_id,
            inputs={name: self._input(version, versions) for name, version in own.inputs.items()},
            table_versions=self._own_versions(flow, own),
            code=self._code_digest,
        )

    def _input(self, version: TableVersion, versions: Mapping[str, TableVersion]) -> TableVersion:
        """The version of an input that has the rows from which a view was computed."""
        now = versions.get(version.table_id)
        is_swapped = any(
            table.version == version.version and _table_id(self._own_root / table.path) == version.table_id
            for table in self._swap.tables
            if table.step is TableStep.REPLACED
        )
        return now if now is not None and is_swapped else version

    def _own_versions(self, flow: FlowToSwap, record: FlowRecord) -> Mapping[str, TableVersion]:
        """The versions of a flow's own tables, as far as its record has them."""
        naming = self._settings.naming
        tables = tables_of(self._settings.layout, naming, naming.canonical(flow.dataset))
        found = {role: table_version(tables[role]) for role in record.table_versions}
        return {role: version for role, version in found.items() if version is not None}


def _table_id(folder: StoragePath) -> str:
    """The id of a table; empty without one."""
    found = table_version(str(folder))
    return "" if found is None else found.table_id


def _readable(file: StoragePath) -> FlowRecord:
    record = read_record(file)
    if record is None or record.unreadable:
        reason = "it is missing" if record is None else record.unreadable
        raise PipelineError("STAGE.UNREADABLE", file=file, reason=reason)
    return record


def _copy_table(source: StoragePath, target: StoragePath) -> None:
    """Make a table of links to all files of another one; on a disk, it appears whole."""
    if not (isinstance(source, Path) and isinstance(target, Path)):
        # Nothing reads it before the swap is finished. Copied again, it is the same.
        copy_tree(source, target)
        return
    if table_exists(str(target)):
        return
    draft = target.with_name(f".{target.name}.swapping")
    remove_tree(draft)
    target.parent.mkdir(parents=True, exist_ok=True)
    copy_tree(source, draft)
    remove_tree(target)
    draft.rename(target)
    sync_folder(target.parent)
