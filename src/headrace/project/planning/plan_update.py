"""Plans updates of a resolved graph from the storage, and the renames that precede them."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import Selected, Selection, select
from headrace.plan.backfills import BackfillRequest, ReplayRequest
from headrace.plan.build import checked, draft_plan
from headrace.plan.modified import modified_datasets
from headrace.plan.steps import NOTHING_MODIFIED, Plan
from headrace.plan.triggers import with_triggers
from headrace.project.planning.kept_tables import KeptTables
from headrace.project.planning.logged_batches import LoggedBatches
from headrace.project.planning.pending_renames import old_names, pending_renames
from headrace.project.planning.plan_backfill import with_backfill
from headrace.project.planning.plan_replay import with_replay
from headrace.project.planning.resolve_selection import Resolve, ResolvedSelection, resolve_selection
from headrace.project.test_harness import Harness
from headrace.runtime.failpoints import Failpoint, Failpoints
from headrace.settings.settings import Settings
from headrace.storage.change_detection import StoredState
from headrace.storage.history import StoredHistory
from headrace.storage.listed_storage import planning_from_storage, reading_storage
from headrace.storage.renaming import CurrentNames, RelocatedLayout, StoredRenames


class Planning:
    """Plans for one pipeline.

    ``state`` is its stored state, and ``layout`` its paths: under old names until renames are applied.

    Args:
        settings: the pipeline's.
        harness: the replacements of a test.
    """

    def __init__(self, settings: Settings, harness: Harness) -> None:
        self._settings = settings
        self._harness = harness
        self._stored = StoredRenames(settings.layout, settings.naming)
        self._before = old_names(settings)
        flows_before = {new: old for old, new in settings.renamed_flows.items()}
        self.layout = settings.layout
        if self._before or flows_before:
            self.layout = RelocatedLayout(
                settings.layout.root, settings.layout.local_root, datasets=self._before, flows_before=flows_before
            )
        self._logged = LoggedBatches(settings, {str(new): str(old) for new, old in self._before.items()})
        self.state = StoredState(self.layout, settings.naming, settings.id, time.time, self._logged)
        self.tables = KeptTables(self.state, settings)

    def plan(self, graph: ResolvedGraph, selection: Selection, *, continuous: bool | None = None) -> Plan:
        """The plan of an update.

        Raises:
            Problems: all problems of the selection.
            RefusedPlan: all conflicts between the storage and the declarations.
        """
        with planning_from_storage(self._settings.layout):
            return self._plan(graph, selection, continuous=continuous)

    def _plan(self, graph: ResolvedGraph, selection: Selection, *, continuous: bool | None) -> Plan:
        settings = self._settings
        self._logged.invalidate()
        selected = select(graph, selection, settings.naming)
        past = self._past()
        plan = draft_plan(graph, self.state, past, selected.without(self._harness.given))
        if not plan.refused:
            plan = replace(plan, refused=self.tables.problems_of_adopted(plan, self.layout))
        if selection.selects_nothing:
            plan = replace(plan, notices=(NOTHING_MODIFIED, *plan.notices))
        plan = replace(plan, renames=pending_renames(graph, settings, self._stored))
        if not self._harness.only:
            plan = replace(plan, inactive=past.inactive(graph))
        is_continuous = settings.continuous if continuous is None else continuous
        return checked(with_triggers(plan, continuous=is_continuous, interval_s=settings.trigger_interval_s))

    def reading(self) -> AbstractContextManager[None]:
        """A context in which a project is resolved and planned from one look at a storage in a bucket."""
        return reading_storage(self._settings.layout)

    def resolve(self, resolve: Resolve, selection: Selection, *, skip_unavailable: bool) -> ResolvedSelection:
        """The project resolved for an update of a selection, and the names that its selectors have found.

        Args:
            resolve: resolves the project.
            selection: what the user wants.
            skip_unavailable: skip flows whose sources are unavailable, instead of raising.

        Raises:
            Problems: all problems of the project, or of the selection.
        """

        def selected(graph: ResolvedGraph) -> Selected:
            modified = partial(modified_datasets, graph, self.state, self._past())
            return select(graph, selection, self._settings.naming, modified)

        request = partial(self.tables.update_request, skip_unavailable=skip_unavailable)
        return resolve_selection(resolve, request, selection, selected)

    def backfill(self, graph: ResolvedGraph, request: BackfillRequest) -> Plan:
        """The plan of a backfill.

        Raises:
            Problems, PipelineError: as :meth:`plan`, and BACKFILL.*.
        """
        with reading_storage(self._settings.layout):
            plan = self.plan(graph, Selection(), continuous=False)
            return with_backfill(plan, request, self.state, self._past(), self._settings.naming)

    def replay(self, graph: ResolvedGraph, request: ReplayRequest) -> Plan:
        """The plan of a quarantine replay.

        Raises:
            Problems, PipelineError: as :meth:`plan`, and REPLAY.*.
        """
        settings = self._settings
        plan = self.plan(graph, Selection(), continuous=False)
        return with_replay(plan, request, self.state, settings.layout, settings.naming)

    def finish_renames(self) -> None:
        """Delete what renames left that a crash has interrupted; only the holder of the lease may call this."""
        self._stored.finish()

    def apply_renames(self, plan: Plan, failpoints: Failpoints) -> None:
        """Move stored data from old to new names; only the holder of the lease may call this."""
        for rename in plan.renames:
            self._stored.apply(rename, lambda: failpoints(Failpoint.RENAMED))

    def _past(self) -> StoredHistory:
        datasets = {old: new for new, old in self._before.items()}
        names = CurrentNames(datasets, self._settings.renamed_flows)
        return StoredHistory(self.layout, self._settings.naming, self.state, names)
