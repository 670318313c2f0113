"""One update of a resolved project: events, signals, the loop, the outcome."""

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
from headrace.events.outcome import Replay
from headrace.events.reader import EventReader
from headrace.events.types import BatchDone, Event, FlowMoved, UpdateCreated, UpdateMoved, Warned
from headrace.graph.select import Selection
from headrace.model.outcome import FlowState, Outcome, UpdateState
from headrace.model.samples import SAMPLES_KEY
from headrace.plan.renames import Rename
from headrace.plan.steps import Plan
from headrace.project.early_stop import Ending
from headrace.project.hooks import Hooks
from headrace.project.initial_events import (
    definitions_said,
    graph_warnings,
    plan_warnings,
    selection_said,
    settings_said,
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
from headrace.spark.update.context import UpdateContext
from headrace.storage.change_detection import StoredState
from headrace.storage.view_definitions import apply_view_step

_CAUSE = "USER_ACTION"
_TOTAL_EVERY_BATCHES = 1000
_LOOK_FOR_STOP_EVERY_S = 0.2


@dataclass(frozen=True)
class Update:
    """What an update needs besides its plan."""

    settings: Settings
    secrets: Secrets
    resolved: Resolved
    state: StoredState
    lease: Lease
    at: Failpoints
    # Moves what has a new name; done once the event log knows of it.
    carry_out: Callable[[tuple[Rename, ...]], None]
    # Resolves and plans anew what a board has left, where the schema of a source has grown.
    again: Callable[[Board], tuple[Resolved, Plan]]

    def run(
        self,
        plan: Plan,
        selection: Selection,
        on_event: Callable[[Event], None] | None,
        ending: Ending,
    ) -> Outcome:
        """Run the plan until it is done or is to end; every event goes to the log and to *on_event*."""
        settings = self.settings
        update_id = str(uuid.uuid4())
        session = self.resolved.catalog.session
        self.lease.names_jvm(jvm_pid(session))
        origin = Origin(settings.id, settings.name, update_id, host=socket.gethostname())
        log = EventLog(
            settings.layout.events,
            origin=origin,
            clock=now,
            new_id=lambda: str(uuid.uuid4()),
            redact=self.secrets.redact,
            told=lambda row: hooks.tell(row),  # noqa: PLW0108 - there are no hooks before the log
            retain_s=settings.event_log_retain_s,
        )
        # The outcome is what the log says: the same events, replayed as any other process would.
        replay = Replay(update_id)
        order = threading.Lock()
        batches = count(1)
        garbage = GarbageCollection()
        with log, ExitStack() as told:

            def emit(event: Event) -> None:
                # Whoever is told, on a terminal or in a program, is told no more than the log.
                event = redacted(event, self.secrets.redact)
                with order:
                    replay.apply(event, log.emit(event))
                    if isinstance(event, BatchDone) and next(batches) % _TOTAL_EVERY_BATCHES == 0:
                        # So that whoever asks for the status need not read all batches of an update that goes on.
                        log.emit(replay.total())
                if on_event is not None:
                    on_event(event)
                if isinstance(event, BatchDone):
                    garbage.batch_done()

            hooks = told.enter_context(Hooks(self.resolved.hooks, emit, lambda: make_active(session)))
            emit(UpdateCreated(_CAUSE, settings_said(settings), selection_said(selection)))
            for said in (
                *settings_warnings(settings),
                *graph_warnings(self.resolved.graph),
                *(Warned(code, message) for code, message in self.resolved.notices),
                *plan_warnings(plan),
                *definitions_said(self.resolved.graph),
            ):
                emit(said)
            emit(UpdateMoved(UpdateState.RUNNING))
            try:
                self.carry_out(plan.renames)
                board = self._run_plan(plan, update_id, emit, ending)
                while not board.settled:
                    resolved, plan = self.again(board)
                    grown = replace(self, resolved=resolved)
                    board = grown._run_plan(plan, update_id, emit, ending, board)  # noqa: SLF001 - its own
                self.lease.check()
            except BaseException as error:
                # Whoever reads the log must not wait for this update.
                said_error = error.to_json() if isinstance(error, PipelineError) else None
                state = UpdateState.CANCELED if isinstance(error, KeyboardInterrupt) else UpdateState.FAILED
                for flow in replay.going_on():
                    emit(FlowMoved(flow.flow, flow.dataset, FlowState.CANCELED, attempt=flow.attempts))
                emit(UpdateMoved(state, said_error))
                raise
            emit(UpdateMoved(state_of(board, interrupted=ending.interrupted), first_error(board)))
        outcome = replay.outcome()
        if outcome is None:
            raise InternalError("the update left no event")
        return outcome

    def _run_plan(
        self, plan: Plan, update_id: str, emit: Callable[[Event], None], ending: Ending, before: Board | None = None
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
            emit=emit,
            known_counts=known_counts(EventReader(settings.layout.events), self.state, self.resolved.graph),
            now=time.time,
            redact=self.secrets.redact,
            traces=Path(settings.layout.logs) / f"{update_id}.log",
            at=self.at,
            fence=self.lease.check,
            term=self.lease.number,
            retention=settings.retention,
            on_tie=settings.on_tie,
            on_failing_rows=settings.on_failing_rows,
            samples=self.resolved.catalog.session.conf.get(SAMPLES_KEY, None),
            turns={dataset.name: TableLock() for dataset in self.resolved.graph.datasets},
            stop_timeout_s=settings.stop_grace_s,
            max_parallel_flows=settings.max_parallel_flows,
        )
        flows = ThreadedFlows(context)
        self.lease.when_lost(flows.abandon)
        flows.announce(plan.tables)
        with ending.asked_with(flows.ask_to_stop, flows.break_off):
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
                # Nothing of this update may write once the lease is given back.
                flows.close()


class _Clock:
    """The real time."""

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()

    def now(self) -> datetime:
        """The time of day, UTC."""
        return now()


def now() -> datetime:
    """The time of day, UTC."""
    return datetime.now(tz=UTC)
