"""Plans updates of a resolved graph from the storage, and the renames that precede them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from headrace.cdc.snapshot_versions import SnapshotState
from headrace.events.reader import EventReader
from headrace.graph.resolve import StoredSchema
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.graph.select import Selection, cleared_names, select
from headrace.model.datasets import Dataset, Definitions, Flow
from headrace.model.location import Location
from headrace.model.names import InvalidName, QualifiedName
from headrace.model.outcome import FlowCounts
from headrace.model.schema import Schema
from headrace.plan.backfills import BackfillRequest, ReplayRequest
from headrace.plan.build import build_plan
from headrace.plan.renames import Rename, RenameSettings, renames
from headrace.plan.steps import Plan
from headrace.plan.triggers import with_triggers
from headrace.project.backfill import with_backfill
from headrace.project.logged_batches import LoggedBatches
from headrace.project.replay import with_replay
from headrace.project.resolution import Cleared, ResolveRequest
from headrace.project.stored_tables import storage_problems
from headrace.project.test_harness import Harness
from headrace.runtime.failpoints import Failpoint, Failpoints
from headrace.settings.settings import Settings
from headrace.storage.change_detection import StoredState
from headrace.storage.history import StoredHistory
from headrace.storage.renaming import CurrentNames, RelocatedLayout, StoredRenames


def known_counts(
    events: EventReader, state: StoredState, graph: ResolvedGraph
) -> Callable[[str, int, int], FlowCounts | None]:
    """A function that finds the counts of a batch in the event log, also under former names of its flow."""

    def known(flow: str, epoch: int, batch_id: int) -> FlowCounts | None:
        formerly = state.progress_of(graph.by_flow[flow]).former_names
        names = [flow, *(name for name, last in formerly.items() if epoch <= last)]
        found = (events.batch_counts(name, epoch, batch_id) for name in names)
        return next((counts for counts in found if counts is not None), None)

    return known


class Planning:
    """Plans for one pipeline. ``state`` is its stored state, under old names until renames are applied.

    Args:
        settings: the pipeline's.
        harness: the replacements of a test.
    """

    def __init__(self, settings: Settings, harness: Harness) -> None:
        self._settings = settings
        self._harness = harness
        self._stored = StoredRenames(settings.layout, settings.naming)
        self._before = dict(self._old_names())
        flows_before = {new: old for old, new in settings.renamed_flows.items()}
        self._layout = RelocatedLayout(settings.layout.root, self._before, flows_before)
        self._logged = LoggedBatches(settings, {str(new): str(old) for new, old in self._before.items()})
        self.state = StoredState(self._layout, settings.naming, settings.id, time.time, self._logged)

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

    def plan(self, graph: ResolvedGraph, selection: Selection, *, continuous: bool | None = None) -> Plan:
        """The plan of an update.

        Raises:
            Problems: all problems of the selection, and all conflicts between the storage and the declarations.
        """
        settings = self._settings
        self._logged.invalidate()
        selected = select(graph, selection, settings.naming)
        past = self._past()
        plan = build_plan(graph, self.state, past, selected.without(self._harness.given))
        plan = replace(plan, renames=self.renames(graph))
        if not self._harness.only:
            plan = replace(plan, inactive=past.inactive(graph))
        is_continuous = settings.continuous if continuous is None else continuous
        return with_triggers(plan, continuous=is_continuous, interval_s=settings.trigger_interval_s)

    def resolve_request(self, selection: Selection, *, skip_unavailable: bool) -> ResolveRequest:
        """The request to resolve the project for an update of a selection."""
        kept_schema, cleared = self.kept_schema(selection), self.cleared(selection)
        return ResolveRequest(
            kept_schema, cleared, storage_problems(self._settings), skip_unavailable, self.snapshot_state
        )

    def backfill(self, graph: ResolvedGraph, request: BackfillRequest) -> Plan:
        """The plan of a backfill.

        Raises:
            Problems, PipelineError: as :meth:`plan`, and BACKFILL.*.
        """
        past = self._past()
        plan = self.plan(graph, Selection(), continuous=False)
        return with_backfill(plan, request, self.state, past, self._settings.naming)

    def replay(self, graph: ResolvedGraph, request: ReplayRequest) -> Plan:
        """The plan of a quarantine replay.

        Raises:
            Problems, PipelineError: as :meth:`plan`, and REPLAY.*.
        """
        settings = self._settings
        plan = self.plan(graph, Selection(), continuous=False)
        return with_replay(plan, request, self.state, settings.layout, settings.naming)

    def renames(self, graph: ResolvedGraph) -> tuple[Rename, ...]:
        """The pending renames of the settings.

        Raises:
            Problems: some cannot be applied.
        """
        settings = self._settings
        # Datasets and flows that an update skips keep their old names until they are available again.
        datasets = {old: new for old, new in settings.renamed_datasets.items() if not self._is_absent(graph, new)}
        unavailable_flows = {unavailable.name for unavailable in graph.unavailable}
        flows = {old: new for old, new in settings.renamed_flows.items() if new not in unavailable_flows}
        names = RenameSettings(datasets, flows)
        place = settings.locations.get("renames", Location(settings.file.name))
        return renames(names, graph, settings.naming, self._stored, place)

    def apply_renames(self, planned: tuple[Rename, ...], failpoints: Failpoints) -> None:
        """Move stored data from old to new names; only the holder of the lease may call this."""
        for rename in planned:
            self._stored.apply(rename, lambda: failpoints(Failpoint.RENAMED))

    def _is_absent(self, graph: ResolvedGraph, name: str) -> bool:
        try:
            canonical = self._settings.naming.canonical(name)
        except InvalidName:
            return False
        return canonical in graph.unavailable_datasets

    def _past(self) -> StoredHistory:
        datasets = {old: new for new, old in self._before.items()}
        names = CurrentNames(datasets, self._settings.renamed_flows)
        return StoredHistory(self._layout, self._settings.naming, self.state, names)

    def _old_names(self) -> list[tuple[QualifiedName, QualifiedName]]:
        found = []
        naming = self._settings.naming
        for old, new in self._settings.renamed_datasets.items():
            try:
                found.append((naming.canonical(new), naming.canonical(old)))
            except InvalidName:
                # Reported with the other problems of a plan.
                continue
        return found
