"""The history of flows as the storage has it; implements the planner's port ``DeployedHistory``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.cdc.scd_spec import ScdType
from headrace.checkpoints.offsets import read_progress
from headrace.delta_log.tables import committed_transaction, count_rows, open_table
from headrace.errors import PipelineError, raise_all
from headrace.graph.analysis import Source, SourceKind
from headrace.graph.build import QUARANTINE_SUFFIX
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import Mode, RefreshFlow, ResolvedFlow, SnapshotFlow, StreamingFlow, ViewFlow
from headrace.graph.starts import Start
from headrace.graph.unavailable_sources import UnavailableFlow
from headrace.model.datasets import Kind
from headrace.model.names import Naming, QualifiedName
from headrace.model.views import ViewDefinition
from headrace.plan.inactive import Inactive
from headrace.plan.source_retention import SourceRetention, SourceStart
from headrace.settings.storage import StorageLayout
from headrace.sinks.checks import table_of
from headrace.storage.change_detection import StoredState
from headrace.storage.initial_snapshot import is_offset_of
from headrace.storage.inventory import StoredFlow, flows_of, stored_flows, stored_tables
from headrace.storage.renaming import CurrentNames
from headrace.storage.source_retention import (
    Epoch,
    auto_loader_retention,
    committed_at,
    epochs,
    file_retention,
    table_retention,
    unknown_retention,
)
from headrace.storage.start_positions import describe_source, resolve_start
from headrace.storage.view_definitions import stored_view, view_files

_KINDS = {
    Mode.APPEND: Kind.STREAMING_TABLE,
    Mode.COMPLETE: Kind.STREAMING_TABLE,
    Mode.UPDATE: Kind.SINK,
    Mode.MERGE: Kind.STREAMING_TABLE,
    Mode.SNAPSHOT: Kind.STREAMING_TABLE,
    Mode.ONCE: Kind.STREAMING_TABLE,
    Mode.REPLACE: Kind.MATERIALIZED_VIEW,
}
_SAME_NAMES = CurrentNames()


class StoredHistory:
    """The history of one pipeline on a local disk.

    Args:
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
        state: the current tables and records.
        names: names that differ between code and storage because a rename is pending.
    """

    def __init__(
        self, layout: StorageLayout, naming: Naming, state: StoredState, names: CurrentNames = _SAME_NAMES
    ) -> None:
        self._layout = layout
        self._naming = naming
        self._state = state
        self._names = names

    def rows(self, name: QualifiedName) -> tuple[int, int]:
        """The numbers of rows in a dataset's table and in its quarantine."""
        table = self._layout.table(self._naming, name)
        return _count(table), _count(self._layout.quarantine(self._naming, name))

    def kind(self, name: QualifiedName) -> Kind | None:
        """The kind of dataset that a table was made for, by the flow that ran last; None if unknown."""
        if not (Path(self._layout.table(self._naming, name)) / "_delta_log").is_dir():
            return None
        ran = [flow for flow in flows_of(self._layout, self._naming, name) if flow.has_run and flow.record.mode]
        newest = max(ran, key=lambda flow: (flow.record.running, flow.record.started_at), default=None)
        return _KINDS[Mode(newest.record.mode)] if newest else None

    def path(self, name: QualifiedName) -> str:
        """The path of a dataset's table, which may not exist."""
        return self._layout.table(self._naming, name)

    def view(self, name: QualifiedName) -> ViewDefinition | None:
        """The stored definition of a persisted view, or None."""
        return stored_view(self._layout, self._naming, name)

    def has_written(self, flow: ResolvedFlow) -> bool:
        """True when the flow has run; after a crash before the record was written, only its table shows it."""
        table = self._layout.table(self._naming, flow.target)
        transaction = self._state.transaction(self._state.progress_of(flow))
        return self._state.has_run(flow) or committed_transaction(table, transaction) is not None

    def mode(self, flow: ResolvedFlow) -> Mode | None:
        """The mode in which the flow last ran; None if it did not, or if that is unknown."""
        record = self._state.record(flow)
        known = record is not None and record.mode and (record.started_at > 0 or record.running)
        return Mode(record.mode) if record is not None and known else None

    def former_stream_flows(self, graph: ResolvedGraph, name: QualifiedName) -> tuple[str, ...]:
        """Flows that streamed into a dataset and no longer do."""
        return tuple(
            flow.name
            for flow in flows_of(self._layout, self._naming, name)
            if flow.has_run and _ran_as_stream(flow) and not _still_feeds(graph, *self._names.of(flow))
        )

    def source_retention(self, flow: ResolvedFlow) -> tuple[SourceRetention, ...]:
        """Whether each source of a flow still has all that it read; empty for flows that recompute their result."""
        if not isinstance(flow, StreamingFlow):
            return _snapshot_retention(flow) if self._state.has_run(flow) else ()
        record = self._state.progress_of(flow)
        # An initial checkpoint after a backfill names the files whose rows are in the table.
        has_started = self._state.has_run(flow) or record.running or self._state.state_signature(flow) is not None
        last = record.epoch if has_started else record.epoch - 1
        paths = [self._state.checkpoint(flow, epoch) for epoch in range(record.first_epoch, last + 1)]
        read = epochs(paths)
        found = [
            self._source_retention(flow, number, source, read) for number, source in enumerate(flow.analysis.sources)
        ]
        more = max((len(epoch.progress.offsets) for epoch in read if epoch.progress), default=0)
        if more > len(found):
            found.append(
                SourceRetention(flow.name, "a source", unrecoverable="the flow reads fewer sources than before")
            )
        return tuple(found)

    def start_positions(
        self, flow: ResolvedFlow, start: Start, cleared: frozenset[QualifiedName]
    ) -> tuple[SourceStart, ...]:
        """The position at which a flow starts to read each source.

        Raises:
            Problems: sources cannot be read from there.
        """
        found: list[SourceStart] = []
        problems: list[PipelineError] = []
        for source in flow.analysis.sources:
            name = self._naming.canonical(source.detail) if source.kind is SourceKind.DATASET else None
            table = self._state.table(name) if name is not None else None
            try:
                found.append(
                    resolve_start(flow, source, start, table, cleared=name in cleared, now_s=self._state.now())
                )
            except PipelineError as error:
                problems.append(error)
        raise_all(problems)
        return tuple(found)

    def has_streamed(self, flow: UnavailableFlow, name: QualifiedName) -> bool:
        """True when a flow's stream has read the current table of a dataset."""
        record, table = self._state.record(flow), self._state.table(name)
        if record is None or table is None:
            return False
        progress = read_progress(self._state.checkpoint(flow, record.epoch))
        return progress is not None and any(is_offset_of(offset, table.table_id) for offset in progress.offsets)

    def last_input_commit(self, flow: ResolvedFlow) -> float:
        """The time of the last commit to the tables that a flow streams from; 0 when it reads none."""
        sources = [source for source in flow.analysis.sources if source.kind is SourceKind.DATASET]
        tables = [self._state.table(self._naming.canonical(source.detail)) for source in sources]
        return max((committed_at(table.path, table.version) for table in tables if table is not None), default=0.0)

    def inactive(self, graph: ResolvedGraph) -> tuple[Inactive, ...]:
        """Tables, flows and persisted views that the code does not define; omits the flows of undefined tables."""
        defined = {dataset.name: dataset.kind for dataset in graph.datasets}
        defined |= {name: dataset.kind for name, dataset in graph.unavailable_datasets.items()}
        known = {name for name, kind in defined.items() if kind.stored} | self._names.datasets.keys()
        known |= {table for d in graph.datasets if d.dataset.sink and (table := table_of(d.dataset.sink)) is not None}
        tables = {
            name: path
            for name, path in stored_tables(self._layout, self._naming)
            if name not in known and not name.name.endswith(QUARANTINE_SUFFIX)
        }
        found = [Inactive(str(name), path) for name, path in tables.items()]
        running = {(flow.target, flow.name) for flow in graph.stored_flows}
        running |= {
            (unavailable.target, unavailable.name)
            for unavailable in graph.unavailable
            if unavailable.dataset.kind.has_flows
        }
        found += [
            Inactive(str(self._names.of(flow)[0]), str(flow.file.parent), flow.name)
            for flow in stored_flows(self._layout, self._naming)
            if flow.has_run and flow.dataset not in tables and self._names.of(flow) not in running
        ]
        views = view_files(self._layout, self._naming)
        found += [
            Inactive(str(name), str(file), view=True)
            for name, file in views
            if name not in defined and name not in self._names.datasets
        ]
        return tuple(found)

    def _source_retention(
        self, flow: ResolvedFlow, number: int, source: Source, read: Sequence[Epoch]
    ) -> SourceRetention:
        lost = next((epoch for epoch in read if epoch.is_lost), None)
        if source.kind is SourceKind.DATASET:
            name = self._naming.canonical(source.detail)
            rows_lost = any(record.record.rows_lost for record in flows_of(self._layout, self._naming, name))
            before = self._state.progress_of(flow).sources
            same = not before or before[number : number + 1] == (source.digest,)
            table = self._state.table(name)
            return table_retention(flow.name, number, source, name, table, read, rows_lost=rows_lost, same=same)
        if lost is not None:
            unrecoverable = f"it is unknown what was read, because {lost.checkpoint} is missing"
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
    if not isinstance(flow, SnapshotFlow) or flow.feed.spec.scd_type is ScdType.ONE:
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


def _ran_as_stream(flow: StoredFlow) -> bool:
    return flow.record.mode != Mode.REPLACE.value


def _still_feeds(graph: ResolvedGraph, dataset: QualifiedName, flow: str) -> bool:
    now = graph.by_flow.get(flow)
    return now is not None and now.target == dataset and not isinstance(now, RefreshFlow | ViewFlow)


def _count(path: str) -> int:
    table = open_table(path)
    return 0 if table is None else count_rows(table)
