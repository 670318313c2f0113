"""The schedules of a pipeline as a document: when each is due next, what came of it last, and who runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.events.past_updates import PastUpdate, past_updates
from headrace.events.reader import EventReader
from headrace.project.lease_holders import host_name, liveness, read_holder
from headrace.project.scheduling.declared import Declared, declared
from headrace.project.scheduling.observers import FreshnessObserver
from headrace.project.scheduling.pauses import read_pauses
from headrace.project.scheduling.state_file import read_state
from headrace.schedules.definition import Freshness, Schedule, duration
from headrace.schedules.due import Age, Pause, next_time
from headrace.schedules.state import LastRun, Run, State
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.stores.paths import storage_path

_UPDATES = 50


@dataclass(frozen=True)
class ScheduleView:
    """The schedules of a pipeline at one moment.

    Attributes:
        pipeline: its name.
        declared: the schedules.
        state: what the scheduler has stored.
        pauses: by the name of a schedule.
        runs_on: host and process that runs them; None for nobody.
        ages: of the datasets of freshness targets, by the name of the schedule.
        now: the time in seconds since 1970.
    """

    pipeline: str
    declared: Declared
    state: State
    pauses: Mapping[str, Pause]
    runs_on: tuple[str, int] | None
    ages: Mapping[str, Age]
    now: float

    def to_json(self) -> dict[str, Any]:
        """The document."""
        runs_on = None if self.runs_on is None else {"host": self.runs_on[0], "pid": self.runs_on[1]}
        return {
            "pipeline": self.pipeline,
            "runs_on": runs_on,
            "schedules": [self._schedule(one) for one in self.declared.schedules],
            "problems": dict(self.declared.problems),
        }

    def _schedule(self, schedule: Schedule) -> dict[str, Any]:
        pause = self.pauses.get(schedule.name)
        is_paused = pause is not None and pause.is_paused
        last = self.state.last.get(schedule.name)
        mark = self.state.marks.get(schedule.name)
        mark = mark if mark is not None and mark.digest == schedule.digest else None
        next_at = None if is_paused else next_time(schedule, mark, self.ages.get(schedule.name), self.now)
        return {
            "name": schedule.name,
            "when": schedule.timing.describe(),
            "kind": type(schedule.timing).__name__,
            "refresh": list(schedule.refresh),
            "in_code": schedule.in_code,
            "state": "PAUSED" if is_paused else self._queue_state(schedule.name),
            "paused_by": pause.user if pause is not None and pause.is_paused else None,
            "next_at": None if next_at is None else iso(next_at),
            "last": None if last is None else _last_json(last),
            "retries": schedule.retries,
        }

    def _queue_state(self, name: str) -> str:
        for run, word in ((self.state.running, "RUNNING"), (self.state.waiting, "WAITING")):
            if run is not None and _has(run, name):
                return word
        return "IDLE"


def schedule_view(settings: Settings, environ: Mapping[str, str], now: Callable[[], float]) -> ScheduleView:
    """The schedules of a pipeline now.

    Raises:
        PipelineError: EVENTS.NOT_READABLE, SCHEDULE.STATE_UNREADABLE.
        OSError: the storage cannot be read.
    """
    layout = settings.layout
    lease, state, pauses = (
        storage_path(layout.monitoring(file))
        for file in (MonitoringFile.SCHEDULE_LEASE, MonitoringFile.SCHEDULES, MonitoringFile.PAUSES)
    )
    try:
        stored = read_state(state)
    except FileNotFoundError:
        stored = State()
    held = liveness(lease, host_name(environ), now)
    holder = read_holder(lease) if held.is_held else None
    runs_on = None if holder is None else (holder.host, holder.python.pid)
    reader = EventReader(layout.events)
    found = declared(settings, reader)

    def updates() -> tuple[PastUpdate, ...]:
        running = liveness(layout.lease, host_name(environ), now)
        return past_updates(reader, _UPDATES, running) if reader.exists else ()

    ages = {
        one.name: FreshnessObserver(one.timing, updates).look("")
        for one in found.schedules
        if isinstance(one.timing, Freshness)
    }
    return ScheduleView(settings.name, found, stored, read_pauses(pauses), runs_on, ages, now())


def declared_view(settings: Settings, now: Callable[[], float]) -> ScheduleView:
    """The schedules as settings and code declare them, for a storage whose state cannot be read.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    found = declared(settings, EventReader(settings.layout.events))
    return ScheduleView(settings.name, found, State(), {}, None, {}, now())


def iso(moment: float) -> str:
    """A time as ISO 8601 has it, to the second."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def _last_json(last: LastRun) -> dict[str, Any]:
    return {
        "state": last.state,
        "due_at": iso(last.due_at),
        "started_at": iso(last.started_at),
        "ended_at": iso(last.ended_at),
        "duration": duration(round(last.ended_at - last.started_at)),
        "update_id": last.update_id or None,
        "message": last.message or None,
        "retries_at": None if last.retries_at is None else iso(last.retries_at),
    }


def _has(run: Run, name: str) -> bool:
    return any(firing.schedule == name for firing in run.firings)
