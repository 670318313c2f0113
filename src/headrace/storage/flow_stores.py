"""Where the progress of a flow is known: its checkpoint, its record, the tables that it writes to, the event log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.delta_log.tables import TableVersion, table_version
from headrace.checkpoints.offsets import newest_epoch_begun
from headrace.storage.flow_record import FlowRecord
from headrace.checkpoints.initial_offsets import newest_seeded
from headrace.graph.resolved import Mode
from headrace.model.names import Naming, QualifiedName
from headrace.plan.agreement import NONE
from headrace.settings.storage import StorageLayout

TABLE, QUARANTINE, MEMORY = "table", "quarantine", "memory"


@dataclass(frozen=True)
class FlowStores:
    """Where the progress of a flow is known.

    Attributes:
        mode: how the flow runs.
        record: its own; a fresh one where it is lost.
        file: where the record lies.
        tables: that the flow writes to, each by what it is.
        transaction: under which its batches are committed, unless Delta's own sink does.
        logged: the newest epoch, and the newest batch in it, that the event log has of the flow; None for none.
        ran: whether record or event log tell that it has brought batches.
    """

    mode: Mode
    record: FlowRecord
    file: Path
    tables: Mapping[str, str]
    transaction: str
    logged: tuple[int, int] | None
    ran: bool

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of the record's epoch."""
        return self.file.parent / str(self.record.epoch)

    @property
    def place(self) -> Path:
        """What stands for the flow's positions: its checkpoint, or the record of one that has none."""
        return self.checkpoint if self.mode.streams else self.file

    @property
    def newest_epoch(self) -> int:
        """In which the flow has batches, by the event log or by its checkpoints; -1 for none."""
        return newest_epoch(self.file, self.logged)

    def left(self) -> dict[str, TableVersion]:
        """The versions of the tables as they are now, for the record of a flow that ends."""
        found = {name: table_version(path) for name, path in self.tables.items()}
        return {name: version for name, version in found.items() if version is not None}


def newest_epoch(file: Path, logged: tuple[int, int] | None) -> int:
    """The newest epoch in which a flow has batches; -1 for none.

    Args:
        file: its record, beside which its checkpoints lie.
        logged: the newest epoch and batch that the event log has of it.
    """
    begun = newest_epoch_begun(file.parent, newest_seeded)
    return max(begun, NONE if logged is None else logged[0])


def tables_of(layout: StorageLayout, naming: Naming, dataset: QualifiedName) -> dict[str, str]:
    """Where the tables lie that flows into a dataset write to, each by what it is."""
    return {
        TABLE: layout.table(naming, dataset),
        QUARANTINE: layout.quarantine(naming, dataset),
        MEMORY: layout.memory(naming, dataset),
    }
