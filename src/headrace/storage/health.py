"""The health of a storage's flows, from checkpoints, records and tables alone, without the project's code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.autoloader.ledger.positions import offset_problem
from headrace.autoloader.ledger.stored_ledgers import has_ledger
from headrace.checkpoints.damage import move_damaged_file
from headrace.checkpoints.offsets import read_progress
from headrace.delta_log.tables import TableState, table_state
from headrace.errors import PipelineError
from headrace.graph.resolved_flows import Mode
from headrace.model.names import InvalidName, Naming
from headrace.options.nearest import did_you_mean
from headrace.plan.agreement import NONE, KnownBatches
from headrace.settings.storage import StorageLayout
from headrace.storage.agreement import batches_of, damage_of_stores, disagreement_of
from headrace.storage.flow_records import transaction_id
from headrace.storage.flow_stores import FlowStores, adoption_of, newest_epoch, tables_of
from headrace.storage.inventory import StoredFlow, stored_flows, stored_tables
from headrace.storage.positions import ledger_folders
from headrace.stores.paths import StoragePath, move_file

# The folder of damaged files, next to the checkpoints.
DAMAGED_FOLDER = "aside"


@dataclass(frozen=True)
class FlowHealth:
    """The health of a flow in the storage.

    Attributes:
        stored: the flow.
        stores: the stores that know its progress.
        batches: the newest batches that the stores know.
        problem: what keeps the flow from continuing; None when nothing does.
    """

    stored: StoredFlow
    stores: FlowStores
    batches: KnownBatches
    problem: PipelineError | None

    @property
    def has_checkpoint(self) -> bool:
        """Whether the flow has a checkpoint."""
        return self.stores.mode.is_streaming

    @property
    def has_numbered_batches(self) -> bool:
        """Whether its batches have numbers that the stores agree on; a materialized view has none."""
        return self.has_checkpoint or self.stores.mode is Mode.SNAPSHOT


def health_of_flows(
    layout: StorageLayout,
    naming: Naming,
    pipeline_id: str,
    logged: Mapping[tuple[str, str], tuple[int, int]],
) -> tuple[FlowHealth, ...]:
    """Every flow with a record, sorted by the record's path; omits flows whose state was removed.

    Args:
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
        pipeline_id: the id that the flows' transactions carry.
        logged: the newest epoch and batch that the event log has for each flow and dataset.
    """
    states = [table_state(path) for _, path in stored_tables(layout, naming)]
    tables = [state for state in states if state is not None]
    flows = [flow for flow in stored_flows(layout, naming) if not flow.record.cleaned]
    return tuple(_health(flow, _stores(flow, layout, naming, pipeline_id, logged), tables) for flow in flows)


def health_of_flow(
    flow: StoredFlow,
    layout: StorageLayout,
    naming: Naming,
    pipeline_id: str,
    logged: tuple[int, int] | None,
    tables: Iterable[TableState],
) -> FlowHealth:
    """The health of one flow.

    Args:
        flow: the flow.
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
        pipeline_id: the id that the flows' transactions carry.
        logged: the newest epoch and batch that the event log has for it; None for none.
        tables: the current states of the tables that it reads; others do no harm.
    """
    known = {} if logged is None else {(flow.name, str(flow.dataset)): logged}
    return _health(flow, _stores(flow, layout, naming, pipeline_id, known), tables)


def repair(flow: FlowHealth, stamp: str) -> list[StoragePath]:
    """Move all damaged files that can be spared out of a checkpoint; returns their new paths.

    Safe to repeat after a crash: each step is one rename, and the next call does the rest.

    Args:
        flow: the flow to repair.
        stamp: the name of the folder, next to the checkpoints, that gets the files.
    """
    stores, folder = flow.stores, flow.stored.file.parent / DAMAGED_FOLDER / stamp
    if stores.record.unreadable:
        folder.mkdir(parents=True, exist_ok=True)
        return [move_file(stores.file, folder / stores.file.name)]
    moved = []
    while (damage := damage_of_stores(stores)) is not None and damage.is_repairable:
        moved.append(move_damaged_file(damage, folder))
    return moved


def _health(flow: StoredFlow, stores: FlowStores, tables: Iterable[TableState]) -> FlowHealth:
    found = disagreement_of(stores, tables)
    problem = _problem_of_ledgers(stores)
    if found is not None:
        params: dict[str, Any] = {"flow": flow.name, "name": flow.dataset, "otherwise": "", **found.params}
        problem = PipelineError(found.code, **params)
    return FlowHealth(flow, stores, batches_of(stores), problem)


def _problem_of_ledgers(stores: FlowStores) -> PipelineError | None:
    """A disagreement between a flow's checkpoint and the Auto Loader ledgers that it reads."""
    progress = read_progress(stores.checkpoint) if stores.mode.is_streaming else None
    offsets = [one for one in (progress.offsets if progress else ()) if isinstance(one, Mapping) and "ledger" in one]
    folders = ledger_folders(stores.file.parent)
    for offset in offsets:
        found = next((one for one in folders if has_ledger(one, str(offset["ledger"]))), None)
        # Without any of its own, its ledger may be where only its code says.
        expected = found or next(iter(folders.own), None)
        problem = offset_problem(str(expected), offset) if expected is not None else None
        if problem is not None:
            return problem
    return None


def _stores(
    flow: StoredFlow,
    layout: StorageLayout,
    naming: Naming,
    pipeline_id: str,
    logged: Mapping[tuple[str, str], tuple[int, int]],
) -> FlowStores:
    record, known = flow.record, logged.get((flow.name, str(flow.dataset)))
    unknown = Mode.APPEND if newest_epoch(flow.file, known) != NONE else Mode.REPLACE
    return FlowStores(
        mode=Mode(record.mode) if record.mode else unknown,
        record=record,
        file=flow.file,
        tables=tables_of(layout, naming, flow.dataset),
        transaction=transaction_id(record.pipeline or pipeline_id, record.identity, record.epoch),
        logged=known,
        has_run=flow.has_run or known is not None,
        adoption=adoption_of(layout, naming, flow.dataset),
    )


def flows_named(flows: tuple[FlowHealth, ...], name: str, naming: Naming) -> tuple[FlowHealth, ...]:
    """The flows with a name, or else those of the dataset with that name.

    Raises:
        PipelineError: CHECKPOINTS.UNKNOWN.
    """
    found = tuple(flow for flow in flows if flow.stored.name == name)
    if not found:
        try:
            dataset = naming.canonical(name)
        except InvalidName:
            dataset = None
        found = tuple(flow for flow in flows if flow.stored.dataset == dataset)
    if not found:
        known = [flow.stored.name for flow in flows]
        raise PipelineError("CHECKPOINTS.UNKNOWN", flow=name, suggestion=did_you_mean(name, known))
    return found


def health_label(flow: FlowHealth) -> str:
    """The health of a flow in a word or two."""
    if flow.problem is not None:
        return flow.problem.code
    unfinished = flow.has_checkpoint and flow.batches.done < flow.batches.planned
    return "in a batch" if unfinished else "ok"


def batch_or_none(batch: int) -> int | None:
    """The number of a batch; None for none."""
    return None if batch == NONE else batch
