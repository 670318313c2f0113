"""The queue of a pipeline: one run at a time, and at most one that waits for it.

A request that comes while a run waits is merged into it; one that comes while a run is running waits for the next,
because the run may have read its inputs already.

Law: each firing is in exactly one run, until a run that started after it has ended well, or is given up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from headrace.schedules.state import Firing, LastRun, Run, State

# After the first failure, the second, and so on.
_BACKOFF_S = (60.0, 120.0, 240.0, 480.0, 600.0)
# How long a run waits for whoever holds the lease of the pipeline.
BUSY_PAUSE_S = 15.0


class Ending(Enum):
    """What came of a run."""

    DONE = "done"
    # A retry may succeed.
    FAILED = "failed"
    # A retry would fail in the same way: the project is wrong, or an approval is missing; or a user stopped it.
    OVER = "over"
    # Another update held the lease, or the machine could not start one: nothing ran.
    NOT_STARTED = "not started"
    # The scheduler itself stopped it.
    STOPPED = "stopped"


@dataclass(frozen=True)
class Result:
    """How a run ended.

    Attributes:
        ending: what it means for the queue.
        state: for the reader; see :class:`LastRun`.
        update_id: in the event log; empty if unknown.
        message: the error, on one line.
    """

    ending: Ending
    state: str
    update_id: str = ""
    message: str = ""


def added(state: State, firing: Firing) -> State:
    """The state after a firing: it is merged into the run that waits, or becomes one."""
    waiting = state.waiting
    if waiting is None:
        return replace(state, waiting=Run((firing,)))
    return replace(state, waiting=replace(waiting, firings=(*waiting.firings, firing)))


def may_start(state: State, now: float) -> bool:
    """Whether the run that waits may start now."""
    return state.running is None and state.waiting is not None and state.waiting.not_before <= now


def begun(state: State, now: float, host: str) -> State:
    """The state in which the run that waits is started. Store it before the process is started."""
    assert state.waiting is not None  # noqa: S101 - see may_start
    firings = tuple(replace(firing, starts=firing.starts + 1) for firing in state.waiting.firings)
    return replace(state, running=Run(firings, started_at=now, host=host), waiting=None)


def recorded(state: State, host: str, pid: int | None, process_started_at: float | None) -> State:
    """The state in which the process of the run is known."""
    assert state.running is not None  # noqa: S101 - from the caller, who has started it
    run = replace(state.running, host=host, pid=pid, process_started_at=process_started_at)
    return replace(state, running=run)


def ended(state: State, result: Result, now: float, retries: Mapping[str, int | None]) -> State:
    """The state after the run has ended; what has to run again waits.

    Args:
        state: with a run.
        result: how it ended.
        now: the time.
        retries: by the name of a schedule, how often a failed update is started again; None for no limit. Schedules
            that no longer exist are not there, and their firings end.
    """
    run = state.running
    assert run is not None  # noqa: S101 - from the caller
    again, not_before = _to_repeat(run, result, now, retries)
    names = {firing.schedule for firing in again}
    for firing in run.firings:
        last = LastRun(
            result.state,
            now if run.started_at is None else run.started_at,
            now,
            firing.due_at,
            result.update_id,
            result.message,
            retries_at=not_before if firing.schedule in names else None,
        )
        if firing.schedule in retries and result.ending is not Ending.NOT_STARTED:
            state = state.with_last(firing.schedule, last)
    state = replace(state, running=None)
    return state if not again else _waiting_again(state, again, not_before)


def pruned(state: State, known: frozenset[str]) -> State:
    """The state without schedules that no longer exist, and without what waits for them."""
    waiting = state.waiting
    if waiting is not None:
        firings = tuple(firing for firing in waiting.firings if firing.schedule in known)
        waiting = None if not firings else replace(waiting, firings=firings)
    marks = {name: mark for name, mark in state.marks.items() if name in known}
    last = {name: one for name, one in state.last.items() if name in known}
    return replace(state, waiting=waiting, marks=marks, last=last)


def _to_repeat(
    run: Run, result: Result, now: float, retries: Mapping[str, int | None]
) -> tuple[tuple[Firing, ...], float]:
    """The firings of a run that need another one, and when it may start."""
    known = tuple(firing for firing in run.firings if firing.schedule in retries)
    match result.ending:
        case Ending.DONE | Ending.OVER:
            return (), now
        case Ending.STOPPED:
            return known, now
        case Ending.NOT_STARTED:
            # With the same number of starts, its request keeps its id: the update may have been started all the same.
            return tuple(replace(firing, starts=firing.starts - 1) for firing in known), now + BUSY_PAUSE_S
        case Ending.FAILED:
            failed = tuple(replace(firing, failures=firing.failures + 1) for firing in known)
            again = tuple(firing for firing in failed if _has_retry(firing, retries))
            failures = max((firing.failures for firing in again), default=1)
            return again, now + _BACKOFF_S[min(failures, len(_BACKOFF_S)) - 1]


def _has_retry(firing: Firing, retries: Mapping[str, int | None]) -> bool:
    limit = retries[firing.schedule]
    return limit is None or firing.failures <= limit


def _waiting_again(state: State, firings: tuple[Firing, ...], not_before: float) -> State:
    """The firings of a run that ended, in front of those that came meanwhile."""
    later = () if state.waiting is None else state.waiting.firings
    return replace(state, waiting=Run((*firings, *later), not_before))
