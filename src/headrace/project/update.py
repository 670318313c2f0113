"""Runs one update of a resolved project: events, signals, the loop, the outcome."""

from __future__ import annotations

import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from headrace.cdc.table_lock import TableLock
from headrace.errors import InternalError, PipelineError
from headrace.events.envelope import Origin, redacted
from headrace.events.log import EventLog
from headrace.events.outcome import OutcomeBuilder
from headrace.events.reader import EventReader
from headrace.events.types import BatchDone, Event, FlowStateChanged, UpdateCreated, UpdateStateChanged, Warned
from headrace.graph.select import Selection
from headrace.model.outcome import FlowState, Outcome, UpdateState
from headrace.model.samples import SAMPLES_KEY
from headrace.plan.renames import Rename
from headrace.plan.steps import Plan
from headrace.project.early_stop import StopSignals
from headrace.project.hooks import Hooks
from headrace.project.initial_events import (
    definition_events,
    graph_warnings,
    plan_warnings,
    recorded_selection,
    recorded_settings,
    settings_warnings,
)
from headrace.project.java_garbage import GarbageCollection
from headrace.project.lease import Lease
from headrace.project.planning import known_counts
from headrace.project.resolution import Resolved
from headrace.runtime.board import Board
from headrace.runtime.failpoints import Failpoints
from headrace.runtime.loop import first_error, run, state_of
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings
from headrace.spark.execution.flow_threads import ThreadedFlows
from headrace.spark.jvm.process import jvm_pid
from headrace.spark.session.active_session import make_active
from headrace.spark.update.context import FlowDefaults, Reporting, UpdateContext
from headrace.spark.update.guard import Guard
from headrace.storage.change_detection import StoredState
from headrace.storage.view_definitions import apply_view_step

_CAUSE = "USER_ACTION"
_TOTAL_EVERY_BATCHES = 1000
_STOP_POLL_INTERVAL_S = 0.2


@dataclass(frozen=True)
class Update:
    """The inputs of an update, besides its plan."""

    settings: Settings
    secrets: Secrets
    resolved: Resolved
    state: StoredState
    lease: Lease
    failpoints: Failpoints
    # Applies renames, after the event log has recorded them.
    apply_renames: Callable[[tuple[Rename, ...]], None]
    # Resolves and plans the remaining flows of a board again, after the schema of a source evolved.
    replan: Callable[[Board], tuple[Resolved, Plan]]

    def run(
        self,
        plan: Plan,
        selection: Selection,
        on_event: Callable[[Event], None] | None,
        stop_signals: StopSignals,
    ) -> Outcome:
        """Run the plan until it is done or stopped; every event goes to the log and to *on_event*."""
        settings = self.settings
        update_id = str(uuid.uuid4())
        session = self.resolved.catalog.session
        self.lease.record_jvm(jvm_pid(session))
        origin = Origin(settings.id, settings.name, update_id, host=socket.gethostname())
        log = EventLog(
            settings.layout.events,
            origin=origin,
            clock=now,
            new_id=lambda: str(uuid.uuid4()),
            redact=self.secrets.redact,
            on_row=lambda row: hooks.notify(row),  # noqa: PLW0108 - hooks is assigned after the log
            retain_s=settings.event_log_retain_s,
        )
        # The outcome comes from the logged events, built as any other process would build it.
        builder = OutcomeBuilder(update_id)
        order = threading.Lock()
        batches = count(1)
        garbage = GarbageCollection()
        with log, ExitStack() as stack:

            def emit(event: Event) -> None:
                # Terminals and programs receive only what the log stores.
                event = redacted(event, self.secrets.redact)
                with order:
                    builder.apply(event, log.emit(event))
                    if isinstance(event, BatchDone) and next(batches) % _TOTAL_EVERY_BATCHES == 0:
                        # So that `status` need not read all batches of a continuous update.
                        log.emit(builder.total())
                if on_event is not None:
                    on_event(event)
                if isinstance(event, BatchDone):
                    garbage.batch_done()

            hooks = stack.enter_context(Hooks(self.resolved.hooks, emit, lambda: make_active(session)))
            emit(UpdateCreated(_CAUSE, recorded_settings(settings), recorded_selection(selection)))
            for initial_event in (
                *settings_warnings(settings),
                *graph_warnings(self.resolved.graph),
                *(Warned(code, message) for code, message in self.resolved.notices),
                *plan_warnings(plan),
                *definition_events(self.resolved.graph),
            ):
                emit(initial_event)
            emit(UpdateStateChanged(UpdateState.RUNNING))
            try:
                self.apply_renames(plan.renames)
                board = self._run_plan(plan, update_id, emit, stop_signals)
                while not board.is_finished:
                    resolved, plan = self.replan(board)
                    evolved = replace(self, resolved=resolved)
                    board = evolved._run_plan(plan, update_id, emit, stop_signals, board)  # noqa: SLF001 - its own
                self.lease.check()
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

    def _run_plan(
        self,
        plan: Plan,
        update_id: str,
        emit: Callable[[Event], None],
        stop_signals: StopSignals,
        before: Board | None = None,
    ) -> Board:
        settings = self.settings
        for step in plan.views:
            self.lease.check()
            apply_view_step(step, settings.layout, settings.naming)
        context = UpdateContext(
            update_id=update_id,
            pipeline_id=settings.id,
            graph=self.resolved.graph,
            catalog=self.resolved.catalog,
            state=self.state,
            layout=settings.layout,
            naming=settings.naming,
            root=settings.root,
            reporting=Reporting(
                emit=emit,
                known_counts=known_counts(EventReader(settings.layout.events), self.state, self.resolved.graph),
                now=time.time,
                redact=self.secrets.redact,
                traces=Path(settings.layout.logs) / f"{update_id}.log",
            ),
            guard=Guard(self.failpoints, self.lease.check, self.lease.number),
            defaults=FlowDefaults(
                retention=settings.retention,
                on_tie=settings.on_tie,
                dead_letter_policy=settings.on_failing_rows,
                samples=self.resolved.catalog.session.conf.get(SAMPLES_KEY, None),
            ),
            table_locks={dataset.name: TableLock() for dataset in self.resolved.graph.datasets},
            stop_timeout_s=settings.stop_timeout_s,
            max_parallel_flows=settings.max_parallel_flows,
        )
        flows = ThreadedFlows(context)
        self.lease.when_lost(flows.abandon)
        flows.announce(plan.tables)
        with stop_signals.on_stop(flows.request_stop, flows.stop_now):
            try:
                return run(
                    plan,
                    flows,
                    _Clock(),
                    emit,
                    limit=settings.max_parallel_flows,
                    max_retries=settings.flow_retries(continuous=plan.continuous),
                    before=before,
                )
            finally:
                # Nothing may write for this update after the lease is released.
                flows.close()


class _Clock:
    """The real clock."""

    def monotonic(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def now(self) -> datetime:
        """The time of day, UTC."""
        return now()


def now() -> datetime:
    """The time of day, UTC."""
    return datetime.now(tz=UTC)
