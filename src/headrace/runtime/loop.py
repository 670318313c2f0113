"""The loop of an update: each flow runs when its inputs are current; a failure stops only the flows that read it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol, assert_never

from headrace.events.types import Warned
from headrace.model.outcome import FlowState, UpdateState
from headrace.plan.steps import Decision, Plan
from headrace.runtime import retry
from headrace.runtime.board import Board
from headrace.runtime.ports import (
    Canceled,
    Completed,
    Current,
    Emit,
    Failed,
    FlowStarter,
    Idle,
    NothingNew,
    Report,
    SchemaEvolution,
    Started,
)

# How often a flow is restarted in one update because its source has new columns. A source whose field names come from
# data would restart it without end.
MAX_SCHEMA_EVOLUTIONS = 100
# The states of flows that are not started.
_WITHOUT_RUNNING = {
    Decision.FAIL: FlowState.FAILED,
    Decision.SKIP: FlowState.SKIPPED,
    Decision.EXCLUDE: FlowState.EXCLUDED,
}


class Clock(Protocol):
    """The clock of the loop, injected."""

    def monotonic(self) -> float:
        """Monotonic seconds, for waiting."""

    def now(self) -> datetime:
        """The time of day, UTC."""


def run(
    plan: Plan,
    starter: FlowStarter,
    clock: Clock,
    emit: Emit,
    *,
    limit: int,
    max_retries: int | None,
    before: Board | None = None,
) -> Board:
    """Run every step of *plan*; return the board when all flows have ended.

    When the schema of a source evolves, the loop returns an unfinished board with nothing running. The caller resolves
    and plans the graph again, and continues with that board.

    Args:
        plan: the steps.
        starter: starts flows and reports on them.
        clock: for waiting and durations.
        emit: receives every state transition of a flow.
        limit: how many flows run at a time, at least 1; in a continuous update all of them do.
        max_retries: how often a flow is retried after a transient failure, None for no limit; in a continuous update
            only failures without a completed batch between them count.
        before: the board that the loop over an earlier plan of the same update returned.
    """
    loop = _Loop(Board.for_plan(plan, before), starter, clock, emit, limit, max_retries)
    loop.end_unstarted()
    loop.skip_blocked()
    while not loop.board.is_finished:
        if starter.is_stopping:
            loop.cancel_waiting()
        elif loop.schema_evolved:
            loop.end_active_flows()
        else:
            loop.start_ready()
        if loop.board.is_finished:
            break
        if loop.schema_evolved and not loop.board.is_busy:
            break
        for report in starter.wait(loop.wait_timeout_s()):
            loop.handle(report)
        loop.skip_blocked()
    return loop.board


def state_of(board: Board, *, interrupted: bool = False) -> UpdateState:
    """The final state of the update.

    Args:
        board: the final states of its flows.
        interrupted: whether a person interrupted it; a continuous update that was stopped otherwise is completed.
    """
    states = {status.state for status in board.statuses.values()}
    if FlowState.FAILED in states:
        return UpdateState.FAILED
    if board.plan.continuous:
        return UpdateState.CANCELED if interrupted else UpdateState.COMPLETED
    return UpdateState.CANCELED if FlowState.CANCELED in states else UpdateState.COMPLETED


def first_error(board: Board) -> dict[str, Any] | None:
    """The error of the first failed flow in the plan's order, as JSON."""
    failed = (status for status in board.statuses.values() if status.state is FlowState.FAILED)
    return next((dict(status.error) for status in failed if status.error), None)


class _Loop:
    """The mutable state of one run."""

    def __init__(
        self, board: Board, starter: FlowStarter, clock: Clock, emit: Emit, limit: int, max_retries: int | None
    ) -> None:
        self.board = board
        self._starter = starter
        self._clock = clock
        self._emit = emit
        self._limit = limit
        self._max_retries = max_retries
        self._stop_sent = False
        # True once the schema of a source has evolved.
        self.schema_evolved = False

    def end_active_flows(self) -> None:
        """Start no more flows and stop the running ones, so that the graph can be resolved again."""
        if self.board.plan.continuous and not self._stop_sent:
            self._stop_sent = True
            self._starter.stop()

    def end_unstarted(self) -> None:
        """End the flows that the plan does not start."""
        for step in self.board.plan.flows:
            if self.board.statuses[step.flow.name].state is not FlowState.QUEUED:
                continue
            if step.decision is Decision.UP_TO_DATE:
                self._move(step.flow.name, FlowState.UP_TO_DATE, reason=step.reason)
            elif step.decision in _WITHOUT_RUNNING:
                error = step.error.to_json() if step.error is not None else None
                self._move(step.flow.name, _WITHOUT_RUNNING[step.decision], reason=step.reason, error=error)
        for unavailable in self.board.plan.unavailable:
            if self.board.statuses[unavailable.flow.name].state is FlowState.QUEUED:
                error = unavailable.flow.error.to_json() if unavailable.decision is Decision.FAIL else None
                self._move(
                    unavailable.flow.name,
                    _WITHOUT_RUNNING[unavailable.decision],
                    reason=unavailable.reason,
                    error=error,
                )

    def start_ready(self) -> None:
        """Start all flows that may start."""
        for flow in self.board.ready(self._clock.monotonic(), self._max_running):
            attempt = self.board.statuses[flow].attempts + 1
            began = self.board.statuses[flow].began_at or self._clock.now()
            step = self.board.plan.step_for(flow)
            self._move(flow, FlowState.STARTING, attempts=attempt, began_at=began, reason=step.reason)
            self._starter.start(step, self.board.plan.table_step_for(step.flow.target), attempt)

    def cancel_waiting(self) -> None:
        """Cancel the flows that have not started, and stop the running ones."""
        for flow, status in self.board.statuses.items():
            if status.state in (FlowState.QUEUED, FlowState.RETRYING):
                self._move(flow, FlowState.CANCELED, reason="the update was stopped")
        if not self._stop_sent:
            self._stop_sent = True
            self._starter.stop()

    def wait_timeout_s(self) -> float | None:
        """How long to wait for reports; None, without limit, if nothing can start before the next report."""
        retry_at = (
            self.board.next_retry if len(self.board.active) < self._max_running and not self.schema_evolved else None
        )
        return None if retry_at is None else max(retry_at - self._clock.monotonic(), 0.0)

    def handle(self, report: Report) -> None:
        """Apply a report to its flow."""
        match report:
            case Started():
                self._enter(report.flow, FlowState.RUNNING)
            case Idle():
                self._enter(report.flow, FlowState.IDLE)
            case Current():
                self._current(report.flow)
            case Completed():
                self._end(report.flow, FlowState.COMPLETED)
            case NothingNew():
                self._end(report.flow, FlowState.UP_TO_DATE, reason=report.reason, attempts=0)
            case Canceled():
                self._end(report.flow, FlowState.CANCELED, reason="the update was stopped")
            case Failed():
                self._fail(report)
            case _:
                assert_never(report)

    def _current(self, flow: str) -> None:
        # In a triggered update, readers of a table wait for all of it.
        if self.board.plan.continuous:
            self.board = self.board.with_current(flow)

    def _enter(self, flow: str, state: FlowState) -> None:
        """Move a flow, unless it has the state: a stream after a backfill runs already, a view may stay idle."""
        if self.board.statuses[flow].state is not state:
            self._move(flow, state)

    def skip_blocked(self) -> None:
        """Skip flows that read, directly or indirectly, a dataset that will not become current."""
        while blocked := self.board.blocked():
            for flow, dataset in blocked:
                self._move(flow, FlowState.SKIPPED, reason=f'input "{dataset}" was not updated')

    def _fail(self, failure: Failed) -> None:
        status = self.board.statuses[failure.flow]
        continuous = self.board.plan.continuous
        in_a_row = 1 if continuous and failure.progressed else status.failures_in_a_row + 1
        may_retry = self._max_retries is None or in_a_row <= self._max_retries
        is_transient = retry.retryable(failure) or failure.schema_evolution is not None
        if is_transient and self._starter.is_stopping:
            self._end(failure.flow, FlowState.CANCELED, reason="the update was stopped")
        elif failure.schema_evolution is not None and status.schema_evolutions < MAX_SCHEMA_EVOLUTIONS:
            self._evolve(failure, failure.schema_evolution)
        elif is_transient and may_retry and failure.schema_evolution is None:
            wait_s = retry.delay_s(in_a_row)
            self._move(
                failure.flow,
                FlowState.RETRYING,
                reason=f"next attempt in {wait_s:g} s: {failure.error.message}",
                retry_at=self._clock.monotonic() + wait_s,
                failures_in_a_row=in_a_row,
                error=failure.error.to_json(),
            )
        else:
            error = failure.error
            reason = f"{error.message} ({error.location})" if error.location else error.message
            self._end(failure.flow, FlowState.FAILED, reason=reason, error=error.to_json())

    def _evolve(self, failure: Failed, schema_evolution: SchemaEvolution) -> None:
        status = self.board.statuses[failure.flow]
        message = f'flow "{failure.flow}": {schema_evolution.message}'
        self._emit(Warned(schema_evolution.code, message, failure.flow, status.dataset))
        reason = f"restarting: {schema_evolution.message}"
        evolutions = status.schema_evolutions + 1
        self._move(failure.flow, FlowState.RETRYING, reason=reason, schema_evolutions=evolutions, failures_in_a_row=0)
        self.schema_evolved = True

    @property
    def _max_running(self) -> int:
        """The most flows that run at a time."""
        return len(self.board.statuses) if self.board.plan.continuous else self._limit

    def _end(self, flow: str, state: FlowState, **changes: Any) -> None:
        began = self.board.statuses[flow].began_at
        duration_s = (self._clock.now() - began).total_seconds() if began else 0.0
        self._move(flow, state, duration_s=duration_s, **changes)

    def _move(self, flow: str, state: FlowState, **changes: Any) -> None:
        self.board = self.board.with_state(flow, state, self._emit, **changes)
