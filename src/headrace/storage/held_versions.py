"""Which versions of tables somebody still needs: streams, savepoints, stages, and interrupted backfills."""

from __future__ import annotations

from dataclasses import replace

from headrace.model.names import Naming
from headrace.settings.storage import StorageLayout
from headrace.storage.backfills import stored_backfills
from headrace.storage.inventory import stored_flows
from headrace.storage.savepoints.stored import Savepoints
from headrace.storage.stages.stored import Stages
from headrace.storage.table_positions import Positions, TablePosition, read_positions


def known_positions(layout: StorageLayout, naming: Naming) -> Positions:
    """The positions of all streams, stages and savepoints; unknown while an interrupted backfill needs old versions.

    Of the tables of a savepoint, those count of whose files it has no links.
    """
    found, stages = read_positions(layout.root), Stages(layout)
    held = [
        TablePosition(table.table_id, table.version, f"savepoint {savepoint.label}")
        for savepoint in Savepoints(layout).all()
        for table in savepoint.tables
        if not table.pinned
    ]
    unknown = list(found.unknown)
    for stage in stages.all():
        staged = read_positions(str(stages.storage(stage)))
        held += (replace(one, reader=f"stage {stage.name}: {one.reader}") for one in staged.known)
        unknown += (f"stage {stage.name}: {reason}" for reason in staged.unknown)
    pending = tuple(
        f'flow "{flow.name}" has an interrupted backfill or replay, which the next update finishes'
        for flow in stored_flows(layout, naming)
        if any(backfill.pending for backfill in stored_backfills(flow.file.parent, naming.canonical))
    )
    return replace(found, known=(*found.known, *held), unknown=(*unknown, *pending))
