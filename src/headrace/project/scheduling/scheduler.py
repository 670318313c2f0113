"""Starts updates by schedules, step by step, for the process that holds the lease of the scheduler.

Law: wherever a scheduler dies, each firing is in the stored state, or still undecided. An update has an id that follows
from its firings, and two updates with one id are one, so starting it again loses and doubles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from headrace.project.scheduling.runner import BUSY, Runner, RunningUpdate, RunRequest
from headrace.project.scheduling.state_file import StateFile
from headrace.schedules.definition import FileArrival, Freshness, Schedule, TableUpdate
from headrace.schedules.due import Age, Change, Pause, decided, next_decision
from headrace.schedules.queue import Ending, Result, begun, ended, may_start, recorded
from headrace.schedules.state import Run, State

# How often is looked at: a running update; who holds the lease of the pipeline; files and tables; definitions, pauses.
_UPDATE_EVERY_S, _LEASE_EVERY_S, _WATCH_EVERY_S, _DEFINITIONS_EVERY_S = 1.0, 5.0, 10.0, 30.0
# Not sooner, whatever is due.
LEAST_WAIT_S = 0.2


class Outside(Protocol):
    """What a scheduler knows of the pipeline, and of updates that it has not started itself."""

    def schedules(self) -> Sequence[Schedule] | None:
        """The schedules; None if they cannot be read."""

    def observe(self, schedule: Schedule, seen: str) -> Change | Age | None:
        """What a schedule watches; None if it cannot be told. Does not look more often than it should."""

    def pauses(self) -> Mapping[str, Pause]:
        """The schedules that users have paused or resumed."""

    def is_busy(self) -> bool:
        """Whether an update of the pipeline runs."""

    def recovered(self, run: Run) -> RunningUpdate:
        """An update that an earlier scheduler has started, or tried to.

        Its result is NOT_STARTED if no process runs it, and the event log does not have it.
        """


@dataclass(frozen=True)
class Place:
    """Where a scheduler is.

    Attributes:
        host: this machine.
        storage: of the pipeline.
        now: the time in seconds since 1970.
        sleep: waits for some seconds.
        say: shows a line.
    """

    host: str
    storage: str
    now: Callable[[], float]
    sleep: Callable[[float], None]
    say: Callable[[str], None]


class Scheduler:
    """The scheduler of one pipeline.

    Args:
        place: where it is.
        outside: what it knows.
        file: where its state is stored.
        runner: starts updates.
        number: of its lease; greater than that of any scheduler before.

    Raises:
        PipelineError: SCHEDULE.STATE_UNREADABLE.
        OSError: the state cannot be read or written.
        Replaced: another scheduler has taken over.
    """

    def __init__(self, place: Place, outside: Outside, file: StateFile, runner: Runner, number: int) -> None:
        self._place = place
        self._outside = outside
        self._file = file
        self._runner = runner
        stored = file.read()
        # If the file of the lease was lost, its numbers start again.
        self._state = replace(stored, leader=max(number, stored.leader + 1), storage=place.storage)
        run = stored.running
        if run is not None and stored.storage != place.storage:
            # A copy of a storage: the process belongs to the original.
            self._state = replace(self._state, running=replace(run, pid=None, host=""))
        self._update: RunningUpdate | None = None
        # Of the schedules that are known; None before the first look at them.
        self._retries: Mapping[str, int | None] | None = None
        file.write(self._state)

    @property
    def state(self) -> State:
        """What is stored."""
        return self._state

    def step(self) -> float:
        """Decide what is due, look after the running update, start the next one; returns how long to wait, in seconds.

        Raises:
            PipelineError: a file cannot be read.
            OSError: the state cannot be written.
            Replaced: another scheduler has taken over.
        """
        now = self._place.now()
        schedules = self._outside.schedules()
        if schedules is None:
            return _WATCH_EVERY_S
        self._retries = {schedule.name: schedule.retries for schedule in schedules}
        self._look_after_run(now)
        observed = self._observed(schedules)
        pauses = self._outside.pauses()
        self._store(decided(self._state, schedules, observed, pauses, now))
        self._stop_unwanted(pauses)
        waits_for_lease = False
        if may_start(self._state, now):
            waits_for_lease = self._outside.is_busy()
            if not waits_for_lease:
                self._store(begun(self._state, now, self._place.host))
                self._spawn()
        waits = [_DEFINITIONS_EVERY_S, next_decision(self._state, schedules, observed, now) - now]
        waits += [_UPDATE_EVERY_S] if self._state.running is not None else []
        waits += [_LEASE_EVERY_S] if waits_for_lease else []
        waits += [_WATCH_EVERY_S] if any(map(_is_watching, schedules)) else []
        return max(min(waits), LEAST_WAIT_S)

    def finish(self, timeout_s: float) -> None:
        """Stop the running update, and wait for it. What it did not do is done when a scheduler starts again.

        Raises:
            PipelineError, OSError, Replaced: as :meth:`step`.
        """
        if self._state.running is None:
            return
        update = self._update or self._outside.recovered(self._state.running)
        update.stop()
        deadline = self._place.now() + timeout_s
        while (result := update.poll()) is None and self._place.now() < deadline:
            self._place.sleep(LEAST_WAIT_S)
        if result is None:
            self._place.say(f"the update for {_names(self._state.running)} is still stopping")
        elif self._retries is None:
            # Without schedules, nothing says what has to run again: the next scheduler will find how the update ended.
            self._place.say(f"the update for {_names(self._state.running)} has stopped")
        elif result.ending is not Ending.NOT_STARTED or self._state.running.pid is not None:
            self._end(result, self._place.now())

    def _look_after_run(self, now: float) -> None:
        run = self._state.running
        if run is None:
            return
        update = self._update = self._update or self._outside.recovered(run)
        result = update.poll()
        if result is None:
            return
        if result.ending is Ending.NOT_STARTED and run.pid is None:
            # The last scheduler died before it had noted the process, which may start at any moment. The same id.
            self._spawn()
        elif result.state == BUSY:
            # The lease may be held by an update with the same id.
            self._update = self._outside.recovered(run)
        else:
            self._end(result, now)

    def _end(self, result: Result, now: float) -> None:
        run = self._state.running
        assert run is not None  # noqa: S101 - from the callers
        assert self._retries is not None  # noqa: S101 - the same
        self._update = None
        self._store(ended(self._state, result, now, self._retries))
        waiting = self._state.waiting
        again = ""
        if result.ending is Ending.FAILED and waiting is not None and waiting.not_before > now:
            again = f"; again at {datetime.fromtimestamp(waiting.not_before, UTC):%H:%M:%S} UTC"
        message = f": {result.message}" if result.message and result.ending is not Ending.DONE else ""
        self._place.say(f"update for {_names(run)}: {result.state}{message}{again}")

    def _spawn(self) -> None:
        run = self._state.running
        assert run is not None  # noqa: S101 - from the callers
        request = RunRequest(run.request_id, run.refresh, run.cause, run.is_continuous)
        self._place.say(f"starting an update for {_names(run)}")
        try:
            self._update = self._runner.start(request)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            self._end(Result(Ending.NOT_STARTED, "NOT_STARTED", message=reason), self._place.now())
            return
        pid, started_at = self._update.process or (None, None)
        self._store(recorded(self._state, self._place.host, pid, started_at))

    def _observed(self, schedules: Sequence[Schedule]) -> dict[str, Change | Age]:
        found: dict[str, Change | Age] = {}
        for schedule in filter(_is_watching, schedules):
            mark = self._state.marks.get(schedule.name)
            seen = mark.seen if mark is not None and mark.digest == schedule.digest else ""
            observation = self._outside.observe(schedule, seen)
            if observation is not None:
                found[schedule.name] = observation
        return found

    def _stop_unwanted(self, pauses: Mapping[str, Pause]) -> None:
        """Stop a continuous update whose schedule is paused or gone."""
        run = self._state.running
        if run is None or self._update is None or not run.is_continuous or self._retries is None:
            return
        names = [firing.schedule for firing in run.firings if firing.is_continuous]
        if not any(name in self._retries and not _is_paused(pauses, name) for name in names):
            self._update.stop()

    def _store(self, state: State) -> None:
        if state != self._state:
            self._file.write(state)
            self._state = state


def _is_watching(schedule: Schedule) -> bool:
    return isinstance(schedule.timing, FileArrival | TableUpdate | Freshness)


def _is_paused(pauses: Mapping[str, Pause], name: str) -> bool:
    pause = pauses.get(name)
    return pause is not None and pause.is_paused


def _names(run: Run) -> str:
    return ", ".join(dict.fromkeys(firing.schedule for firing in run.firings))
