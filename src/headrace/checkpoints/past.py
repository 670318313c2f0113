"""What the storage still knows of what flows have read: fills the planner's port."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.checkpoints.delta_log import open_table, rows_in
from headrace.checkpoints.freshness import StoredState
from headrace.checkpoints.inventory import StoredFlow, flows_of, stored_flows, stored_tables
from headrace.checkpoints.positions import described, start_at
from headrace.checkpoints.replayable import Epoch, epochs, reach_of_files, reach_of_other, reach_of_table
from headrace.checkpoints.views import stored_view
from headrace.errors import PipelineError, raise_all
from headrace.graph.build import QUARANTINE_SUFFIX
from headrace.graph.resolved import Mode, ResolvedFlow, ResolvedGraph, Source, SourceKind
from headrace.graph.starts import Start
from headrace.model.datasets import Kind
from headrace.model.names import Naming, QualifiedName
from headrace.model.views import ViewDefinition
from headrace.plan.inactive import Inactive
from headrace.plan.reach import SourceReach, SourceStart
from headrace.settings.storage import StorageLayout

_KINDS = {
    Mode.APPEND: Kind.STREAMING_TABLE,
    Mode.COMPLETE: Kind.STREAMING_TABLE,
    Mode.ONCE: Kind.STREAMING_TABLE,
    Mode.REPLACE: Kind.MATERIALIZED_VIEW,
}


class StoredPast:
    """The past of one pipeline on a local disk.

    Args:
        layout: where things lie.
        naming: how names are spelled in full.
        state: the tables and records as they are now.
    """

    def __init__(self, layout: StorageLayout, naming: Naming, state: StoredState) -> None:
        self._layout = layout
        self._naming = naming
        self._state = state

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

    def view(self, name: QualifiedName) -> ViewDefinition | None:
        """The stored definition of a persisted view, or None."""
        return stored_view(self._layout, self._naming, name)

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
            if flow.ran and _brought_rows(flow) and not _still_does(graph, flow)
        )

    def reach(self, flow: ResolvedFlow) -> tuple[SourceReach, ...]:
        """The sources of a flow, and what of what it read is gone; nothing for flows that begin anew each time."""
        if flow.mode not in (Mode.APPEND, Mode.COMPLETE):
            return ()
        record = self._state.progress_of(flow)
        last = record.epoch if self._state.ran(flow) or record.running else record.epoch - 1
        paths = [self._state.checkpoint(flow, epoch) for epoch in range(record.first_epoch, last + 1)]
        read = epochs(paths)
        found = [self._reach(flow, number, source, read) for number, source in enumerate(flow.analysis.sources)]
        more = max((len(epoch.progress.offsets) for epoch in read if epoch.progress), default=0)
        if more > len(found):
            found.append(SourceReach(flow.name, "a source", gone="the flow no longer reads as many sources as before"))
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
                found.append(start_at(flow, source, start, table, cleared=name in cleared))
            except PipelineError as error:
                problems.append(error)
        raise_all(problems)
        return tuple(found)

    def inactive(self, graph: ResolvedGraph, renamed: frozenset[QualifiedName]) -> tuple[Inactive, ...]:
        """Tables and flows that the code does not define; of a table that it does not define, no flow by itself.

        Args:
            graph: what the code defines.
            renamed: old names of datasets, which have new ones in the code.
        """
        known = {dataset.name for dataset in graph.datasets if dataset.kind.stored} | renamed
        tables = {
            name: path
            for name, path in stored_tables(self._layout, self._naming)
            if name not in known and not name.name.endswith(QUARANTINE_SUFFIX)
        }
        found = [Inactive(str(name), path) for name, path in tables.items()]
        running = {(flow.target, flow.name) for flow in graph.stored_flows}
        found += [
            Inactive(str(flow.dataset), str(flow.file.parent), flow.name)
            for flow in stored_flows(self._layout, self._naming)
            if flow.ran
            and flow.dataset not in tables
            and flow.dataset not in renamed
            and (flow.dataset, flow.name) not in running
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
            return reach_of_table(flow.name, number, name, table, read, cut=cut, same=same)
        if lost is not None:
            gone = f"which of it was read is not known, because {lost.checkpoint} is missing"
            return SourceReach(flow.name, described(source), gone=gone)
        if source.kind is SourceKind.FILES:
            return reach_of_files(flow.name, number, source, read)
        return reach_of_other(flow.name, described(source), read)


def _brought_rows(flow: StoredFlow) -> bool:
    return flow.record.mode != Mode.REPLACE.value


def _still_does(graph: ResolvedGraph, flow: StoredFlow) -> bool:
    now = graph.by_flow.get(flow.name)
    return now is not None and now.target == flow.dataset and now.mode not in (Mode.REPLACE, Mode.VIEW)


def _count(path: str) -> int:
    table = open_table(path)
    return 0 if table is None else rows_in(table)
