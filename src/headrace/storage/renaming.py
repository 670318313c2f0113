"""Carries state over to new names: every move is one rename of the file system.

What is moved last, the table, is what tells that a rename is not done. A crash leaves each piece under its old name or
its new one; pieces are found under either, and the next update moves the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.storage.inventory import StoredFlow, flows_of, stored_flows
from headrace.storage.flow_record import write_record
from headrace.model.names import Naming, QualifiedName
from headrace.plan.renames import Rename, Renamed
from headrace.settings.storage import StorageLayout, path_safe


@dataclass(frozen=True)
class RelocatedLayout(StorageLayout):
    """The layout in which what is not moved yet is where it still lies; *datasets* and *flows* lead from new to old."""

    datasets: Mapping[QualifiedName, QualifiedName] = field(default_factory=dict)
    flows_before: Mapping[str, str] = field(default_factory=dict)

    def table(self, naming: Naming, name: QualifiedName) -> str:
        """The Delta table of a dataset, under its old name while it lies there alone."""
        plain = StorageLayout(self.root)
        return self._where(plain.table(naming, old) for old in self._names(name))

    def quarantine(self, naming: Naming, name: QualifiedName) -> str:
        """The same for the rows that were set aside."""
        plain = StorageLayout(self.root)
        return self._where(plain.quarantine(naming, old) for old in self._names(name))

    def memory(self, naming: Naming, name: QualifiedName) -> str:
        """The same for the change events that the table cannot tell of."""
        plain = StorageLayout(self.root)
        return self._where(plain.memory(naming, old) for old in self._names(name))

    def view(self, naming: Naming, name: QualifiedName) -> str:
        """The same for the definition of a persisted view."""
        plain = StorageLayout(self.root)
        return self._where(plain.view(naming, old) for old in self._names(name))

    def flows(self, naming: Naming, dataset: QualifiedName) -> str:
        """The same for all flows of a dataset."""
        plain = StorageLayout(self.root)
        return self._where(plain.flows(naming, old) for old in self._names(dataset))

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
        return self._where(f"{folder}/{path_safe(name)}" for name in flows)

    def _names(self, name: QualifiedName) -> tuple[QualifiedName, ...]:
        return (name, self.datasets[name]) if name in self.datasets else (name,)

    def _where(self, places: Iterator[str]) -> str:
        first, *others = places
        return next((place for place in (first, *others) if Path(place).exists()), first)


@dataclass(frozen=True)
class NamesNow:
    """What stored things are called in the code: *datasets* and *flows* lead from old names to new ones."""

    datasets: Mapping[QualifiedName, QualifiedName] = field(default_factory=dict)
    flows: Mapping[str, str] = field(default_factory=dict)

    def of(self, flow: StoredFlow) -> tuple[QualifiedName, str]:
        """The dataset of a flow and its name, whether or not the storage has them under their old names still."""
        dataset = self.datasets.get(flow.dataset, flow.dataset)
        # A flow without a name of its own has its dataset's.
        own = {str(old): str(new) for old, new in self.datasets.items() if new == dataset}
        return dataset, self.flows.get(flow.name, own.get(flow.name, flow.name))


class StoredRenames:
    """What lies under old and new names in one pipeline's storage."""

    def __init__(self, layout: StorageLayout, naming: Naming) -> None:
        self._layout = layout
        self._naming = naming

    def pending(self, rename: Rename) -> bool:
        """True when something still lies under the old name."""
        return any(old.exists() for old, _ in self._moves(rename))

    def knows(self, flow: str) -> bool:
        """True when a flow of this name, of whatever dataset, has state."""
        return any(stored.name == flow for stored in stored_flows(self._layout, self._naming))

    def taken(self, rename: Rename) -> str | None:
        """What lies under the new name although its like lies under the old one too, or None."""
        return next((str(new) for old, new in self._moves(rename) if old.exists() and new.exists()), None)

    def carry_out(self, rename: Rename, moved: Callable[[], None]) -> None:
        """Move what still lies under the old name; safe to repeat after a crash.

        Args:
            rename: what to move.
            moved: called after each move.
        """
        self._sign(rename)
        for old, new in self._moves(rename):
            if old.exists():
                new.parent.mkdir(parents=True, exist_ok=True)
                old.rename(new)
                moved()

    def _moves(self, rename: Rename) -> Iterator[tuple[Path, Path]]:
        """From where to where, in the order in which it is done."""
        layout, naming, old, new = self._layout, self._naming, rename.before, rename.dataset
        if rename.what is Renamed.FLOW:
            # Its dataset may have a new name as well, and may have been moved or not.
            folder = Path(layout.flows(naming, new))
            folder = folder if folder.exists() else Path(layout.flows(naming, old))
            yield folder / path_safe(rename.old), folder / path_safe(rename.new)
            return
        flows = Path(layout.flows(naming, old))
        # A flow without a name of its own has its dataset's.
        yield flows / path_safe(str(old)), flows / path_safe(str(new))
        yield flows, Path(layout.flows(naming, new))
        yield Path(layout.view(naming, old)), Path(layout.view(naming, new))
        yield Path(layout.quarantine(naming, old)), Path(layout.quarantine(naming, new))
        yield Path(layout.memory(naming, old)), Path(layout.memory(naming, new))
        yield Path(layout.table(naming, old)), Path(layout.table(naming, new))

    def _sign(self, rename: Rename) -> None:
        """Let the records say under which names their flows are known, before these names change."""
        for dataset in (rename.before, rename.dataset):
            for flow in flows_of(self._layout, self._naming, dataset):
                record = flow.record
                if flow.name == rename.old:
                    record = replace(record, formerly={**record.formerly, rename.old: record.epoch})
                write_record(flow.file, record)
