"""The parts of the storage that belong to a dataset or a flow which the code no longer defines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module

from headrace.delta_log.tables import count_rows, open_table_log, table_exists
from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import ViewFlow
from headrace.model.names import Naming, QualifiedName
from headrace.plan.inactive import Inactive
from headrace.settings.storage import StorageLayout
from headrace.storage.cleaned_flows import size_of_state
from headrace.storage.old_epochs import OldPart, PartKind
from headrace.storage.removal import Size, size_of
from headrace.storage.spill_queue import all_spilled_batches
from headrace.stores.paths import StoragePath, sorted_paths, storage_path


def inactive_parts(
    entry: Inactive, layout: StorageLayout, naming: Naming, used: frozenset[StoragePath]
) -> tuple[OldPart, ...]:
    """What the storage has of an inactive dataset, flow or view, in the order in which it is to be removed.

    The table comes last: while it exists, the dataset is listed as inactive, so that a removal that a crash interrupted
    can be repeated. If only a flow left, what its table depends on stays.

    Args:
        entry: what left the code.
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
        used: what the code uses, which stays; see :func:`paths_in_use`.
    """
    parts = _parts(entry, layout, naming)
    found = (_part(entry, kind, path, used) for kind, path in parts if path.exists() and path not in used)
    return tuple(part for part in found if part.size.files or not part.spared)


def paths_in_use(graph: ResolvedGraph, layout: StorageLayout, naming: Naming) -> frozenset[StoragePath]:
    """What the flows and views of the code have among the folders of flows, also those that cannot be resolved now.

    A dataset that was a table may have become a sink, or a view, which stores what Auto Loader knows.
    """
    flows = [(flow.target, flow.name, isinstance(flow, ViewFlow)) for flow in graph.flows]
    flows += [(flow.target, flow.name, flow.dataset.kind.is_view) for flow in graph.unavailable]
    loaders = ((storage_path(layout.auto_loader(naming, target, name)), is_view) for target, name, is_view in flows)
    return frozenset(loader if is_view else loader.parent for loader, is_view in loaders)


def check_none_below(
    parts: Iterable[OldPart], name: str, others: Iterable[QualifiedName], layout: StorageLayout, naming: Naming
) -> None:
    """Check that no part contains a part of another dataset, such as table ``b`` of a schema in the folder of a table.

    Args:
        parts: what is to be removed.
        name: of what is to be removed.
        others: the other datasets of the code and of the storage.
        layout: the paths in the storage.
        naming: resolves names to qualified ones.

    Raises:
        PipelineError: CHECKPOINTS.CONTAINS_OTHERS.
    """
    doomed = {part.path for part in parts}
    for other in others:
        for text in (layout.table(naming, other), layout.flows(naming, other), layout.cdc_state(naming, other)):
            path = storage_path(text)
            outer = next((folder for folder in (path, *path.parents) if folder in doomed), None)
            if outer is not None:
                raise PipelineError("CHECKPOINTS.CONTAINS_OTHERS", name=name, other=str(other), folder=outer)


def rows_lost_with(parts: tuple[OldPart, ...]) -> tuple[str, ...]:
    """What would be lost with these parts and may be nowhere else, in words; empty if they have no rows."""
    return tuple(text for part in parts for text in _rows_in(part))


def _parts(entry: Inactive, layout: StorageLayout, naming: Naming) -> Iterator[tuple[PartKind, StoragePath]]:
    if entry.view:
        yield PartKind.VIEW, storage_path(entry.path)
        return
    if entry.flow is not None:
        yield PartKind.STATE, storage_path(entry.path)
        return
    name = naming.canonical(entry.dataset)
    flows = storage_path(layout.flows(naming, name))
    for flow in sorted_paths(flows.glob("*")):
        yield PartKind.FLOW, flow
    yield PartKind.CHANGES, storage_path(layout.cdc_state(naming, name))
    yield PartKind.QUARANTINE, storage_path(layout.quarantine(naming, name))
    yield PartKind.TABLE, storage_path(entry.path)


def _part(entry: Inactive, kind: PartKind, path: StoragePath, used: frozenset[StoragePath]) -> OldPart:
    spared = frozenset(one.name for one in used if one.parent == path and one.exists())
    if kind is PartKind.STATE:
        size = size_of_state(path, spared)
    elif spared:
        size = sum((size_of(one) for one in path.iterdir() if one.name not in spared), Size())
    else:
        size = size_of(path)
    return OldPart(entry.dataset, entry.flow or "", kind, path, size, spared=spared)


def _rows_in(part: OldPart) -> Iterator[str]:
    if part.kind in (PartKind.TABLE, PartKind.QUARANTINE):
        what = "row" if part.kind is PartKind.TABLE else "quarantined row"
        rows = _count(str(part.path))
        if rows is None:
            yield f"an unknown number of {what}s"
        elif rows:
            yield f"{rows} {what}{'' if rows == 1 else 's'}"
    if part.kind in (PartKind.FLOW, PartKind.STATE):
        yield from _undelivered(part.path)


def _undelivered(flow: StoragePath) -> Iterator[str]:
    # Imported by name: it takes longer than a scrape, and few parts are asked for what they hold.
    read_dead_letters = import_module("headrace.storage.dead_letters").read_dead_letters
    waiting = len(all_spilled_batches(flow))
    if waiting:
        yield f"{waiting} batch{'' if waiting == 1 else 'es'} waiting for a sink"
    try:
        letters = len(read_dead_letters(flow)) + len(read_dead_letters(flow, from_sinks=True))
    except PipelineError:
        yield "an unknown number of dead letters"
        return
    if letters:
        yield f"{letters} dead letter{'' if letters == 1 else 's'}"


def _count(table: str) -> int | None:
    """The rows of a table; None if it cannot be read."""
    try:
        found = open_table_log(table) if table_exists(table) else None
        return 0 if found is None else count_rows(found, table)
    except PipelineError:
        return None
