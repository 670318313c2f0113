"""Whether the sources of a flow still have all that the flow has read of them."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.checkpoints.epochs import Epoch
from headrace.graph.analysis import Source, SourceKind
from headrace.graph.resolved_flows import ResolvedFlow, SnapshotFlow, StreamingFlow
from headrace.model.names import Naming
from headrace.plan.source_retention import SourceRetention
from headrace.settings.storage import StorageLayout
from headrace.storage.change_detection import StoredState
from headrace.storage.inventory import flows_of
from headrace.storage.source_retention import (
    auto_loader_retention,
    committed_at,
    epochs,
    file_retention,
    table_retention,
    unknown_retention,
)
from headrace.storage.start_positions import describe_source


def retention_of(
    flow: ResolvedFlow, state: StoredState, layout: StorageLayout, naming: Naming
) -> tuple[SourceRetention, ...]:
    """Whether each source of a flow still has all that it read; empty for flows that recompute their result.

    Args:
        flow: the flow.
        state: the current tables and records.
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
    """
    if not isinstance(flow, StreamingFlow):
        return _snapshot_retention(flow) if state.has_run(flow) else ()
    record = state.progress_of(flow)
    # An initial checkpoint after a backfill names the files whose rows are in the table.
    has_started = state.has_run(flow) or record.running or state.state_signature(flow) is not None
    last = record.epoch if has_started else record.epoch - 1
    paths = [state.checkpoint(flow, epoch) for epoch in range(record.first_epoch, last + 1)]
    read = epochs(paths)
    found = [
        _source_retention(flow, number, source, read, state, layout, naming)
        for number, source in enumerate(flow.analysis.sources)
    ]
    more = max((len(epoch.progress.offsets) for epoch in read if epoch.progress), default=0)
    if more > len(found):
        found.append(SourceRetention(flow.name, "a source", unrecoverable="the flow reads fewer sources than before"))
    return tuple(found)


def last_input_commit(flow: ResolvedFlow, state: StoredState, naming: Naming) -> float:
    """The time of the last commit to the tables that a flow streams from; 0 when it reads none."""
    sources = [source for source in flow.analysis.sources if source.kind is SourceKind.DATASET]
    tables = [state.table(naming.canonical(source.detail)) for source in sources]
    return max((committed_at(table.path, table.version) for table in tables if table is not None), default=0.0)


def _source_retention(
    flow: ResolvedFlow,
    number: int,
    source: Source,
    read: Sequence[Epoch],
    state: StoredState,
    layout: StorageLayout,
    naming: Naming,
) -> SourceRetention:
    lost = next((epoch for epoch in read if epoch.is_lost), None)
    if source.kind is SourceKind.DATASET:
        name = naming.canonical(source.detail)
        rows_lost = any(record.record.rows_lost for record in flows_of(layout, naming, name))
        before = state.progress_of(flow).sources
        same = not before or before[number : number + 1] == (source.digest,)
        table = state.table(name)
        return table_retention(flow.name, number, source, name, table, read, rows_lost=rows_lost, same=same)
    if lost is not None:
        unrecoverable = f"it is unknown what was read, because {lost.loss}"
        return SourceRetention(
            flow.name, describe_source(source), unrecoverable=unrecoverable, checkpoint_lost=read[-1].is_lost
        )
    if source.kind is SourceKind.FILES:
        return file_retention(flow.name, number, source, read)
    if source.kind is SourceKind.AUTO_LOADER:
        return auto_loader_retention(flow.name, describe_source(source), number, source, read)
    return unknown_retention(flow.name, describe_source(source), read)


def _snapshot_retention(flow: ResolvedFlow) -> tuple[SourceRetention, ...]:
    """The snapshots that a flow's history was made from; a table of current rows needs only the newest one."""
    if not isinstance(flow, SnapshotFlow) or not flow.feed.spec.keeps_versions:
        return ()
    if flow.comparison.source is not None:
        return (
            SourceRetention(flow.name, f'"{flow.comparison.source}"', unrecoverable="it returns only current rows"),
        )
    return (
        SourceRetention(
            flow.name, "its function", unrecoverable="it is unknown whether it still returns the first snapshot"
        ),
    )
