"""Which tables an update keeps or clears, as far as resolving a project has to know it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.cdc.snapshot_versions import SnapshotState
from headrace.errors import PipelineError
from headrace.graph.resolve import StoredSchema
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.graph.select import Selection, cleared_names
from headrace.model.datasets import Dataset, Definitions, Flow
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema
from headrace.plan.steps import Plan
from headrace.project.planning.adopted_tables import adoption_problems
from headrace.project.resolution.resolve_request import Cleared, ResolveRequest
from headrace.project.storage_folder import storage_problems
from headrace.settings.settings import Settings
from headrace.settings.storage import StorageLayout
from headrace.storage.change_detection import StoredState


class KeptTables:
    """The tables of a storage, before an update of a selection.

    Args:
        state: the stored state.
        settings: the pipeline's.
    """

    def __init__(self, state: StoredState, settings: Settings) -> None:
        self.state = state
        self._settings = settings

    def graph_request(self) -> ResolveRequest:
        """The request to resolve the project for its graph alone, whatever the storage is like."""
        everything = Selection()
        return ResolveRequest(
            self.kept_schema(everything), self.cleared(everything), snapshot_state=self.snapshot_state
        )

    def update_request(self, selection: Selection, *, skip_unavailable: bool) -> ResolveRequest:
        """The request to resolve the project for an update of an exact selection."""
        return ResolveRequest(
            self.kept_schema(selection),
            self.cleared(selection),
            storage_problems(self._settings),
            skip_unavailable,
            self.snapshot_state,
        )

    def problems_of_adopted(self, plan: Plan, layout: StorageLayout) -> tuple[PipelineError, ...]:
        """Where a plan clears rows of adopted tables, or writes to tables that are not the pipeline's.

        ADOPT.NEEDS_CONSENT and others of tables that were adopted or released.
        """
        return tuple(adoption_problems(plan, layout, self._settings.naming))

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
        names = cleared_names(selection, self._settings.naming)
        return lambda dataset: dataset.name in names or (selection.full_refresh_all and dataset.resettable)
