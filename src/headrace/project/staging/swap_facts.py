"""What a stage and production have, side by side, as far as a swap has to know it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from headrace.checkpoints.offsets import read_progress
from headrace.delta_log.tables import TableState, table_state
from headrace.graph.resolved_flows import Mode
from headrace.model.names import QualifiedName
from headrace.settings.settings import Settings
from headrace.storage.flow_stores import TABLE
from headrace.storage.health import FlowHealth
from headrace.storage.stages.manifest import Stage
from headrace.stores.paths import StoragePath, relative_path, storage_path


@dataclass(frozen=True)
class SwapFacts:
    """A stage, and the production that it is to be swapped into.

    Attributes:
        stage: the stage.
        settings: the pipeline's.
        staged: those of the stage.
        production: the flows of production, healthy or not.
        own: the flows of the stage.
    """

    stage: Stage
    settings: Settings
    staged: Settings
    production: Sequence[FlowHealth]
    own: Sequence[FlowHealth]

    @cached_property
    def root(self) -> StoragePath:
        """The storage of production."""
        return storage_path(self.settings.layout.root)

    @cached_property
    def own_root(self) -> StoragePath:
        """The storage of the stage."""
        return storage_path(self.staged.layout.root)

    @cached_property
    def into(self) -> tuple[FlowHealth, ...]:
        """The flows of production that write to datasets of the stage."""
        return tuple(flow for flow in self.production if flow.stored.dataset in self.staged.staged)

    @cached_property
    def by_folder(self) -> Mapping[str, FlowHealth]:
        """The flows of the stage by the folder of their record, relative to either storage."""
        return {str(relative_path(flow.stored.file.parent, self.own_root)): flow for flow in self.own}

    @cached_property
    def tables(self) -> Mapping[QualifiedName, tuple[TableState | None, TableState | None]]:
        """The table of each dataset in production and in the stage."""
        naming = self.settings.naming
        layouts = (self.settings.layout, self.staged.layout)
        return {
            name: (table_state(layouts[0].table(naming, name)), table_state(layouts[1].table(naming, name)))
            for name in sorted(self.staged.staged)
        }

    @cached_property
    def replaced(self) -> Mapping[str, TableState]:
        """The tables of production that are replaced, by their ids."""
        return {now.table_id: now for now, own in self.tables.values() if now is not None and own is not None}

    @cached_property
    def pairs(self) -> Mapping[str, str]:
        """By the id of each table of the stage, the id of the table that it replaces."""
        return {own.table_id: now.table_id for now, own in self.tables.values() if now is not None and own is not None}

    @cached_property
    def readers(self) -> tuple[FlowHealth, ...]:
        """The flows of other datasets that read a replaced table as a stream, or its versions as snapshots."""
        others = (flow for flow in self.production if flow.stored.dataset not in self.staged.staged)
        return tuple(flow for flow in others if tables_read(flow) & self.replaced.keys())

    def upstream(self, table_ids: frozenset[str]) -> frozenset[str]:
        """These replaced tables, and those from which they get their rows."""
        writes = {state.path: table_id for table_id, state in self.replaced.items()}
        found, known = set(table_ids), -1
        while known != len(found):
            known = len(found)
            for flow in self.into:
                if writes.get(flow.stores.tables[TABLE]) in found:
                    found |= tables_read(flow) & self.replaced.keys()
        return frozenset(found)

    def folder(self, flow: FlowHealth) -> str:
        """The folder of the record of a flow of production, relative to the storage."""
        return str(relative_path(flow.stored.file.parent, self.root))


def tables_read(flow: FlowHealth) -> frozenset[str]:
    """The ids of the tables that a flow reads as a stream, or as snapshots."""
    record = flow.stored.record
    found = {table.table_id for table in record.inputs.values()} if flow.stores.mode is Mode.SNAPSHOT else set()
    progress = read_progress(flow.stores.checkpoint) if flow.has_checkpoint else None
    offsets = progress.offsets if progress is not None else ()
    found |= {str(one["reservoirId"]) for one in offsets if isinstance(one, Mapping) and "reservoirId" in one}
    return frozenset(found)
