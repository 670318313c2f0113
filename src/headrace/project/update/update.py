"""Runs one update of a resolved project: events, signals, the loop, the outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from headrace.errors import InternalError, PipelineError
from headrace.events.types import Event, FlowStateChanged, UpdateStateChanged, Warned
from headrace.graph.select import Selection
from headrace.model.outcome import FlowState, Outcome, UpdateCause, UpdateState
from headrace.plan.steps import Plan
from headrace.project.lease import Lease
from headrace.project.resolution.resolve_request import Resolved
from headrace.project.update.alert_monitor import AlertMonitor
from headrace.project.update.code_version import archive_code
from headrace.project.update.early_stop import StopSignals
from headrace.project.update.initial_events import created_event, initial_events
from headrace.project.update.recorded_events import outcome_of_request, recorded_events
from headrace.project.update.run_plan import PlanRun
from headrace.runtime.board import Board
from headrace.runtime.failpoints import Failpoints
from headrace.runtime.loop import first_error, state_of
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings
from headrace.spark.jvm.process import jvm_pid
from headrace.storage.change_detection import StoredState

_NOT_UP_TO_DATE = "CATALOG.NOT_UP_TO_DATE"


class UpdateGate(Protocol):
    """Decides whether the plan of an update may run, and does what has to be done before it does."""

    @property
    def plan_id(self) -> str | None:
        """The id of the plan that is applied, for the event log; None if the update applies none."""

    def check(self, plan: Plan) -> None:
        """Return if a plan may run. Called before anything is written, and again under the lease.

        Raises:
            PipelineError: PLAN.*: it may not.
        """

    def before_run(self, plan: Plan) -> None:
        """Called once, under the lease, with the plan that was checked, before the update writes anything."""


class UpdatePublication(Protocol):
    """Publishes the tables of the pipeline in metastores."""

    @property
    def problems(self) -> Mapping[str, PipelineError]:
        """By catalog, why its metastore was not asked, or did not do what it was asked, last time."""

    def check(self, plan: Plan) -> None:
        """Return if the names are free, or the pipeline's own.

        Raises:
            Problems: CATALOG.TABLE_TAKEN.
        """

    def claim(self, plan: Plan) -> None:
        """Take the names of the tables that a plan fills; called under the lease, before anything is written.

        Raises:
            Problems: CATALOG.TABLE_TAKEN.
        """

    def publish(self, plan: Plan) -> tuple[PipelineError, ...]:
        """Bring the metastores up to date with the tables; returns what could not be done."""


@dataclass(frozen=True)
class Update:
    """The inputs of an update, besides its plan."""

    update_id: str
    settings: Settings
    secrets: Secrets
    environ: Mapping[str, str]
    resolved: Resolved
    state: StoredState
    lease: Lease
    failpoints: Failpoints
    # The time of its events, with a zone.
    clock: Callable[[], datetime]
    # Why, and who starts it; None if unknown.
    cause: UpdateCause
    user: str | None
    # Of the request that it answers; None for none.
    request_id: str | None
    # Applies renames, after the event log has recorded them.
    apply_renames: Callable[[Plan], None]
    # Resolves and plans the remaining flows of a board again, after the schema of a source evolved.
    replan: Callable[[Board], tuple[Resolved, Plan]]
    monitor: AlertMonitor
    gate: UpdateGate
    publication: UpdatePublication

    def earlier_outcome(self) -> Outcome | None:
        """How an earlier update ended that answers the same request; None without one."""
        return None if self.request_id is None else outcome_of_request(self.settings, self.request_id)

    def run(
        self,
        plan: Plan,
        selection: Selection,
        on_event: Callable[[Event], None] | None,
        stop_signals: StopSignals,
    ) -> Outcome:
        """Run the plan until it is done or stopped; every event goes to the log and to *on_event*."""
        settings = self.settings
        update_id = self.update_id
        self.gate.before_run(plan)
        code_digest = archive_code(settings)
        self.lease.record_jvm(jvm_pid(self.resolved.catalog.session))
        watch = self.monitor.watch(update_id)

        def on_recorded(event: Event) -> None:
            watch.add(event)
            if on_event is not None:
                on_event(event)

        with (
            recorded_events(
                update_id, settings, self.secrets, self.environ, self.resolved, on_recorded, self.clock
            ) as (emit, builder),
            watch.during(emit, continuous=plan.continuous),
        ):
            created = created_event(settings, selection, self.cause, self.user, continuous=plan.continuous)
            emit(replace(created, code_digest=code_digest, plan_id=self.gate.plan_id, request_id=self.request_id))
            for initial_event in initial_events(settings, self.resolved.graph, plan, self.resolved.notices):
                emit(initial_event)
            for warning in _unpublished(self.publication.problems.values()):
                emit(warning)
            emit(UpdateStateChanged(UpdateState.RUNNING))
            try:
                self.apply_renames(plan)
                run = PlanRun(
                    settings,
                    self.state,
                    self.lease,
                    self.failpoints,
                    self.secrets.redact,
                    update_id,
                    emit,
                    stop_signals,
                    code_digest,
                )
                board = run.run(plan, self.resolved)
                while not board.is_finished:
                    resolved, plan = self.replan(board)
                    board = run.run(plan, resolved, board)
                self.lease.check()
                for warning in _unpublished(self.publication.publish(plan)):
                    emit(warning)
            except BaseException as error:
                # Readers of the log must not wait for this update.
                error_json = error.to_json() if isinstance(error, PipelineError) else None
                state = UpdateState.CANCELED if isinstance(error, KeyboardInterrupt) else UpdateState.FAILED
                for flow in builder.running_flows():
                    emit(FlowStateChanged(flow.flow, flow.dataset, FlowState.CANCELED, attempt=flow.attempts))
                emit(UpdateStateChanged(state, error_json))
                raise
            emit(UpdateStateChanged(state_of(board, interrupted=stop_signals.interrupted), first_error(board)))
        outcome = builder.outcome()
        if outcome is None:
            raise InternalError("the update left no event")
        return outcome


def _unpublished(problems: Iterable[PipelineError]) -> Iterator[Warned]:
    """A warning about each catalog that is not up to date."""
    for problem in problems:
        message = (
            f'catalog "{problem.params["catalog"]}" is not up to date, the next update repairs it: {problem.message}'
        )
        yield Warned(_NOT_UP_TO_DATE, message, facts={"reason": problem.code})
