"""What the storage still knows of what flows have read: fills the planner's port."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.cdc.scd_spec import ScdType
from headrace.delta_log.tables import committed_transaction, open_table, rows_in
from headrace.storage.initial_snapshot import is_of
from headrace.storage.change_detection import StoredState
from headrace.storage.inventory import StoredFlow, flows_of, stored_flows, stored_tables
from headrace.checkpoints.offsets import read_progress
from headrace.storage.start_positions import described, start_at
from headrace.storage.renaming import NamesNow
from headrace.storage.source_retention import Epoch, committed_at, epochs, reach_of_auto_loader, reach_of_files, reach_of_other, reach_of_table
from headrace.storage.view_definitions import stored_view, view_files
from headrace.errors import PipelineError, raise_all
from headrace.graph.unavailable_sources import AwayFlow
from headrace.graph.build import QUARANTINE_SUFFIX
from headrace.graph.resolved import Mode, ResolvedFlow, ResolvedGraph, Source, SourceKind
from headrace.graph.starts import Start
from headrace.model.datasets import Kind
from headrace.model.names import Naming, QualifiedName
from headrace.model.views import ViewDefinition
from headrace.plan.inactive import Inactive
from headrace.plan.source_retention import SourceReach, SourceStart
from headrace.settings.storage import StorageLayout
from headrace.sinks.checks import table_of

_KINDS = {
    Mode.APPEND: Kind.STREAMING_TABLE,
    Mode.COMPLETE: Kind.STREAMING_TABLE,
    Mode.UPDATE: Kind.SINK,
    Mode.MERGE: Kind.STREAMING_TABLE,
    Mode.SNAPSHOT: Kind.STREAMING_TABLE,
    Mode.ONCE: Kind.STREAMING_TABLE,
    Mode.REPLACE: Kind.MATERIALIZED_VIEW,
}
_SAME_NAMES = NamesNow()


class StoredPast:
    """The past of one pipeline on a local disk.

    Args:
        layout: where things lie.
        naming: how names are spelled in full.
        state: the tables and records as they are now.
        names: what is called otherwise in the code, and may not be renamed in the storage yet.
    """

    def __init__(
        self, layout: StorageLayout, naming: Naming, state: StoredState, names: NamesNow = _SAME_NAMES
    ) -> None:
        self._layout = layout
        self._naming = naming
        self._state = state
        self._names = names

    def rows(self, name: QualifiedName) -> tuple[int, int]:
        """Rows in the table of a dataset, and in its quarantine."""
        table = self._layout.table(self._naming, name)
        return _count(table), _count(self._layout.quarantine(self._naming, name))

    def kind(self, name: QualifiedName) -> Kind | None:
        """As what the table of a dataset was made, by the flow that ran last; None when nothing tells."""
        if not (Path(self._layout.table(self._naming, name)) / "_delta_log").is_dir():
            return None
        ran = [flow for flow in flows_of(self._layout, self._naming, name) if flow.ran and flow.record.mode]
        newest = max(ran, key=lambda flow: (flow.record.running, flow.record.started_at), default=None)
        return _KINDS[Mode(newest.record.mode)] if newest else None

    def path(self, name: QualifiedName) -> str:
        """Where the table of a dataset lies, if there is one."""
        return self._layout.table(self._naming, name)

    def view(self, name: QualifiedName) -> ViewDefinition | None:
        """The stored definition of a persisted view, or None."""
        return stored_view(self._layout, self._naming, name)

    def wrote(self, flow: ResolvedFlow) -> bool:
        """True when the flow has run; its table knows that too, when a crash came before the record."""
        table = self._layout.table(self._naming, flow.target)
        transaction = self._state.transaction(self._state.progress_of(flow))
        return self._state.ran(flow) or committed_transaction(table, transaction) is not None

    def mode(self, flow: ResolvedFlow) -> Mode | None:
        """How the flow ran before; None when it did not, or when that is not known."""
        record = self._state.record(flow)
        known = record is not None and record.mode and (record.started_at > 0 or record.running)
        return Mode(record.mode) if record is not None and known else None

    def left(self, graph: ResolvedGraph, name: QualifiedName) -> tuple[str, ...]:
        """Flows that have fed a dataset as streams and no longer do."""
        return tuple(
            flow.name
            for flow in flows_of(self._layout, self._naming, name)
            if flow.ran and _brought_rows(flow) and not _still_does(graph, *self._names.of(flow))
        )

    def reach(self, flow: ResolvedFlow) -> tuple[SourceReach, ...]:
        """The sources of a flow, and what of what it read is gone; nothing for flows that begin anew each time."""
        if not flow.mode.streams:
            return _reach_of_snapshots(flow) if self._state.ran(flow) else ()
        record = self._state.progress_of(flow)
        # A checkpoint that was seeded behind a load names the files whose rows are in the table.
        begun = self._state.ran(flow) or record.running or self._state.made_with(flow) is not None
        last = record.epoch if begun else record.epoch - 1
        paths = [self._state.checkpoint(flow, epoch) for epoch in range(record.first_epoch, last + 1)]
        read = epochs(paths)
        found = [self._reach(flow, number, source, read) for number, source in enumerate(flow.analysis.sources)]
        more = max((len(epoch.progress.offsets) for epoch in read if epoch.progress), default=0)
        if more > len(found):
            found.append(SourceReach(flow.name, "a source", gone="the flow reads fewer sources than before"))
        return tuple(found)

    def starting(self, flow: ResolvedFlow, start: Start, cleared: frozenset[QualifiedName]) -> tuple[SourceStart, ...]:
        """Where the reading of each source of a flow starts.

        Raises:
            Problems: sources cannot be read from there.
        """
        found: list[SourceStart] = []
        problems: list[PipelineError] = []
        for source in flow.analysis.sources:
            name = self._naming.canonical(source.detail) if source.kind is SourceKind.DATASET else None
            table = self._state.table(name) if name is not None else None
            try:
                found.append(start_at(flow, source, start, table, cleared=name in cleared, now_s=self._state.now()))
            except PipelineError as error:
                problems.append(error)
        raise_all(problems)
        return tuple(found)

    def streamed(self, flow: AwayFlow, name: QualifiedName) -> bool:
        """True when the table of a dataset, as it is now, is one that the stream of a flow has read."""
        record, table = self._state.record(flow), self._state.table(name)
        if record is None or table is None:
            return False
        progress = read_progress(self._state.checkpoint(flow, record.epoch))
        return progress is not None and any(is_of(offset, table.table_id) for offset in progress.offsets)

    def newest(self, flow: ResolvedFlow) -> float:
        """When the tables that a flow reads as streams were last committed to; 0 when it reads none."""
        sources = [source for source in flow.analysis.sources if source.kind is SourceKind.DATASET]
        tables = [self._state.table(self._naming.canonical(source.detail)) for source in sources]
        return max((committed_at(table.path, table.version) for table in tables if table is not None), default=0.0)

    def inactive(self, graph: ResolvedGraph) -> tuple[Inactive, ...]:
        """Tables, flows and persisted views that the code does not define; of a table that is none, no flow alone."""
        defined = {dataset.name: dataset.kind for dataset in graph.datasets}
        defined |= {name: dataset.kind for name, dataset in graph.absent.items()}
        known = {name for name, kind in defined.items() if kind.stored} | self._names.datasets.keys()
        known |= {table for d in graph.datasets if d.dataset.sink and (table := table_of(d.dataset.sink)) is not None}
        tables = {
            name: path
            for name, path in stored_tables(self._layout, self._naming)
            if name not in known and not name.name.endswith(QUARANTINE_SUFFIX)
        }
        found = [Inactive(str(name), path) for name, path in tables.items()]
        running = {(flow.target, flow.name) for flow in graph.stored_flows}
        running |= {(away.target, away.name) for away in graph.away if away.dataset.kind.fed}
        found += [
            Inactive(str(self._names.of(flow)[0]), str(flow.file.parent), flow.name)
            for flow in stored_flows(self._layout, self._naming)
            if flow.ran and flow.dataset not in tables and self._names.of(flow) not in running
        ]
        views = view_files(self._layout, self._naming)
        found += [
            Inactive(str(name), str(file), view=True)
            for name, file in views
            if name not in defined and name not in self._names.datasets
        ]
        return tuple(found)

    def _reach(self, flow: ResolvedFlow, number: int, source: Source, read: Sequence[Epoch]) -> SourceReach:
        lost = next((epoch for epoch in read if epoch.lost), None)
        if source.kind is SourceKind.DATASET:
            name = self._naming.canonical(source.detail)
            cut = any(record.record.cut for record in flows_of(self._layout, self._naming, name))
            before = self._state.progress_of(flow).sources
            same = not before or before[number : number + 1] == (source.digest,)
            table = self._state.table(name)
            return reach_of_table(flow.name, number, source, name, table, read, cut=cut, same=same)
        if lost is not None:
            gone = f"it is unknown what was read, because {lost.checkpoint} is missing"
            return SourceReach(flow.name, described(source), gone=gone, checkpoint_lost=read[-1].lost)
        if source.kind is SourceKind.FILES:
            return reach_of_files(flow.name, number, source, read)
        if source.kind is SourceKind.AUTO_LOADER:
            return reach_of_auto_loader(flow.name, described(source), number, source, read)
        return reach_of_other(flow.name, described(source), read)


def _reach_of_snapshots(flow: ResolvedFlow) -> tuple[SourceReach, ...]:
    """What a flow that keeps versions has made them of; current rows alone follow from the newest snapshot."""
    feed, compares = flow.analysis.feed, flow.flow.snapshots
    if feed is None or compares is None or feed.shape.scd_type is ScdType.ONE:
        return ()
    if compares.source is not None:
        return (SourceReach(flow.name, f'"{compares.source}"', gone="it returns only current rows"),)
    return (SourceReach(flow.name, "its function", gone="it is unknown whether it still returns the first snapshot"),)


def _brought_rows(flow: StoredFlow) -> bool:
    return flow.record.mode != Mode.REPLACE.value


def _still_does(graph: ResolvedGraph, dataset: QualifiedName, flow: str) -> bool:
    now = graph.by_flow.get(flow)
    return now is not None and now.target == dataset and now.mode not in (Mode.REPLACE, Mode.VIEW)


def _count(path: str) -> int:
    table = open_table(path)
    return 0 if table is None else rows_in(table)
