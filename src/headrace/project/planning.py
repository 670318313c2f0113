"""What an update of a resolved graph would do, found in the storage; and the renames that come before it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from headrace.cdc.snapshot_versions import Taken
from headrace.events.reader import EventReader
from headrace.graph.resolve import Kept
from headrace.graph.resolved import ResolvedFlow, ResolvedGraph
from headrace.graph.select import Selection, cleared_names, select
from headrace.model.datasets import Dataset, Definitions, Flow
from headrace.model.location import Location
from headrace.model.names import InvalidName, QualifiedName
from headrace.model.outcome import FlowCounts
from headrace.model.schema import Schema
from headrace.plan.backfills import Backfill, Replayed
from headrace.plan.build import build_plan
from headrace.plan.renames import NewNames, Rename, renames
from headrace.plan.steps import Plan
from headrace.plan.triggers import with_triggers
from headrace.project.backfill import with_load
from headrace.project.logged_batches import LoggedBatches
from headrace.project.replay import with_replay
from headrace.project.resolution import Cleared, Resolving
from headrace.project.stored_tables import unusable
from headrace.project.test_harness import Harness
from headrace.runtime.failpoints import Failpoint, Failpoints
from headrace.settings.settings import Settings
from headrace.storage.change_detection import StoredState
from headrace.storage.history import StoredPast
from headrace.storage.renaming import NamesNow, RelocatedLayout, StoredRenames


def known_counts(
    events: EventReader, state: StoredState, graph: ResolvedGraph
) -> Callable[[str, int, int], FlowCounts | None]:
    """Finds the counts of a batch in the event log, also of one that ran while its flow had another name."""

    def known(flow: str, epoch: int, batch_id: int) -> FlowCounts | None:
        formerly = state.progress_of(graph.by_flow[flow]).formerly
        names = [flow, *(name for name, last in formerly.items() if epoch <= last)]
        found = (events.batch_counts(name, epoch, batch_id) for name in names)
        return next((counts for counts in found if counts is not None), None)

    return known


class Planning:
    """Plans of one pipeline. ``state`` is what lies in its storage, under old names as long as it is not carried over.

    Args:
        settings: the pipeline's.
        rehearsal: what a test has put in place of the real thing.
    """

    def __init__(self, settings: Settings, rehearsal: Harness) -> None:
        self._settings = settings
        self._rehearsal = rehearsal
        self._stored = StoredRenames(settings.layout, settings.naming)
        self._before = dict(self._old_names())
        flows_before = {new: old for old, new in settings.renamed_flows.items()}
        self._layout = RelocatedLayout(settings.layout.root, self._before, flows_before)
        self._logged = LoggedBatches(settings, {str(new): str(old) for new, old in self._before.items()})
        self.state = StoredState(self._layout, settings.naming, settings.id, time.time, self._logged)

    def kept(self, selection: Selection) -> Kept:
        """Finds the columns of tables that keep their rows in an update of the selection."""
        asked = self._asked(selection)

        def kept(dataset: Dataset, flows: Sequence[ResolvedFlow]) -> Schema | None:
            table = None if asked(dataset) or any(map(self.state.resetting, flows)) else self.state.table(dataset.name)
            return None if table is None else table.schema

        return kept

    def taken(self, flow: Flow) -> Taken:
        """What a flow has taken of snapshots, as long as its table keeps its rows."""
        table = self.state.table(flow.target)
        return Taken(self.state.snapshot_taken(flow), None if table is None else table.schema)

    def cleared(self, selection: Selection) -> Cleared:
        """Tells which datasets an update of the selection clears, and which ones a crash has kept one from clearing."""
        asked = self._asked(selection)

        def cleared(definitions: Definitions) -> frozenset[QualifiedName]:
            begun = {flow.target for flow in definitions.flows if self.state.resetting(flow)}
            return frozenset({*(dataset.name for dataset in definitions.datasets if asked(dataset)), *begun})

        return cleared

    def _asked(self, selection: Selection) -> Callable[[Dataset], bool]:
        names = cleared_names(selection, self._settings.naming)
        return lambda dataset: dataset.name in names or (selection.full_refresh_all and dataset.resettable)

    def plan(self, graph: ResolvedGraph, selection: Selection, *, continuous: bool | None = None) -> Plan:
        """What an update would do.

        Raises:
            Problems: everything that is wrong with the selection, or keeps the storage from taking what is declared.
        """
        settings = self._settings
        self._logged.forget()
        selected = select(graph, selection, settings.naming)
        past = self._past()
        plan = build_plan(graph, self.state, past, selected.without(self._rehearsal.given))
        plan = replace(plan, renames=self.renames(graph))
        if not self._rehearsal.only:
            plan = replace(plan, inactive=past.inactive(graph))
        goes_on = settings.continuous if continuous is None else continuous
        return with_triggers(plan, continuous=goes_on, interval_s=settings.trigger_interval_s)

    def wanted(self, selection: Selection, *, leaves_out: bool) -> Resolving:
        """What a project is resolved for that a selection of it is to be updated."""
        kept, cleared = self.kept(selection), self.cleared(selection)
        return Resolving(kept, cleared, unusable(self._settings), leaves_out, self.taken)

    def load(self, graph: ResolvedGraph, wanted: Backfill) -> Plan:
        """What a backfill would do.

        Raises:
            Problems, PipelineError: as :meth:`plan`, and BACKFILL.*.
        """
        past = self._past()
        plan = self.plan(graph, Selection(), continuous=False)
        return with_load(plan, wanted, self.state, past, self._settings.naming)

    def replay(self, graph: ResolvedGraph, wanted: Replayed) -> Plan:
        """What a replay of quarantine would do.

        Raises:
            Problems, PipelineError: as :meth:`plan`, and REPLAY.*.
        """
        settings = self._settings
        plan = self.plan(graph, Selection(), continuous=False)
        return with_replay(plan, wanted, self.state, settings.layout, settings.naming)

    def renames(self, graph: ResolvedGraph) -> tuple[Rename, ...]:
        """The renames of the settings that are still to be done.

        Raises:
            Problems: some cannot be done.
        """
        settings = self._settings
        # What is left out of an update keeps its old name until it is back.
        datasets = {old: new for old, new in settings.renamed_datasets.items() if not self._is_absent(graph, new)}
        flows_away = {away.name for away in graph.away}
        flows = {old: new for old, new in settings.renamed_flows.items() if new not in flows_away}
        names = NewNames(datasets, flows)
        place = settings.places.get("renames", Location(settings.file.name))
        return renames(names, graph, settings.naming, self._stored, place)

    def carry_out(self, planned: tuple[Rename, ...], at: Failpoints) -> None:
        """Move what lies under old names; only the holder of the lease may."""
        for rename in planned:
            self._stored.carry_out(rename, lambda: at(Failpoint.RENAMED))

    def _is_absent(self, graph: ResolvedGraph, name: str) -> bool:
        try:
            canonical = self._settings.naming.canonical(name)
        except InvalidName:
            return False
        return canonical in graph.absent

    def _past(self) -> StoredPast:
        datasets = {old: new for new, old in self._before.items()}
        names = NamesNow(datasets, self._settings.renamed_flows)
        return StoredPast(self._layout, self._settings.naming, self.state, names)

    def _old_names(self) -> list[tuple[QualifiedName, QualifiedName]]:
        found = []
        naming = self._settings.naming
        for old, new in self._settings.renamed_datasets.items():
            try:
                found.append((naming.canonical(new), naming.canonical(old)))
            except InvalidName:
                # Said with all that is wrong when a plan is made.
                continue
        return found
