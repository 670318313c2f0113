"""Which schedules are due: a function of the time, of what is stored, and of what was observed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, inf

from headrace.model.outcome import UpdateState
from headrace.schedules.definition import (
    CatchUp,
    Continuous,
    Cron,
    Every,
    FileArrival,
    Freshness,
    Pace,
    Schedule,
    TableUpdate,
)
from headrace.schedules.queue import added, pruned
from headrace.schedules.state import Firing, Mark, State

# A time that passed longer ago than this was missed, because nothing was there to fire it.
MISSED_AFTER_S = 120.0
# Between the end of a continuous update and the next one, if it ended well, and if it cannot run.
_CONTINUOUS_PAUSE_S = 10.0
_WRONG_PAUSE_S = 120.0
# Of a target, how much at most may be kept for the duration of the update.
_MOST_LEAD = 0.5
_LEAD_FACTOR = 1.2


@dataclass(frozen=True)
class Change:
    """What was seen of the files or tables of a schedule.

    Attributes:
        token: identifies the current contents; stored when the schedule fires.
        is_new: it is other than what was seen when the schedule last fired, in a way that asks for an update.
        changed_at: when it was last seen to change.
    """

    token: str
    is_new: bool
    changed_at: float


@dataclass(frozen=True)
class Age:
    """How old the datasets of a freshness target are.

    Attributes:
        fresh_at: when the last update that refreshed all of them started; None for never.
        duration_s: how long it took.
    """

    fresh_at: float | None = None
    duration_s: float = 0.0


@dataclass(frozen=True)
class Pause:
    """A schedule that a user has paused, or resumed: times up to *at* do not fire."""

    is_paused: bool
    at: float
    user: str = ""


Observations = Mapping[str, Change | Age]


def decided(
    state: State,
    schedules: Sequence[Schedule],
    observed: Observations,
    pauses: Mapping[str, Pause],
    now: float,
) -> State:
    """The state after all schedules that are due have fired.

    Law: a time of a schedule is decided exactly once, whatever the moments at which this is called. Of times that
    passed since the last call, the newest fires for all of them.

    Args:
        state: what is stored.
        schedules: of the pipeline; others are forgotten.
        observed: by name, of files, tables and freshness; without an observation, such a schedule does not fire.
        pauses: by name.
        now: the time in seconds since 1970.
    """
    known = frozenset(schedule.name for schedule in schedules)
    if not known.issuperset(state.marks) or not known.issuperset(state.last):
        state = pruned(state, known)
    for schedule in schedules:
        mark = _mark_of(state, schedule, now)
        pause = pauses.get(schedule.name)
        if pause is not None and pause.at > mark.until:
            mark = replace(mark, until=min(pause.at, now))
        if pause is not None and pause.is_paused:
            state = _with_mark(state, schedule.name, mark)
            continue
        due_at, mark = _due(schedule, mark, observed.get(schedule.name), state, now)
        if due_at is not None:
            mark = replace(mark, fired_at=now)
            state = added(state, _firing(schedule, due_at))
        state = _with_mark(state, schedule.name, mark)
    return state


def next_time(schedule: Schedule, mark: Mark | None, age: Age | None, now: float) -> float | None:
    """When a schedule fires next; None if that depends on files, tables or an update."""
    match schedule.timing:
        case Cron(times=times):
            return times.next_after(now if mark is None else max(now, mark.until))
        case Every(period_s=period_s):
            return now + period_s if mark is None else _after(mark, period_s, now)
        case Freshness(targets_s=targets):
            return max(now, _stale_at(targets, mark, age or Age(), now))
        case _:
            return None


def next_decision(
    state: State,
    schedules: Iterable[Schedule],
    observed: Observations,
    now: float,
) -> float:
    """When :func:`decided` can change something next, unless something is observed: a moment after now, or infinite."""
    moments = [inf] if state.waiting is None else [state.waiting.not_before, inf]
    for schedule in schedules:
        mark, seen = state.marks.get(schedule.name), observed.get(schedule.name)
        if isinstance(schedule.timing, FileArrival | TableUpdate):
            if isinstance(seen, Change) and seen.is_new and mark is not None:
                moments.append(_ready_at(schedule.timing.pace, mark, seen))
            continue
        if isinstance(schedule.timing, Continuous):
            moments.append(_restart_at(state, schedule.name))
            continue
        found = next_time(schedule, mark, seen if isinstance(seen, Age) else None, now)
        moments += [] if found is None else [found]
    return min(moment if moment > now else inf for moment in moments)


def _mark_of(state: State, schedule: Schedule, now: float) -> Mark:
    """The mark of a schedule; a new one if its timing is another."""
    mark, digest = state.marks.get(schedule.name), schedule.digest
    return mark if mark is not None and mark.digest == digest else Mark(digest, now, now)


def _with_mark(state: State, name: str, mark: Mark) -> State:
    return state if state.marks.get(name) == mark else state.with_mark(name, mark)


def refreshed_by(schedule: Schedule) -> tuple[str, ...]:
    """The selectors of the datasets that a schedule refreshes; empty for all."""
    if not schedule.refresh and isinstance(schedule.timing, Freshness):
        # With all that leads there.
        return tuple(f"+{name}" for name in schedule.timing.targets_s)
    return schedule.refresh


def _firing(schedule: Schedule, due_at: float) -> Firing:
    refresh = refreshed_by(schedule)
    return Firing(schedule.name, due_at, schedule.cause, refresh, is_continuous=schedule.is_continuous)


def _due(
    schedule: Schedule, mark: Mark, seen: Change | Age | None, state: State, now: float
) -> tuple[float | None, Mark]:
    """When a schedule was due, None if it is not; and its mark after the decision."""
    match schedule.timing:
        case Cron(times=times):
            newest = times.newest(mark.until, now)
            return _timely(schedule, newest, now), mark if newest is None else replace(mark, until=newest)
        case Every(period_s=period_s):
            newest = mark.since + floor((now - mark.since) / period_s) * period_s
            if newest <= mark.until or newest <= mark.since:
                return None, mark
            return _timely(schedule, newest, now), replace(mark, until=newest)
        case FileArrival(pace=pace) | TableUpdate(pace=pace):
            if not isinstance(seen, Change) or not seen.is_new or _ready_at(pace, mark, seen) > now:
                return None, mark
            return now, replace(mark, seen=seen.token)
        case Continuous():
            is_due = not _is_queued(state, schedule.name) and now >= _restart_at(state, schedule.name)
            return now if is_due else None, mark
        case Freshness(targets_s=targets):
            is_known = isinstance(seen, Age) and not _is_queued(state, schedule.name)
            stale_at = _stale_at(targets, mark, seen, now) if isinstance(seen, Age) else inf
            return now if is_known and stale_at <= now else None, mark


def _timely(schedule: Schedule, newest: float | None, now: float) -> float | None:
    """A time that passed, unless it was missed and the schedule does not catch up."""
    if newest is None or (schedule.catch_up is CatchUp.NONE and now - newest > MISSED_AFTER_S):
        return None
    return newest


def _ready_at(pace: Pace, mark: Mark, seen: Change) -> float:
    """When a change may fire."""
    earliest = -inf if mark.fired_at is None else mark.fired_at + pace.at_most_every_s
    return max(seen.changed_at + pace.quiet_s, earliest)


def _after(mark: Mark, period_s: float, now: float) -> float:
    start = max(mark.until, now)
    return mark.since + (floor((start - mark.since) / period_s) + 1) * period_s


def _stale_at(targets: Mapping[str, float], mark: Mark | None, age: Age, now: float) -> float:
    """When an update has to start so that the datasets stay within the least target."""
    target_s = min(targets.values())
    lead_s = min(age.duration_s * _LEAD_FACTOR, target_s * _MOST_LEAD)
    stale_at = now if age.fresh_at is None else age.fresh_at + target_s - lead_s
    fired_at = None if mark is None else mark.fired_at
    # An update that fails leaves them stale, and is started again at this pace.
    return stale_at if fired_at is None else max(stale_at, fired_at + target_s * _MOST_LEAD)


def _restart_at(state: State, name: str) -> float:
    """When a continuous update that has ended is started again."""
    last = state.last.get(name)
    if last is None:
        return -inf
    return last.ended_at + (_CONTINUOUS_PAUSE_S if last.state == UpdateState.COMPLETED.value else _WRONG_PAUSE_S)


def _is_queued(state: State, name: str) -> bool:
    runs = (run for run in (state.running, state.waiting) if run is not None)
    return any(firing.schedule == name for run in runs for firing in run.firings)
