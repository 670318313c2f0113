"""Which tables an update keeps or clears, as far as resolving a project has to know it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.cdc.snapshot_versions import SnapshotState
from headrace.graph.resolve import StoredSchema
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.graph.select import Selection, cleared_names
from headrace.model.datasets import Dataset, Definitions, Flow
from headrace.model.names import Naming, QualifiedName
from headrace.model.schema import Schema
from headrace.project.resolution.resolve_request import Cleared
from headrace.storage.change_detection import StoredState


class KeptTables:
    """The tables of a storage, before an update of a selection.

    Args:
        state: the stored state.
        naming: resolves names to qualified ones.
    """

    def __init__(self, state: StoredState, naming: Naming) -> None:
        self.state = state
        self._naming = naming

    def kept_schema(self, selection: Selection) -> StoredSchema:
        """A function that returns the schema of a table if an update of the selection keeps its rows."""
        is_cleared = self._clears(selection)

        def kept_schema(dataset: Dataset, flows: Sequence[ResolvedFlow]) -> Schema | None:
            table = (
                None
                if is_cleared(dataset) or any(map(self.state.is_resetting, flows))
                else self.state.table(dataset.name)
            )
            return None if table is None else table.schema

        return kept_schema

    def snapshot_state(self, flow: Flow) -> SnapshotState:
        """The snapshots that a flow has processed, if its table keeps its rows."""
        table = self.state.table(flow.target)
        return SnapshotState(self.state.last_snapshot_version(flow), None if table is None else table.schema)

    def cleared(self, selection: Selection) -> Cleared:
        """A function that finds the datasets an update of the selection clears, including resets cut off by a crash."""
        is_cleared = self._clears(selection)

        def cleared(definitions: Definitions) -> frozenset[QualifiedName]:
            resuming = {flow.target for flow in definitions.flows if self.state.is_resetting(flow)}
            return frozenset({*(dataset.name for dataset in definitions.datasets if is_cleared(dataset)), *resuming})

        return cleared

    def _clears(self, selection: Selection) -> Callable[[Dataset], bool]:
        names = cleared_names(selection, self._naming)
        return lambda dataset: dataset.name in names or (selection.full_refresh_all and dataset.resettable)
