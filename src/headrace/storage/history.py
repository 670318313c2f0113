"""The history of flows as the storage has it; implements the planner's port ``DeployedHistory``."""

from __future__ import annotations

from headrace.checkpoints.offsets import read_progress
from headrace.delta_log.tables import committed_transaction, count_rows, has_log, open_table_log
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import Mode, RefreshFlow, ResolvedFlow, ViewFlow
from headrace.graph.starts import Start
from headrace.graph.unavailable_sources import UnavailableFlow
from headrace.model.datasets import Kind
from headrace.model.names import Naming, QualifiedName
from headrace.model.views import ViewDefinition
from headrace.plan.inactive import Inactive
from headrace.plan.source_retention import SourceRetention, SourceStart
from headrace.settings.storage import StorageLayout
from headrace.storage.change_detection import StoredState
from headrace.storage.flow_source_retention import last_input_commit, retention_of
from headrace.storage.inactive import inactive_entries
from headrace.storage.initial_snapshot import is_offset_of
from headrace.storage.inventory import StoredFlow, flows_of
from headrace.storage.renaming import CurrentNames
from headrace.storage.start_positions import start_positions
from headrace.storage.view_definitions import stored_view

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
        if not has_log(self._layout.table(self._naming, name)):
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
        return retention_of(flow, self._state, self._layout, self._naming)

    def start_positions(
        self, flow: ResolvedFlow, start: Start, cleared: frozenset[QualifiedName]
    ) -> tuple[SourceStart, ...]:
        """The position at which a flow starts to read each source.

        Raises:
            Problems: sources cannot be read from there.
        """
        return start_positions(flow, start, cleared, self._state, self._naming)

    def has_streamed(self, flow: UnavailableFlow, name: QualifiedName) -> bool:
        """True when a flow's stream has read the current table of a dataset."""
        record, table = self._state.record(flow), self._state.table(name)
        if record is None or table is None:
            return False
        progress = read_progress(self._state.checkpoint(flow, record.epoch))
        return progress is not None and any(is_offset_of(offset, table.table_id) for offset in progress.offsets)

    def last_input_commit(self, flow: ResolvedFlow) -> float:
        """The time of the last commit to the tables that a flow streams from; 0 when it reads none."""
        return last_input_commit(flow, self._state, self._naming)

    def inactive(self, graph: ResolvedGraph) -> tuple[Inactive, ...]:
        """Tables, flows and persisted views that the code does not define; omits the flows of undefined tables."""
        return inactive_entries(graph, self._layout, self._naming, self._names)


def _ran_as_stream(flow: StoredFlow) -> bool:
    return flow.record.mode != Mode.REPLACE.value


def _still_feeds(graph: ResolvedGraph, dataset: QualifiedName, flow: str) -> bool:
    now = graph.by_flow.get(flow)
    return now is not None and now.target == dataset and not isinstance(now, RefreshFlow | ViewFlow)


def _count(path: str) -> int:
    table = open_table_log(path)
    return 0 if table is None else count_rows(table, path)
