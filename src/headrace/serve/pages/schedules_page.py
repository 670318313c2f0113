"""Schedules: when each is due, what its decision waits for, what came of it last, and what is queued."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from headrace.errors import PipelineError
from headrace.events.past_updates import PastUpdate
from headrace.metrics.dataset_health import Health
from headrace.model.outcome import UpdateCause
from headrace.project.inspection.diagnosis.careful_reading import reading_carefully
from headrace.project.scheduling.schedule_view import ScheduleView
from headrace.schedules.definition import Continuous, Cron, Every, FileArrival, Freshness, Schedule, TableUpdate
from headrace.schedules.definition import duration as period
from headrace.schedules.due import MISSED_AFTER_S
from headrace.schedules.state import Firing, Run
from headrace.serve.formats import iso
from headrace.serve.pages.careful import unread_facts
from headrace.serve.pages.facts import mark_of, update_facts
from headrace.serve.pages.paging import part_of
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page

_EACH_PART = 50
_UPDATES = 20
_CAUSES = frozenset(
    one.value
    for one in (
        UpdateCause.SCHEDULE,
        UpdateCause.FILE_ARRIVAL,
        UpdateCause.TABLE_UPDATE,
        UpdateCause.RETRY_ON_FAILURE,
    )
)
_MARKS = {
    "RUNNING": Health.OK.value,
    "WAITING": Health.WARN.value,
    "PAUSED": Health.UNKNOWN.value,
    "IDLE": Health.OK.value,
}
# What came of a firing without an update.
_NO_UPDATE = {"WRONG": Health.BAD.value, "NOT_APPROVED": Health.WARN.value, "NOT_STARTED": Health.WARN.value}
# The process that started the update may have died, or was stopped.
_UNWATCHED = "What came of the update that was started is found out by the next process that runs the schedules."


def schedules_page(pipeline: ServedPipeline, number: int = 1) -> Page:
    """The page of the schedules; *number* is the part of the list that is shown."""
    view = pipeline.view()
    with reading_carefully(pipeline.settings.layout) as reading:
        found = reading.read("the state of the schedules", pipeline.schedules, None)
    if found is None:
        # What was decided is not known; what the settings and the code say is.
        with reading_carefully(pipeline.settings.layout) as again:
            found = again.read("the schedules", pipeline.declared_schedules, None)
        reading.unread += again.unread
    document = {
        "name": pipeline.name,
        "as_of": iso(view.as_of),
        "unread": unread_facts(reading.unread),
        **schedules_facts(found, view.updates, number),
    }
    return Page("schedules.html", f"Schedules: {pipeline.name}", document)


def schedules_facts(view: ScheduleView | None, updates: Iterable[PastUpdate], number: int = 1) -> dict[str, Any]:
    """What the page says of the schedules; None if nothing of them can be read."""
    started = [update_facts(update) for update in updates if update.created.cause in _CAUSES][:_UPDATES]
    if view is None:
        _, paging = part_of((), number, _EACH_PART)
        known: dict[str, Any] = {"runs_on": None, "problems": {}, "queue": []}
        return {**known, "schedules": [], "paging": paging, "updates": started}
    document = view.to_json()
    # What needs a look first: what is queued, then what is due next.
    entries = sorted(zip(document["schedules"], view.declared.schedules, strict=True), key=lambda one: _order(one[0]))
    part, paging = part_of(entries, number, _EACH_PART)
    return {
        "runs_on": document["runs_on"],
        "problems": document["problems"],
        "queue": [_run(state, run, view) for state, run in _runs(view)],
        "schedules": [_schedule(entry, schedule, view) for entry, schedule in part],
        "paging": paging,
        "updates": started,
    }


def schedule_facts(view: ScheduleView, name: str) -> dict[str, Any]:
    """One schedule: what it is, what its next decision waits for, what came of the last one, and what is queued for it.

    Raises:
        PipelineError: SCHEDULE.UNKNOWN.
    """
    document = view.to_json()
    known = {one.name: (entry, one) for entry, one in zip(document["schedules"], view.declared.schedules, strict=True)}
    problem = view.declared.problems.get(name)
    if name not in known and problem is None:
        names = ", ".join([*known, *view.declared.problems])
        raise PipelineError("SCHEDULE.UNKNOWN", name=name, known=names or "none")
    runs = [(word, run) for word, run in _runs(view) if any(one.schedule == name for one in run.firings)]
    return {
        "pipeline": view.pipeline,
        "as_of": iso(view.now),
        "runs_on": document["runs_on"],
        "name": name,
        "schedule": _schedule(*known[name], view) if name in known else None,
        "problem": problem,
        "queue": [_run(word, run, view) for word, run in runs],
    }


def _runs(view: ScheduleView) -> list[tuple[str, Run]]:
    runs = (("RUNNING", view.state.running), ("WAITING", view.state.waiting))
    return [(word, run) for word, run in runs if run is not None]


def _order(entry: Mapping[str, Any]) -> tuple[int, str, str]:
    states = ("RUNNING", "WAITING", "IDLE", "PAUSED")
    return states.index(entry["state"]), entry["next_at"] or "~", entry["name"]


def _schedule(entry: Mapping[str, Any], schedule: Schedule, view: ScheduleView) -> dict[str, Any]:
    mark = view.state.marks.get(schedule.name)
    pause, last = view.pauses.get(schedule.name), entry["last"]
    state = entry["state"]
    verb = "resume" if state == "PAUSED" else "pause"
    return {
        **entry,
        "mark": Health.WARN.value if state == "RUNNING" and view.runs_on is None else _MARKS[state],
        "fired_at": None if mark is None or mark.fired_at is None else iso(mark.fired_at),
        "is_due": entry["next_at"] is not None and datetime.fromisoformat(entry["next_at"]).timestamp() <= view.now,
        "paused_at": iso(pause.at) if pause is not None and pause.is_paused else None,
        "waits_for": waits_for(schedule, entry, view),
        "catch_up": schedule.catch_up.value,
        "last": None if last is None else {**last, "mark": _NO_UPDATE.get(last["state"], mark_of(last["state"]))},
        "command": ["headrace", "schedules", verb, schedule.name],
    }


def waits_for(schedule: Schedule, entry: Mapping[str, Any], view: ScheduleView) -> str:
    """What the next decision about a schedule waits for, as a sentence.

    Args:
        schedule: the schedule.
        entry: its JSON.
        view: of all schedules.
    """
    match entry["state"]:
        case "PAUSED":
            return "Somebody must resume it. Times that pass until then do not fire."
        case "RUNNING":
            return _UNWATCHED if view.runs_on is None else "The update that it asked for must end."
        case "WAITING":
            return _why_waiting(view.state.waiting, view)
        case _:
            return _why_idle(schedule, entry)


def _why_idle(schedule: Schedule, entry: Mapping[str, Any]) -> str:
    match schedule.timing:
        case Cron() | Every():
            missed = f" One that is missed by more than {period(MISSED_AFTER_S)} does not fire."
            return f"Its next time must come.{missed if schedule.catch_up.value == 'none' else ''}"
        case FileArrival(path=path, pace=pace):
            return f"Files must arrive in {path}{_pace(pace.quiet_s, pace.at_most_every_s)}"
        case TableUpdate(tables=tables, pace=pace) as timing:
            names = f" {timing.joint} ".join(tables) or "the tables that it reads"
            return f"Rows must change in {names}{_pace(pace.quiet_s, pace.at_most_every_s)}"
        case Continuous():
            return "The pause after the last update must end." if entry["last"] else "A process must start it."
        case Freshness():
            return "The datasets must come so close to their limit that an update has to start to keep it."


def _pace(quiet_s: float, at_most_every_s: float) -> str:
    quiet = f", and then nothing more for {period(quiet_s)}" if quiet_s else ""
    return f"{quiet}; at most one update in {period(at_most_every_s)}."


def _why_waiting(run: Run | None, view: ScheduleView) -> str:
    if view.state.running is not None:
        return "The update before it must end: a pipeline has one at a time."
    if run is not None and run.not_before > view.now:
        is_retry = any(firing.failures for firing in run.firings)
        until = iso(run.not_before)
        return f"The time before the next attempt must pass, at {until}." if is_retry else f"It starts at {until}."
    if view.runs_on is None:
        return "A process must run the schedules."
    return "It starts as soon as nothing else holds the lease of the pipeline."


def _run(state: str, run: Run, view: ScheduleView) -> dict[str, Any]:
    is_watched = state != "RUNNING" or view.runs_on is not None
    return {
        "state": state,
        "mark": _MARKS[state] if is_watched else Health.WARN.value,
        "is_watched": is_watched,
        "cause": run.cause.value,
        "refresh": list(run.refresh),
        "is_continuous": run.is_continuous,
        "started_at": None if run.started_at is None else iso(run.started_at),
        "not_before": iso(run.not_before) if run.not_before > view.now else None,
        "host": run.host or None,
        "pid": run.pid,
        "firings": _firings(run.firings),
        "waits_for": _why_waiting(run, view)
        if state != "RUNNING"
        else "The update must end."
        if is_watched
        else _UNWATCHED,
    }


def _firings(firings: Sequence[Firing]) -> list[dict[str, Any]]:
    return [
        {
            "schedule": one.schedule,
            "due_at": iso(one.due_at),
            "cause": one.cause.value,
            "starts": one.starts,
            "failures": one.failures,
        }
        for one in firings[:_EACH_PART]
    ]
