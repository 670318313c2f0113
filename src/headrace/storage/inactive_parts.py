"""The parts of the storage that belong to a dataset or a flow which the code no longer defines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.delta_log.tables import count_rows, open_table, table_exists
from headrace.errors import PipelineError
from headrace.model.names import Naming
from headrace.plan.inactive import Inactive
from headrace.settings.storage import StorageLayout
from headrace.storage.dead_letters import read_dead_letters
from headrace.storage.old_epochs import OldPart, PartKind
from headrace.storage.removal import size_of
from headrace.storage.spill_queue import all_spilled_batches


def inactive_parts(entry: Inactive, layout: StorageLayout, naming: Naming) -> tuple[OldPart, ...]:
    """What the storage has of an inactive dataset, flow or view, in the order in which it is to be removed.

    The table comes last: while it exists, the dataset is listed as inactive, so that a removal that a crash interrupted
    can be repeated.
    """
    parts = _parts(entry, layout, naming)
    return tuple(
        OldPart(entry.dataset, entry.flow or "", kind, path, size_of(path)) for kind, path in parts if path.exists()
    )


def rows_lost_with(parts: tuple[OldPart, ...]) -> tuple[str, ...]:
    """What would be lost with these parts and may be nowhere else, in words; empty if they have no rows."""
    return tuple(text for part in parts for text in _rows_in(part))


def _parts(entry: Inactive, layout: StorageLayout, naming: Naming) -> Iterator[tuple[PartKind, Path]]:
    if entry.view:
        yield PartKind.VIEW, Path(entry.path)
        return
    if entry.flow is not None:
        yield PartKind.FLOW, Path(entry.path)
        return
    name = naming.canonical(entry.dataset)
    flows = Path(layout.flows(naming, name))
    for flow in sorted(flows.glob("*")):
        yield PartKind.FLOW, flow
    yield PartKind.CHANGES, Path(layout.cdc_state(naming, name))
    yield PartKind.QUARANTINE, Path(layout.quarantine(naming, name))
    yield PartKind.TABLE, Path(entry.path)


def _rows_in(part: OldPart) -> Iterator[str]:
    if part.kind in (PartKind.TABLE, PartKind.QUARANTINE):
        what = "row" if part.kind is PartKind.TABLE else "quarantined row"
        rows = _count(str(part.path))
        if rows is None:
            yield f"an unknown number of {what}s"
        elif rows:
            yield f"{rows} {what}{'' if rows == 1 else 's'}"
    if part.kind is PartKind.FLOW:
        yield from _undelivered(part.path)


def _undelivered(flow: Path) -> Iterator[str]:
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
        found = open_table(table) if table_exists(table) else None
        return 0 if found is None else count_rows(found)
    except PipelineError:
        return None
