"""Moves stored state to new names; each move counts as a whole, or not at all.

The table moves last: a rename is pending while it has its old name. A crash leaves each piece under its old or new
name. Pieces are found under either, and the next update moves the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from headrace.model.names import Naming, QualifiedName
from headrace.plan.renames import Rename, RenameKind
from headrace.settings.storage import StorageLayout, path_safe
from headrace.storage.adopted_tables import AdoptedTables
from headrace.storage.flow_record import write_record
from headrace.storage.inventory import StoredFlow, flows_of, stored_flows
from headrace.storage.moves import Moves, has_content
from headrace.stores.paths import StoragePath, storage_path


@dataclass(frozen=True)
class RelocatedLayout(StorageLayout):
    """A layout that finds what is not moved yet under its old name; the mappings lead from new names to old ones."""

    datasets: Mapping[QualifiedName, QualifiedName] = field(default_factory=dict)
    flows_before: Mapping[str, str] = field(default_factory=dict)

    def table(self, naming: Naming, name: QualifiedName) -> str:
        """The Delta table of a dataset; under its old name until it is moved."""
        plain = StorageLayout(self.root)
        return self._existing_path(plain.table(naming, old) for old in self._names(name))

    def quarantine(self, naming: Naming, name: QualifiedName) -> str:
        """The same for the quarantine."""
        plain = StorageLayout(self.root)
        return self._existing_path(plain.quarantine(naming, old) for old in self._names(name))

    def cdc_state(self, naming: Naming, name: QualifiedName) -> str:
        """The same for the retained change events."""
        plain = StorageLayout(self.root)
        return self._existing_path(plain.cdc_state(naming, old) for old in self._names(name))

    def view(self, naming: Naming, name: QualifiedName) -> str:
        """The same for the definition of a persisted view."""
        plain = StorageLayout(self.root)
        return self._existing_path(plain.view(naming, old) for old in self._names(name))

    def flows(self, naming: Naming, dataset: QualifiedName) -> str:
        """The same for all flows of a dataset."""
        plain = StorageLayout(self.root)
        return self._existing_path(plain.flows(naming, old) for old in self._names(dataset))

    def checkpoint(self, naming: Naming, dataset: QualifiedName, flow: str, epoch: int) -> str:
        """The same for a checkpoint."""
        return f"{self._flow_folder(naming, dataset, flow)}/{epoch}"

    def flow_state(self, naming: Naming, dataset: QualifiedName, flow: str) -> str:
        """The same for a flow's record."""
        return f"{self._flow_folder(naming, dataset, flow)}/flow.json"

    def _flow_folder(self, naming: Naming, dataset: QualifiedName, flow: str) -> str:
        flows = [flow]
        flows += [self.flows_before[flow]] if flow in self.flows_before else []
        if flow == str(dataset) and dataset in self.datasets:
            flows.append(str(self.datasets[dataset]))
        folder = self.flows(naming, dataset)
        return self._existing_path(f"{folder}/{path_safe(name)}" for name in flows)

    def _names(self, name: QualifiedName) -> tuple[QualifiedName, ...]:
        return (name, self.datasets[name]) if name in self.datasets else (name,)

    def _existing_path(self, paths: Iterator[str]) -> str:
        first, *others = paths
        if not others:
            return first
        moves, new = Moves(storage_path(self.root)), storage_path(first)
        for old in others:
            current = moves.current(storage_path(old), new)
            if current is not new or has_content(new):
                return str(current)
        return first


@dataclass(frozen=True)
class CurrentNames:
    """The names in the code of what is stored: *datasets* and *flows* lead from old names to new ones."""

    datasets: Mapping[QualifiedName, QualifiedName] = field(default_factory=dict)
    flows: Mapping[str, str] = field(default_factory=dict)

    def of(self, flow: StoredFlow) -> tuple[QualifiedName, str]:
        """The current names of a flow's dataset and of the flow, which the storage may still have under old names."""
        dataset = self.datasets.get(flow.dataset, flow.dataset)
        # A flow without a name of its own has its dataset's.
        own = {str(old): str(new) for old, new in self.datasets.items() if new == dataset}
        return dataset, self.flows.get(flow.name, own.get(flow.name, flow.name))


class StoredRenames:
    """The pending renames of one pipeline's storage."""

    def __init__(self, layout: StorageLayout, naming: Naming) -> None:
        self._layout = layout
        self._naming = naming
        self._all_moves = Moves(storage_path(layout.root))

    def is_pending(self, rename: Rename) -> bool:
        """True when something still has the old name."""
        return any(has_content(old) for old, _ in self._moves(rename))

    def finish(self) -> None:
        """Delete what renames left that a crash has interrupted; only the holder of the lease may call this."""
        self._all_moves.finish()

    def has_flow(self, flow: str) -> bool:
        """True when a flow of this name has state, in any dataset."""
        return any(stored.name == flow for stored in stored_flows(self._layout, self._naming))

    def conflict(self, rename: Rename) -> str | None:
        """A path under the new name that blocks a move, because the old path exists too; or None."""
        return next((str(new) for old, new in self._moves(rename) if self._all_moves.is_blocked(old, new)), None)

    def apply(self, rename: Rename, moved: Callable[[], None]) -> None:
        """Move everything that still has the old name; safe to repeat after a crash.

        Args:
            rename: what to move.
            moved: called after each move.
        """
        self._sign(rename)
        for old, new in self._moves(rename):
            if self._all_moves.move(old, new):
                moved()

    def _moves(self, rename: Rename) -> Iterator[tuple[StoragePath, StoragePath]]:
        """Old and new paths, in the order of the moves."""
        layout, naming, old, new = self._layout, self._naming, rename.old_dataset, rename.dataset
        if rename.kind is RenameKind.FLOW:
            # Its dataset may have a new name as well, and may have been moved or not.
            flows = storage_path(layout.flows(naming, old))
            folder = self._all_moves.current(flows, storage_path(layout.flows(naming, new)))
            yield folder / path_safe(rename.old), folder / path_safe(rename.new)
            return
        flows = storage_path(layout.flows(naming, old))
        # A flow without a name of its own has its dataset's.
        yield flows / path_safe(str(old)), flows / path_safe(str(new))
        yield flows, storage_path(layout.flows(naming, new))
        yield storage_path(layout.view(naming, old)), storage_path(layout.view(naming, new))
        yield storage_path(layout.quarantine(naming, old)), storage_path(layout.quarantine(naming, new))
        yield storage_path(layout.cdc_state(naming, old)), storage_path(layout.cdc_state(naming, new))
        yield storage_path(layout.table(naming, old)), storage_path(layout.table(naming, new))

    def _sign(self, rename: Rename) -> None:
        """Store the current names in the records of flows, and of an adopted table, before the names change."""
        if rename.kind is RenameKind.DATASET:
            AdoptedTables(self._layout).rename(str(rename.old_dataset), str(rename.dataset))
        for dataset in (rename.old_dataset, rename.dataset):
            for flow in flows_of(self._layout, self._naming, dataset):
                record = flow.record
                if flow.name == rename.old:
                    record = replace(record, former_names={**record.former_names, rename.old: record.epoch})
                write_record(flow.file, record)
