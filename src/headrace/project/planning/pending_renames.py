"""The renames that the settings ask for and the storage has not seen yet."""

from __future__ import annotations

from headrace.graph.resolved import ResolvedGraph
from headrace.model.location import Location
from headrace.model.names import InvalidName, Naming, QualifiedName
from headrace.plan.renames import Rename, RenameSettings, renames
from headrace.settings.settings import Settings
from headrace.storage.renaming import StoredRenames


def pending_renames(graph: ResolvedGraph, settings: Settings, stored: StoredRenames) -> tuple[Rename, ...]:
    """The pending renames of the settings.

    Raises:
        Problems: some cannot be applied.
    """
    # Datasets and flows that an update skips keep their old names until they are available again.
    datasets = {
        old: new for old, new in settings.renamed_datasets.items() if not _is_absent(graph, new, settings.naming)
    }
    unavailable_flows = {unavailable.name for unavailable in graph.unavailable}
    flows = {old: new for old, new in settings.renamed_flows.items() if new not in unavailable_flows}
    names = RenameSettings(datasets, flows)
    place = settings.locations.get("renames", Location(settings.file.name))
    return renames(names, graph, settings.naming, stored, place)


def old_names(settings: Settings) -> dict[QualifiedName, QualifiedName]:
    """The former name of each dataset that the settings rename, by its new one."""
    found = {}
    naming = settings.naming
    for old, new in settings.renamed_datasets.items():
        try:
            found[naming.canonical(new)] = naming.canonical(old)
        except InvalidName:
            # Reported with the other problems of a plan.
            continue
    return found


def _is_absent(graph: ResolvedGraph, name: str, naming: Naming) -> bool:
    try:
        canonical = naming.canonical(name)
    except InvalidName:
        return False
    return canonical in graph.unavailable_datasets
