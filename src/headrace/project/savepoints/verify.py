"""Checks whether a savepoint can still be restored, file by file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from headrace.checkpoints.damage import find_damage
from headrace.errors import PipelineError
from headrace.plan.agreement import NONE
from headrace.project.savepoints.restore_plan import RestorePlan
from headrace.settings.storage import StorageLayout
from headrace.storage.flow_record import read_record
from headrace.storage.removal import size_of
from headrace.storage.savepoints.manifest import SavedFlow, SavedTable
from headrace.storage.savepoints.pins import pinned_files
from headrace.storage.savepoints.stored import CHECKPOINT, FLOWS, PINS, RECORD, Savepoints
from headrace.stores.paths import StoragePath


def findings(plan: RestorePlan, layout: StorageLayout) -> tuple[PipelineError, ...]:
    """Why a savepoint cannot be restored, or not completely; empty if it can.

    Args:
        plan: what its restore would do now.
        layout: the paths in the storage.
    """
    folder = Savepoints(layout).folder(plan.savepoint)
    found = [*plan.problems]
    for flow in plan.savepoint.flows:
        found += (_damaged(folder, reason) for reason in _of_flow(flow, folder))
    for table in plan.savepoint.tables:
        found += (_damaged(folder, reason) for reason in _of_table(table, folder))
    found += (PipelineError("SAVEPOINT.LOSES", savepoint=plan.savepoint.label, loss=loss) for loss in plan.losses)
    return tuple(found)


def _damaged(folder: StoragePath, reason: str) -> PipelineError:
    return PipelineError("SAVEPOINT.DAMAGED", folder=folder, reason=reason)


def _of_flow(flow: SavedFlow, savepoint: StoragePath) -> Iterator[str]:
    folder = savepoint / FLOWS / flow.folder
    record = read_record(folder / RECORD)
    if record is None:
        yield f'the record of flow "{flow.name}" is missing'
    elif record.unreadable:
        yield f'the record of flow "{flow.name}" cannot be read: {record.unreadable}'
    if not flow.files:
        return
    checkpoint = folder / CHECKPOINT
    damage = find_damage(checkpoint, NONE if flow.batch is None else flow.batch)
    if damage is not None:
        yield f"{damage.file}: {damage.reason}"
    size = size_of(checkpoint)
    if (size.files, size.size_bytes) != (flow.files, flow.size_bytes):
        yield (
            f'the checkpoint of flow "{flow.name}" has {size.files} files of {size.size_bytes} bytes, and had'
            f" {flow.files} of {flow.size_bytes}"
        )


def _of_table(table: SavedTable, savepoint: StoragePath) -> Iterator[str]:
    if not table.pinned:
        return
    folder = Path(str(savepoint), PINS, table.path)
    data = [name for name in pinned_files(folder) if not name.startswith("_delta_log")]
    size = sum(os.lstat(f"{folder}/{name}").st_size for name in data if name.endswith(".parquet"))
    if size != table.size_bytes:
        yield f'the files of "{table.name}" have {size} bytes, and had {table.size_bytes}'
