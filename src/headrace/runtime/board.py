"""The states of all flows of an update: an immutable value, and the only place where a flow's state changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import Any

from headrace.errors import InternalError
from headrace.events.types import FlowStateChanged
from headrace.graph.select import Selection
from headrace.model.outcome import FlowState
from headrace.plan.steps import Decision, Plan
from headrace.runtime.ports import Emit
from headrace.runtime.states import ACTIVE, BLOCKING, CURRENT, NEXT, is_final

_UNSTARTED = frozenset((FlowState.QUEUED, FlowState.RETRYING))


@dataclass(frozen=True)
class FlowStatus:
    """The state of one flow."""

    dataset: str
    state: FlowState = FlowState.QUEUED
    reason: str | None = None
    attempts: int = 0
    # Failures since the last completed batch.
    failures_in_a_row: int = 0
    # How often it was restarted because the schema of its source evolved.
    schema_evolutions: int = 0
    # In a continuous update: readers of the table may start.
    is_current: bool = False
    began_at: datetime | None = None
    duration_s: float = 0.0
    retry_at: float | None = None
    error: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Board:
    """The statuses of all flows of an update, in the plan's order."""

    plan: Plan
    statuses: Mapping[str, FlowStatus]

    @staticmethod
    def for_plan(plan: Plan, before: Board | None = None) -> Board:
        """All flows queued, except those that the board *before* has ended or will retry, which keep their state.

        In a continuous update, only failed flows keep their state: all others run on.
        """
        kept = {} if before is None else before.statuses
        if plan.continuous:
            kept = {
                name: status for name, status in kept.items() if status.state in (FlowState.FAILED, FlowState.RETRYING)
            }
        statuses = {step.flow.name: kept.get(step.flow.name, FlowStatus(str(step.flow.target))) for step in plan.flows}
        for step in plan.unavailable:
            # A flow whose source is unavailable now cannot be retried.
            known = kept.get(step.flow.name)
            ended = known is not None and is_final(known.state)
            statuses[step.flow.name] = known if known and ended else FlowStatus(str(step.flow.target))
        return Board(plan, MappingProxyType(statuses))

    @property
    def is_finished(self) -> bool:
        """True when all flows are in a final state."""
        return all(is_final(status.state) for status in self.statuses.values())

    @property
    def active(self) -> tuple[str, ...]:
        """Flows that are starting or running."""
        return tuple(flow for flow, status in self.statuses.items() if status.state in ACTIVE)

    @property
    def is_busy(self) -> bool:
        """True while a flow has not reported its end."""
        return any(status.state in ACTIVE or status.state is FlowState.IDLE for status in self.statuses.values())

    @property
    def next_retry(self) -> float | None:
        """The time of the next retry, on the loop's clock."""
        times = [status.retry_at for status in self.statuses.values() if status.retry_at is not None]
        return min(times, default=None)

    def ready(self, now: float, limit: int) -> tuple[str, ...]:
        """Flows that may start now: their inputs are current, and at most *limit* flows run at a time."""
        room = limit - len(self.active)
        unstarted = ((flow, status) for flow, status in self.statuses.items() if status.state in _UNSTARTED)
        waiting = (flow for flow, status in unstarted if self._may_start(flow, status, now))
        return tuple(islice(waiting, max(room, 0)))

    def with_current(self, flow: str) -> Board:
        """The board with one flow's table marked as current; emits no event."""
        after = replace(self.statuses[flow], is_current=True)
        return replace(self, statuses=MappingProxyType({**self.statuses, flow: after}))

    def with_state(self, flow: str, state: FlowState, emit: Emit, **changes: Any) -> Board:
        """The board with one flow in another state; emits the event of the transition.

        Raises:
            InternalError: the transition is not allowed.
        """
        before = self.statuses[flow]
        if state not in NEXT[before.state]:
            raise InternalError(f'flow "{flow}" cannot move from {before.state.value} to {state.value}')
        after = replace(before, **{"retry_at": None, **changes, "state": state})
        emit(
            FlowStateChanged(
                flow=flow,
                dataset=after.dataset,
                state=state,
                reason=after.reason,
                attempt=after.attempts,
                error=dict(after.error) if after.error else None,
                duration_s=after.duration_s if is_final(state) else None,
            )
        )
        return replace(self, statuses=MappingProxyType({**self.statuses, flow: after}))

    def blocked(self) -> tuple[tuple[str, str], ...]:
        """Queued flows that can never start, each with the dataset that blocks it."""
        found = []
        blocking = {flow for flow, status in self.statuses.items() if status.state in BLOCKING}
        for flow, status in self.statuses.items() if blocking else ():
            if status.state is FlowState.QUEUED:
                culprit = next((up for up in self.plan.upstream[flow] if up in blocking), None)
                if culprit is not None:
                    found.append((flow, self.statuses[culprit].dataset))
        return tuple(found)

    def _may_start(self, flow: str, status: FlowStatus, now: float) -> bool:
        if status.state is FlowState.RETRYING:
            return status.retry_at is None or status.retry_at <= now
        upstream = [self.statuses[up] for up in self.plan.upstream[flow]]
        return all(above.is_current or above.state in CURRENT for above in upstream)


def remaining_selection(selection: Selection, board: Board) -> Selection:
    """The rest of a selection after some of its flows have started, so that nothing is cleared or reset twice."""
    started = {name for name, status in board.statuses.items() if status.attempts}
    steps = [step for step in board.plan.flows if step.decision is not Decision.EXCLUDE]
    cleared = {str(step.flow.target) for step in steps if step.reset}
    due = cleared - {str(step.flow.target) for step in steps if step.flow.name in started}
    if not (cleared or selection.reset_checkpoint):
        return selection
    others = {str(step.flow.target) for step in steps} - due
    resets = tuple(text for text in selection.reset_checkpoint if text.partition("=")[0] not in started)
    return replace(
        selection,
        refresh=tuple(sorted(others)),
        full_refresh=tuple(sorted(due)),
        full_refresh_all=False,
        reset_checkpoint=resets,
    )
