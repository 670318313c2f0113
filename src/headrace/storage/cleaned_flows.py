"""Removes the state of a flow that left the code, and keeps what its table depends on.

The table still has the flow's rows. A later full refresh must know that they cannot be read again, a later backfill
must not repeat a number whose transaction is in the table, and no new flow may get the identity of this one. So the
flow's record, its backfills, the notes of its deliveries and the positions of its epochs stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.checkpoints.epochs import keep_positions, reason_to_keep
from headrace.delta_log.tables import committed_transaction
from headrace.model.names import Naming
from headrace.plan.backfills import Backfill
from headrace.settings.storage import StorageLayout
from headrace.storage.backfills import finished, store_backfill, stored_backfills
from headrace.storage.deliveries import last_delivered
from headrace.storage.flow_record import FlowRecord, read_record, write_record
from headrace.storage.flow_records import transaction_id
from headrace.storage.removal import Size, remove, size_of
from headrace.stores.paths import StoragePath, sorted_paths

_RECORD = "flow.json"
_KEPT = re.compile(r"flow\.json|loads|delivered-.*\.json|epoch-\d+\.json")


def size_of_state(folder: StoragePath, spared: frozenset[str]) -> Size:
    """The files in a flow's folder that :class:`StateRemoval` would remove, and their bytes.

    Args:
        folder: the flow's folder.
        spared: names in the folder that stay.
    """
    return sum(map(size_of, _removable(folder, spared)), Size())


@dataclass(frozen=True)
class StateRemoval:
    """Removes the state of flows whose tables stay.

    Attributes:
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
        pipeline_id: the id that the flows' transactions carry.
        removed: the folder in which files are deleted.
        check: returns while the lease is held; called before each change.
    """

    layout: StorageLayout
    naming: Naming
    pipeline_id: str
    removed: StoragePath
    check: Callable[[], None]

    def remove(self, dataset: str, folder: StoragePath, spared: frozenset[str]) -> None:
        """Remove the state of a flow, and mark its record as cleaned; safe to repeat after a crash.

        A checkpoint whose positions cannot be read stays. An interrupted backfill is closed, as no update finishes it.

        Args:
            dataset: the dataset of the flow.
            folder: the flow's folder.
            spared: names in the folder that stay, besides what the table depends on.
        """
        for entry in _removable(folder, spared):
            self.check()
            if entry.name.isdigit():
                keep_positions(entry)
            remove(entry, self.removed)
        record = read_record(folder / _RECORD)
        if record is None or record.unreadable:
            return
        for backfill in stored_backfills(folder, self.naming.canonical):
            if backfill.pending:
                self.check()
                # The rows of one that is not committed are in no table, so its range may be loaded again.
                done = self._is_committed(dataset, folder, record, backfill)
                store_backfill(folder, finished(backfill) if done else replace(backfill, retired=True))
        self.check()
        # Last: until then, the flow is listed as inactive, so that its removal can be repeated.
        write_record(folder / _RECORD, replace(record, cleaned=True))

    def _is_committed(self, dataset: str, folder: StoragePath, record: FlowRecord, backfill: Backfill) -> bool:
        """Whether the rows of a backfill are in the table, or a sink has noted that it has them."""
        if last_delivered(folder, backfill.epoch):
            return True
        transaction = transaction_id(
            record.pipeline or self.pipeline_id, record.identity or record.flow, backfill.epoch
        )
        table = self.layout.table(self.naming, self.naming.canonical(dataset))
        return committed_transaction(table, transaction) is not None


def _removable(folder: StoragePath, spared: frozenset[str]) -> list[StoragePath]:
    return [
        entry
        for entry in sorted_paths(folder.iterdir())
        if entry.name not in spared
        and not _KEPT.fullmatch(entry.name)
        and not (entry.name.isdigit() and reason_to_keep(entry))
    ]
