"""Schedules of a project on a disk: from settings and event log, their state, pauses, and who runs them."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.errors import PipelineError
from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.reader import EventReader
from headrace.events.types import DatasetDefined, ExternalInput, FlowDefined, UpdateCreated, UpdateStateChanged
from headrace.model.datasets import Kind
from headrace.model.liveness import Liveness
from headrace.model.outcome import UpdateCause, UpdateState
from headrace.project.scheduling.declared import declared
from headrace.project.scheduling.earlier_updates import EarlierUpdate
from headrace.project.scheduling.pauses import pause_schedule, read_pauses
from headrace.project.scheduling.pipeline_outside import PipelineOutside
from headrace.project.scheduling.schedule_view import schedule_view
from headrace.project.scheduling.start_schedulers import ScheduledPipeline, SchedulerThread
from headrace.project.scheduling.state_file import Replaced, state_file
from headrace.project.update.recorded_events import outcome_of_request
from headrace.schedules.queue import Ending, Result
from headrace.schedules.state import Firing, Run, State
from headrace.settings.load import load_settings
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.stores.paths import storage_path

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@dataclass
class Project:
    """A project whose event log a test writes."""

    root: Path
    at: datetime = NOON
    ticks: itertools.count = field(default_factory=itertools.count)

    def settings(self, text: str = "") -> Settings:
        file = self.root / "pipeline.yml"
        file.write_text(f"name: shop\n{text}")
        return load_settings(file, environ={})

    @property
    def reader(self) -> EventReader:
        return EventReader(str(self.root / "storage" / "system" / "events"))

    def time(self) -> datetime:
        return self.at + timedelta(microseconds=next(self.ticks))

    def update(self, update_id, *events, state=UpdateState.COMPLETED, minutes=1, **created) -> None:
        """Write an update's events; without a state, it never ended."""
        self.at += timedelta(minutes=minutes)
        ids = itertools.count()
        with EventLog(
            str(self.root / "storage" / "system" / "events"),
            origin=Origin("p", "shop", update_id),
            clock=self.time,
            new_id=lambda: f"{update_id}-{next(ids)}",
            maintenance=lambda _path, _compacts: None,
        ) as log:
            log.emit(UpdateCreated("SCHEDULE", **created))
            for event in (*events, *([] if state is None else [UpdateStateChanged(state)])):
                log.emit(event)


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def dataset(name, schedule="", kind=Kind.MATERIALIZED_VIEW):
    return DatasetDefined(name, kind, None if kind.is_view else f"/tables/{name}", schedule=schedule)


def names(project, settings=None):
    return [schedule.name for schedule in declared(settings or project.settings(), project.reader).schedules]


HOURLY = "SCHEDULE EVERY 3600 SECONDS"
ONE = {"refresh": ["a"], "full_refresh": [], "full_refresh_all": False}


def test_schedules_of_the_code_are_those_that_an_update_has_deployed(project):
    """Guards the way from the code to the scheduler: through the event log, beside those of the settings."""
    settings = project.settings("schedules: {nightly: {cron: '0 2 * * *'}}")
    before = names(project, settings)
    project.update("u1", dataset("a", HOURLY), dataset("b"))

    assert (before, names(project, settings)) == (["nightly"], ["nightly", "dataset:a"])


def test_a_schedule_stays_while_its_source_is_unavailable_and_goes_with_its_dataset(project):
    """Guards updates that leave out definitions: one that failed, or ran a part, does not end a schedule."""
    project.update("u1", dataset("a", HOURLY), dataset("b", HOURLY))
    project.update("u2", dataset("a", HOURLY), state=UpdateState.FAILED)
    project.update("u3", dataset("a"), selections=ONE)
    some = names(project)
    project.update("u4", dataset("a", HOURLY))

    assert (some, names(project)) == (["dataset:b"], ["dataset:a"])


def test_what_a_dataset_reads_is_found_through_views(project, tmp_path):
    """Guards TRIGGER ON UPDATE: tables of the pipeline, and Delta tables outside, but no topics."""
    (tmp_path / "outside" / "_delta_log").mkdir(parents=True)
    outside = (ExternalInput("batch", str(tmp_path / "outside")), ExternalInput("stream", "topic t"))
    project.update(
        "u1",
        dataset("orders"),
        dataset("v", kind=Kind.TEMPORARY_VIEW),
        dataset("gold", "TRIGGER ON UPDATE AT MOST EVERY INTERVAL 60 SECONDS"),
        FlowDefined("v", "v", ("orders",), external_inputs=outside),
        FlowDefined("gold", "gold", ("v",)),
    )

    found = declared(project.settings(), project.reader).tables_read_by("gold")

    assert found == {"orders": "/tables/orders", str(tmp_path / "outside"): str(tmp_path / "outside")}


def test_beside_a_continuous_schedule_those_of_the_code_start_nothing_and_say_so(project):
    """Guards that nothing is ignored silently."""
    project.update("u1", dataset("a", HOURLY))

    found = declared(project.settings("schedules: {always: {continuous: true}}"), project.reader)

    assert [schedule.name for schedule in found.schedules] == ["always"]
    assert found.problems == {"dataset:a": "the continuous update refreshes its dataset already"}


RUN = Run((Firing("nightly", 1.0, UpdateCause.SCHEDULE, starts=1),), started_at=1.0, host="here")


def earlier(project, *held, run=RUN):
    answers = iter(held)
    return EarlierUpdate(run, "here", project.reader, lambda: next(answers))


FREE, HELD = Liveness(is_held=False), Liveness(is_held=True, update_id="u1")


@pytest.mark.parametrize(
    ("state", "ending"),
    [
        (UpdateState.COMPLETED, Ending.DONE),
        (UpdateState.FAILED, Ending.FAILED),
        (UpdateState.CANCELED, Ending.STOPPED),
        (None, Ending.FAILED),
    ],
)
def test_the_event_log_says_how_the_update_of_a_dead_scheduler_ended(project, state, ending):
    """Guards recovery: the update is found by the id of its request; without an end and a holder it is lost."""
    project.update("u1", state=state, request_id=RUN.request_id)

    result = earlier(project, FREE, FREE).poll()

    assert (result.ending, result.update_id) == (ending, "u1")
    assert result.state == ("LOST" if state is None else state.value)


def test_an_update_that_still_runs_or_may_begin_is_awaited(project):
    """Guards recovery while the lease is held: by the update itself, or by one that has recorded nothing yet."""
    unknown = earlier(project, HELD, FREE)
    assert (unknown.poll(), unknown.poll().ending) == (None, Ending.NOT_STARTED)
    project.update("u1", state=None, request_id=RUN.request_id)

    assert earlier(project, HELD, HELD).poll() is None


def test_the_outcome_of_a_request_is_that_of_the_update_with_its_id(project):
    """Guards `run --request-id`: an update without an end is lost, and another id is another request."""
    project.update("u1", request_id="night-1")
    project.update("u2", state=None, request_id="night-10")
    settings = project.settings()

    found = [outcome_of_request(settings, name) for name in ("night-1", "night-10", "night")]

    assert [one and (one.update_id, one.state) for one in found] == [
        ("u1", UpdateState.COMPLETED),
        ("u2", UpdateState.LOST),
        None,
    ]


def test_a_state_of_a_later_scheduler_is_not_overwritten_and_a_late_one_is(tmp_path):
    """Guards fencing: the greater number wins, whoever writes last."""
    place = tmp_path / "serve" / "schedules.json"
    old, new = state_file(place), state_file(place)
    old.write(State(leader=1))
    new.write(State(leader=2))

    with pytest.raises(Replaced):
        old.write(State(leader=1, storage="late"))
    place.write_text(place.read_text().replace('"leader": 2', '"leader": 1'))
    new.write(State(leader=2, storage="mine"))

    assert old.read() == State(leader=2, storage="mine")


def test_a_damaged_state_is_named_with_what_to_do(tmp_path):
    """Guards the error that a reader of the state gets."""
    (tmp_path / "s.json").write_text("{")

    with pytest.raises(PipelineError) as raised:
        state_file(tmp_path / "s.json").read()

    assert raised.value.code == "SCHEDULE.STATE_UNREADABLE"
    assert f"rm {tmp_path}/s.json" in raised.value.hint


def test_a_view_of_schedules_says_when_each_fires_next_and_which_is_paused(project):
    """Guards the document of `schedules list` and of the API before any scheduler has run, and pauses in their file."""
    settings = project.settings(
        "schedules:\n"
        "  nightly: {cron: '0 2 * * *', timezone: Europe/Berlin, refresh: [gold]}\n"
        "  arrivals: {files: in}\n"
        "  target: {freshness: {a: 1h}}\n"
    )
    project.update("u1", dataset("a"))
    pause_schedule(settings.layout, "arrivals", 5.0, "ann", is_paused=True)

    found = schedule_view(settings, {}, lambda: NOON.timestamp() + 120).to_json()

    rows = {one["name"]: one for one in found["schedules"]}
    assert (rows["nightly"]["next_at"], rows["nightly"]["state"]) == ("2026-11-21T01:00:00+00:00", "IDLE")
    assert (rows["arrivals"]["state"], rows["arrivals"]["paused_by"]) == ("PAUSED", "ann")
    assert rows["target"]["next_at"] == "2026-11-20T13:00:59+00:00"
    assert (found["runs_on"], rows["nightly"]["last"]) == (None, None)


def test_pauses_of_several_schedules_are_kept_together(project):
    """Guards that a pause does not end another one."""
    layout = project.settings().layout
    pause_schedule(layout, "a", 1.0, "ann", is_paused=True)
    pause_schedule(layout, "b", 2.0, "bob", is_paused=True)
    pause_schedule(layout, "a", 3.0, "bob", is_paused=False)

    found = read_pauses(storage_path(layout.monitoring(MonitoringFile.PAUSES)))

    assert {name: (pause.is_paused, pause.at) for name, pause in found.items()} == {"a": (False, 3.0), "b": (True, 2.0)}


def test_what_cannot_be_watched_is_said_once_and_fires_nothing(project, tmp_path):
    """Guards errors of stores: a folder that cannot be read does not stop the other schedules."""
    lines = []
    settings = project.settings("schedules: {arrivals: {files: 'nowhere:/in'}}")
    outside = PipelineOutside(settings, "here", lambda: 1.0, itertools.count(0, 100).__next__, lines.append)
    (schedule,) = outside.schedules()

    assert [outside.observe(schedule, ""), outside.observe(schedule, "")] == [None, None]
    assert len(lines) == 1
    assert lines[0].startswith("cannot read what schedule arrivals watches: ")


@dataclass
class FakeRunner:
    """Runs nothing; an update ends when it is stopped."""

    started: threading.Event = field(default_factory=threading.Event)
    stopped: threading.Event = field(default_factory=threading.Event)
    process: None = None
    requests: list = field(default_factory=list)

    def start(self, request):
        self.requests.append(request)
        self.started.set()
        return self

    def poll(self):
        return Result(Ending.DONE, "COMPLETED") if self.stopped.is_set() else None

    def stop(self):
        self.stopped.set()


def test_a_thread_leads_starts_an_update_and_stops_it_when_it_ends_and_a_second_one_waits(project):
    """Guards leadership on one machine, and that a stop is passed on to the running update."""
    settings = project.settings("schedules: {always: {continuous: true}}")
    runner, lines, held = FakeRunner(), [], threading.Event()

    def say(line):
        lines.append(line)
        if "another process" in line:
            held.set()

    first, second = (
        SchedulerThread(ScheduledPipeline(settings, None, str), {"HEADRACE_HOST": "here"}, say, one)
        for one in (runner, FakeRunner())
    )
    first.start()
    assert runner.started.wait(30)
    second.start()
    assert held.wait(30)
    view = schedule_view(settings, {"HEADRACE_HOST": "here"}, lambda: 1.0).to_json()
    for thread in (second, first):
        thread.stop()
        thread.join()

    assert [request.is_continuous for request in runner.requests] == [True]
    assert (view["schedules"][0]["state"], view["runs_on"]["host"]) == ("RUNNING", "here")
    assert lines[-1] == "shop: update for always: COMPLETED"
