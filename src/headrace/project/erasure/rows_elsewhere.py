"""What keeps rows of a pipeline where an erasure does not look, and what the user can do about each."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.settings.storage import StorageLayout
from headrace.storage.adopted_tables import AdoptedTables, Handover
from headrace.storage.stages.stored import Stages
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath, sorted_paths, storage_path

# Where scripts keep tables that have a path, but no name.
_OF_SCRIPTS = ("dbfs", "unnamed")


def rows_elsewhere(layout: StorageLayout) -> Iterator[tuple[str, str]]:
    """The names of places that an erasure leaves as they are, each with the reason and what to do.

    They are tables that have left the pipeline, savepoints, stages, and tables that scripts wrote to a path.
    """
    for record in AdoptedTables(layout).all():
        if record.state is Handover.RELEASED:
            yield record.dataset, f"it has left the pipeline and lies at {record.location}"
    root = storage_path(layout.root)
    for savepoint in sorted_paths((root / "savepoints").glob("sp-*")):
        drop = f"headrace savepoint drop {savepoint.name}"
        yield f"savepoint {savepoint.name}", f"it keeps the files of then; remove it: {drop}"
    for stage in Stages(layout).all():
        yield f"stage {stage.name}", f"it has rows of its own; remove it: headrace stage drop {stage.name}"
    for folder in _OF_SCRIPTS:
        for log in _table_logs(root / folder):
            yield str(log.parent), "a script wrote it to a path; delete the rows in a script"


def _table_logs(folder: StoragePath) -> list[StoragePath]:
    """The logs of the Delta tables at any depth below a folder."""
    if isinstance(folder, ObjectPath):
        return sorted_paths({file.parent: file for file in folder.rglob("*.json") if file.parent.name == "_delta_log"})
    return sorted_paths(folder.rglob("_delta_log"))
