"""Which versions of tables somebody still needs: streams, views, savepoints, stages, and interrupted backfills."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.delta_log.tables import newest_version
from headrace.errors import PipelineError
from headrace.graph.resolved_flows import Mode
from headrace.model.names import Naming
from headrace.settings.storage import StorageLayout
from headrace.storage.backfills import stored_backfills
from headrace.storage.inventory import stored_flows
from headrace.storage.savepoints.stored import Savepoints
from headrace.storage.stages.stored import Stages
from headrace.storage.table_positions import Positions, TablePosition, read_positions
from headrace.storage.view_positions import ViewPositions, last_positions


def known_positions(layout: StorageLayout, naming: Naming) -> Positions:
    """The positions of all streams, views, stages and savepoints; unknown while a backfill needs old versions.

    Of the tables of a savepoint, those count of whose files it has no links.
    """
    found, stages = read_positions(layout.root), Stages(layout)
    held = [
        TablePosition(table.table_id, table.version, f"savepoint {savepoint.label}")
        for savepoint in Savepoints(layout).all()
        for table in savepoint.tables
        if not table.pinned
    ]
    held += _view_positions(layout, naming)
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


def _view_positions(layout: StorageLayout, naming: Naming) -> Iterator[TablePosition]:
    """What the next refreshes of views by groups read of their inputs."""
    for flow in stored_flows(layout, naming):
        if flow.record.mode != Mode.REPLACE.value:
            continue
        path = layout.table(naming, flow.dataset)
        try:
            found = last_positions(path, newest_version(path))
        except PipelineError:
            # A table that cannot be read is computed in full.
            continue
        if isinstance(found, ViewPositions):
            for table_id, version in found.inputs.items():
                yield TablePosition(table_id, version, f"view {flow.dataset}")
