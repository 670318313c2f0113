"""The paths of a stage: a storage of its own for some datasets, which reads the others from that of production."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.model.names import Naming, QualifiedName
from headrace.settings.storage import StorageLayout


@dataclass(frozen=True)
class StagedLayout(StorageLayout):
    """The layout of a stage.

    Attributes:
        production: the paths of the storage that has all other tables.
        datasets: the datasets that the stage has itself.
    """

    production: StorageLayout = field(default_factory=lambda: StorageLayout(""))
    datasets: frozenset[QualifiedName] = frozenset()

    def table(self, naming: Naming, name: QualifiedName) -> str:
        """The table of a dataset; that of production, unless the stage has its own."""
        return super().table(naming, name) if name in self.datasets else self.production.table(naming, name)


def outer_root(layout: StorageLayout) -> str:
    """The folder of all tables of a layout: its storage, or that of production, which has the stage in it."""
    return layout.production.root if isinstance(layout, StagedLayout) else layout.root
