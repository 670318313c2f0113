"""The loop of an update: each flow runs once its inputs are current; what fails stops only what reads it."""

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
    Growth,
    Idle,
    NothingNew,
    Report,
    Started,
)

# How often a flow is started again in one update because its source has new columns: a source whose fields are made of
# data would never end.
MOST_GROWTHS = 100
# What becomes of flows that are not started.
_WITHOUT_RUNNING = {
    Decision.FAIL: FlowState.FAILED,
    Decision.SKIP: FlowState.SKIPPED,
    Decision.EXCLUDE: FlowState.EXCLUDED,
}


class Clock(Protocol):
    """Time, passed in."""

    def monotonic(self) -> float:
        """Seconds that only grow, for waiting."""

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
    """Run every step of *plan*; return the board when nothing can move.

    When the schema of a source has grown, the board is returned unsettled, with nothing running: the graph is to be
    resolved and planned again, and the loop goes on from that board.

    Args:
        plan: what to do.
        starter: starts flows and reports on them.
        clock: for waiting and durations.
        emit: gets every move of a flow.
        limit: how many flows run at a time, at least 1; in a continuous update all of them do.
        max_retries: how often a flow is tried again after a failure that may pass, None without end; in a continuous
            update it counts failures with no batch between them.
        before: the board that a loop over an earlier plan of the same update has returned.
    """
    loop = _Loop(Board.for_plan(plan, before), starter, clock, emit, limit, max_retries)
    loop.settle_unstarted()
    loop.skip_blocked()
    while not loop.board.settled:
        if starter.stopping:
            loop.cancel_waiting()
        elif loop.grown:
            loop.let_end()
        else:
            loop.begin_ready()
        if loop.board.settled:
            break
        if loop.grown and not loop.board.busy:
            break
        for report in starter.wait(loop.patience_s()):
            loop.take(report)
        loop.skip_blocked()
    return loop.board


def state_of(board: Board, *, interrupted: bool = False) -> UpdateState:
    """How the update ended.

    Args:
        board: where its flows ended.
        interrupted: whether a person broke it off; a continuous update that was stopped otherwise has completed.
    """
    states = {status.state for status in board.statuses.values()}
    if FlowState.FAILED in states:
        return UpdateState.FAILED
    if board.plan.continuous:
        return UpdateState.CANCELED if interrupted else UpdateState.COMPLETED
    return UpdateState.CANCELED if FlowState.CANCELED in states else UpdateState.COMPLETED


def first_error(board: Board) -> dict[str, Any] | None:
    """The JSON form of the error of the first flow that failed, in the plan's order."""
    failed = (status for status in board.statuses.values() if status.state is FlowState.FAILED)
    return next((dict(status.error) for status in failed if status.error), None)


class _Loop:
    """The moving parts of one run."""

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
        # True once the schema of a source has grown.
        self.grown = False

    def let_end(self) -> None:
        """Begin nothing more, and end what goes on, so that the graph can be resolved again."""
        if self.board.plan.continuous and not self._stop_sent:
            self._stop_sent = True
            self._starter.stop()

    def settle_unstarted(self) -> None:
        """Flows that the plan leaves alone."""
        for step in self.board.plan.flows:
            if self.board.statuses[step.flow.name].state is not FlowState.QUEUED:
                continue
            if step.decision is Decision.UP_TO_DATE:
                self._move(step.flow.name, FlowState.UP_TO_DATE, reason=step.reason)
            elif step.decision in _WITHOUT_RUNNING:
                error = step.error.to_json() if step.error is not None else None
                self._move(step.flow.name, _WITHOUT_RUNNING[step.decision], reason=step.reason, error=error)
        for away in self.board.plan.away:
            if self.board.statuses[away.away.name].state is FlowState.QUEUED:
                error = away.away.error.to_json() if away.decision is Decision.FAIL else None
                self._move(away.away.name, _WITHOUT_RUNNING[away.decision], reason=away.reason, error=error)

    def begin_ready(self) -> None:
        """Start what may start."""
        for flow in self.board.ready(self._clock.monotonic(), self._room):
            attempt = self.board.statuses[flow].attempts + 1
            began = self.board.statuses[flow].began_at or self._clock.now()
            step = self.board.plan.step_for(flow)
            self._move(flow, FlowState.STARTING, attempts=attempt, began_at=began, reason=step.reason)
            self._starter.begin(step, self.board.plan.table_step_for(step.flow.target), attempt)

    def cancel_waiting(self) -> None:
        """Let go of what has not started, and ask what runs to end."""
        for flow, status in self.board.statuses.items():
            if status.state in (FlowState.QUEUED, FlowState.RETRYING):
                self._move(flow, FlowState.CANCELED, reason="the update was stopped")
        if not self._stop_sent:
            self._stop_sent = True
            self._starter.stop()

    def patience_s(self) -> float | None:
        """How long to wait for reports; without end when nothing can start before the next one."""
        retry_at = self.board.next_retry if len(self.board.active) < self._room and not self.grown else None
        return None if retry_at is None else max(retry_at - self._clock.monotonic(), 0.0)

    def take(self, report: Report) -> None:
        """Move the flow that a report is about."""
        match report:
            case Started():
                self._be(report.flow, FlowState.RUNNING)
            case Idle():
                self._be(report.flow, FlowState.IDLE)
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
        # In an update that ends, what reads a table waits for all of it.
        if self.board.plan.continuous:
            self.board = self.board.marked_current(flow)

    def _be(self, flow: str, state: FlowState) -> None:
        """Move a flow unless it is there: a stream that follows a load runs already, a view may stay idle."""
        if self.board.statuses[flow].state is not state:
            self._move(flow, state)

    def skip_blocked(self) -> None:
        """Skip what reads a dataset that will not become current, and in turn what reads that."""
        while blocked := self.board.blocked():
            for flow, dataset in blocked:
                self._move(flow, FlowState.SKIPPED, reason=f'input "{dataset}" was not updated')

    def _fail(self, failure: Failed) -> None:
        status = self.board.statuses[failure.flow]
        continuous = self.board.plan.continuous
        in_a_row = 1 if continuous and failure.progressed else status.failures_in_a_row + 1
        left = self._max_retries is None or in_a_row <= self._max_retries
        passing = retry.retryable(failure) or failure.growth is not None
        if passing and self._starter.stopping:
            self._end(failure.flow, FlowState.CANCELED, reason="the update was stopped")
        elif failure.growth is not None and status.growths < MOST_GROWTHS:
            self._grow(failure, failure.growth)
        elif passing and left and failure.growth is None:
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

    def _grow(self, failure: Failed, growth: Growth) -> None:
        status = self.board.statuses[failure.flow]
        message = f'flow "{failure.flow}": {growth.said}'
        self._emit(Warned(growth.code, message, failure.flow, status.dataset))
        reason = f"restarting: {growth.said}"
        self._move(failure.flow, FlowState.RETRYING, reason=reason, growths=status.growths + 1, failures_in_a_row=0)
        self.grown = True

    @property
    def _room(self) -> int:
        """How many flows run at a time."""
        return len(self.board.statuses) if self.board.plan.continuous else self._limit

    def _end(self, flow: str, state: FlowState, **changes: Any) -> None:
        began = self.board.statuses[flow].began_at
        duration_s = (self._clock.now() - began).total_seconds() if began else 0.0
        self._move(flow, state, duration_s=duration_s, **changes)

    def _move(self, flow: str, state: FlowState, **changes: Any) -> None:
        self.board = self.board.moved(flow, state, self._emit, **changes)
