"""The checkpoint of one flow, for those who look at it often: reads that flow alone, and the tables that it reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

from headrace.checkpoints.offsets import read_progress
from headrace.delta_log.tables import table_state
from headrace.model.names import InvalidName, QualifiedName
from headrace.project.inspection.flow_checkpoint import FlowCheckpoint, flow_checkpoint
from headrace.settings.settings import Settings
from headrace.storage.health import health_of_flow
from headrace.storage.inventory import StoredFlow, flows_of, stored_tables
from headrace.storage.positions import StoredTable


def stored_checkpoint(
    settings: Settings, flow: str, dataset: str, inputs: Collection[str], logged: tuple[int, int] | None
) -> FlowCheckpoint | None:
    """What the storage has of a flow's checkpoints, as `headrace checkpoints show` has it.

    Args:
        settings: the pipeline's.
        flow: its name.
        dataset: what it writes into.
        inputs: datasets that it may read; tables of these names are looked at first.
        logged: the newest epoch and batch that the event log has for it; None for none.

    Returns:
        The checkpoint; None if the storage has no record of the flow.

    Raises:
        OSError, PipelineError: the storage cannot be read.
    """
    layout, naming = settings.layout, settings.naming
    try:
        target = naming.canonical(dataset)
    except InvalidName:
        return None
    found = (one for one in flows_of(layout, naming, target) if one.name == flow and not one.record.cleaned)
    stored = next(found, None)
    if stored is None:
        return None
    tables = list(_tables_read(settings, stored, inputs))
    states = [table.state for table in tables]
    return flow_checkpoint(health_of_flow(stored, layout, naming, settings.id, logged, states), layout, naming, tables)


def _tables_read(settings: Settings, stored: StoredFlow, inputs: Collection[str]) -> Iterator[StoredTable]:
    """The tables that its positions are in. Each costs a look at its log, so the likely ones are tried first."""
    progress = read_progress(stored.file.parent / str(stored.record.epoch))
    offsets = progress.offsets if progress is not None else ()
    wanted = {str(one["reservoirId"]) for one in offsets if isinstance(one, dict) and "reservoirId" in one}
    if not wanted:
        return
    likely: set[QualifiedName] = set()
    for known in inputs:
        with suppress(InvalidName):
            likely.add(settings.naming.canonical(known))
    # A stable order: a table that is no input is found as well, if it is in the storage.
    tables = sorted(stored_tables(settings.layout, settings.naming), key=lambda one: one[0] not in likely)
    for name, path in tables:
        state = table_state(path)
        if state is not None and state.table_id in wanted:
            wanted.discard(state.table_id)
            yield StoredTable(name, state)
            if not wanted:
                return
