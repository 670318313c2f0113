"""The changes that an update would make: as plans for people, as files, and applied from a file."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from headrace.errors import PipelineError
from headrace.events.types import Event
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import Selection
from headrace.model.outcome import Outcome
from headrace.model.replay_preview import ReplayPreview
from headrace.plan.backfills import ReplayRequest
from headrace.plan.change_work import with_changes
from headrace.plan.code_diff import CodeDiff
from headrace.plan.drift import early_differences
from headrace.plan.plan_file import PlanFile, check_approved
from headrace.plan.refused import RefusedPlan
from headrace.plan.steps import Plan
from headrace.project.changes.deployed_code import diff_of_plan
from headrace.project.changes.gates import PlanGate, refuse_drift
from headrace.project.changes.pipeline_updates import PipelineUpdates
from headrace.project.changes.plan_document import PlanDocuments
from headrace.project.inspection.replay_preview import replay_preview
from headrace.project.lease_holders import user_name
from headrace.project.planning.resolve_selection import ResolvedSelection


@dataclass(frozen=True)
class PipelineChanges:
    """Plans the changes of a pipeline, and applies approved plans.

    Attributes:
        updates: runs its updates.
    """

    updates: PipelineUpdates

    def plan(self, selection: Selection) -> Plan:
        """The plan of an update with its changes; writes nothing.

        Raises:
            Problems: all problems of the project or the selection.
            RefusedPlan: the update would not run; has its plan, with what blocks it.
        """
        with self.updates.planning.reading():
            found = self._resolved(selection)
            try:
                plan = self.updates.planning.plan(found.project.graph, found.selection)
            except RefusedPlan as refused:
                raise RefusedPlan(with_changes(refused.plan, self.updates.flows)) from None
            return with_changes(plan, self.updates.flows)

    def diff(self, plan: Plan) -> CodeDiff:
        """The code of changed flows, as they last ran, against the code of now. The texts can contain secrets."""
        with self.updates.planning.reading():
            return diff_of_plan(
                plan, self.updates.settings, self.updates.planning.state, self.updates.flows.has_new_code
            )

    def file_of(self, plan: Plan, selection: Selection, made_by: str | None = None) -> PlanFile:
        """A plan as a file that can be approved and applied; valid for 24 hours.

        Args:
            plan: of :meth:`plan`.
            selection: what it updates.
            made_by: who makes it; None for the user of this process.
        """
        made_by = made_by or user_name(self.updates.environ) or ""
        with self.updates.planning.reading():
            # What selectors find may be something else when the plan is applied.
            exact = selection if selection.is_exact else self._resolved(selection).selection
            return PlanFile(self._documents.document(plan, exact, made_by, self.updates.harness.clock()))

    def apply(
        self,
        plan_file: PlanFile,
        name: str,
        *,
        on_event: Callable[[Event], None] | None = None,
        stop: threading.Event | None = None,
        savepoint: bool = True,
    ) -> Outcome:
        """Run one update if its plan is still that of the file; the plan that is compared is the one that runs.

        Args:
            plan_file: the plan.
            name: of its file, for errors.
            on_event: receives every event as it happens.
            stop: stops the update early when set.
            savepoint: make a savepoint before anything is written, to which the plan can be rolled back.

        Raises:
            PipelineError: PLAN.UNREADABLE, PLAN.NOT_APPROVED, PLAN.REJECTED, PLAN.DRIFTED: nothing was written;
                LEASE.HELD.
            Problems: all problems of the project; nothing was written.
        """
        updates, now = self.updates, self.updates.harness.clock
        if plan_file.stage:
            raise PipelineError("PLAN.UNREADABLE", file=name, reason="it is the plan of a swap, and not of an update")
        check_approved(plan_file, updates.settings.approval, name)
        # Files could change while they are loaded: they are compared before, and after it with everything else.
        refuse_drift(plan_file, name, early_differences(plan_file, self._documents.early(), now()))

        def prepare(plan: Plan) -> None:
            if savepoint and not plan.empty:
                updates.automatic.before_plan(plan_file.plan_id)

        gate = PlanGate(plan_file, name, self._documents, updates.flows, now, prepare)

        def planned(graph: ResolvedGraph, selection: Selection) -> Plan:
            return updates.planning.plan(graph, selection, continuous=False)

        return updates.run(plan_file.selection, planned, on_event, stop, gate=gate)

    def preview_replay(self, request: ReplayRequest) -> ReplayPreview:
        """Count which of the quarantined rows a replay would write, with their new values; writes nothing.

        Rules about other rows of the table, such as unique keys, are evaluated among the selected rows alone.

        Raises:
            Problems, PipelineError: as of a replay; REPLAY.NO_PREVIEW for rows that have to be computed or delivered
                to know; the error with which an expression fails.
        """
        updates = self.updates
        with updates.planning.reading():
            wanted = updates.planning.tables.update_request(Selection(), skip_unavailable=False)
            resolved = updates.resolver.resolve(wanted)
            plan = updates.planning.replay(resolved.graph, request)
            state, settings = updates.planning.state, updates.settings
            return replay_preview(plan, resolved, state, settings, updates.secrets.redact)

    def _resolved(self, selection: Selection) -> ResolvedSelection:
        updates = self.updates
        return updates.planning.resolve(updates.resolver.resolve, selection, skip_unavailable=True)

    @property
    def _documents(self) -> PlanDocuments:
        updates = self.updates
        return PlanDocuments(updates.settings, updates.planning.state, updates.secrets.redact)
