"""The stores that know the progress of a flow: its checkpoint, its record, the tables it writes, the event log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.checkpoints.epochs import newest_started_epoch
from headrace.delta_log.tables import TableVersion, table_version
from headrace.graph.resolved_flows import Mode
from headrace.model.names import Naming, QualifiedName
from headrace.plan.agreement import NONE, Disagreement
from headrace.settings.storage import StorageLayout
from headrace.storage.adopted_tables import AdoptedTables
from headrace.storage.flow_record import FlowRecord
from headrace.stores.paths import StoragePath

TABLE, QUARANTINE, RETAINED_EVENTS = "table", "quarantine", "memory"


@dataclass(frozen=True)
class Adoption:
    """A table that was adopted or released, and why its flows must not write to it; None if they may."""

    problem: Disagreement | None


@dataclass(frozen=True)
class FlowStores:
    """The stores that know the progress of a flow.

    Attributes:
        mode: how the flow runs.
        record: the flow's record; a new one if it is lost.
        file: the path of the record.
        tables: the paths of the tables that the flow writes, by role.
        transaction: the application id of its commits, unless Delta's own sink made them, as in version 0.1.
        logged: the newest epoch and its newest batch that the event log has for the flow; None without any.
        has_run: whether the record or the event log shows batches of the flow.
        adoption: what is known of its table if that lies outside of the storage, or has left the pipeline.
    """

    mode: Mode
    record: FlowRecord
    file: StoragePath
    tables: Mapping[str, str]
    transaction: str
    logged: tuple[int, int] | None
    has_run: bool
    adoption: Adoption | None = None

    @property
    def checkpoint(self) -> StoragePath:
        """The checkpoint of the record's epoch."""
        return self.file.parent / str(self.record.epoch)

    @property
    def progress_path(self) -> StoragePath:
        """The path that holds the flow's positions: its checkpoint, or the record of a flow without one."""
        return self.checkpoint if self.mode.is_streaming else self.file

    @property
    def newest_epoch(self) -> int:
        """The newest epoch with batches, by event log or checkpoints; -1 for none."""
        return newest_epoch(self.file, self.logged)

    def table_versions(self) -> dict[str, TableVersion]:
        """The current versions of the tables, for the record of a flow that ends."""
        found = {name: table_version(path) for name, path in self.tables.items()}
        return {name: version for name, version in found.items() if version is not None}


def newest_epoch(file: StoragePath, logged: tuple[int, int] | None) -> int:
    """The newest epoch in which a flow has batches; -1 for none.

    Args:
        file: the flow's record, next to its checkpoints.
        logged: the newest epoch and batch that the event log has for it.
    """
    started = newest_started_epoch(file.parent)
    return max(started, NONE if logged is None else logged[0])


def adoption_of(layout: StorageLayout, naming: Naming, dataset: QualifiedName) -> Adoption | None:
    """What is known of the table of a dataset that was adopted or released; None for any other."""
    records, path = AdoptedTables(layout), layout.table(naming, dataset)
    record = records.of(str(dataset), path)
    return None if record is None else Adoption(records.problem_of(record, path))


def tables_of(layout: StorageLayout, naming: Naming, dataset: QualifiedName) -> dict[str, str]:
    """The paths of the tables that the flows of a dataset write, by role."""
    return {
        TABLE: layout.table(naming, dataset),
        QUARANTINE: layout.quarantine(naming, dataset),
        RETAINED_EVENTS: layout.cdc_state(naming, dataset),
    }
