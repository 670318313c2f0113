"""What an update reports of earlier ones whose processes are gone, and what its watch does with events."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.lineage_schemas import check_run_event
from tests.unit.lineage.conftest import BEGIN, ended, state

from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.reader import EventReader
from headrace.events.types import UpdateCreated, Warned
from headrace.lineage.lost_updates import RUNS_ENDED, LostUpdate, lost_updates
from headrace.project.update.lineage_watch import NOT_MADE, LineageOfUpdates
from headrace.settings.load import load_settings
from headrace.settings.secrets import Secrets

IDS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(9)]
ON = {"lineage": {"namespace": "shop"}}


class Clock:
    """Each event is a second after the one before."""

    now = datetime(2026, 1, 2, tzinfo=UTC)

    def __call__(self):
        self.now += timedelta(seconds=1)
        return self.now


class Pipeline:
    """A pipeline whose updates send events to a file."""

    def __init__(self, folder):
        self.folder, self.clock = folder, Clock()
        (folder / "pipeline.yml").write_text(
            "name: shop\nlineage: {namespace: shop, transports: {lake: {file: sent.jsonl}}}\n"
        )
        self.settings = load_settings(folder / "pipeline.yml", environ={})
        self.numbers = iter(range(1_000_000))

    @property
    def log(self):
        return self.settings.layout.events

    def update(self, number, *events, settings=ON, is_watched=False):
        """Record the events of an update, and send what they make if it is watched."""
        origin = Origin("p", "shop", IDS[number])
        log = EventLog(self.log, origin=origin, clock=self.clock, new_id=lambda: str(next(self.numbers)))
        created, *definitions = BEGIN
        with log:
            lineage = LineageOfUpdates(self.settings, Secrets({}), {})
            emitted = []

            def emit(event):
                emitted.append(event)
                log.emit(event)

            if not is_watched:
                for event in (replace(created, settings=settings), *definitions, *events):
                    log.emit(event)
                return []
            with lineage.watch(IDS[number], emit, log.flush) as add:
                for event in (replace(created, settings=settings), *definitions, *events):
                    add(event, log.emit(event))
            return emitted

    def sent(self):
        file = self.folder / "sent.jsonl"
        events = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        for event in events:
            check_run_event(event)
        return [(event["eventType"], event["job"]["name"], event["run"]["runId"]) for event in events]


@pytest.fixture
def pipeline(tmp_path):
    return Pipeline(tmp_path)


def test_the_runs_of_a_killed_update_are_aborted_once_by_the_next_one(pipeline):
    running = [state("orders", "RUNNING"), state("sums", "RUNNING"), state("sums", "COMPLETED")]
    pipeline.update(0, state("orders", "RUNNING"), ended("COMPLETED"), is_watched=True)
    (started, completed) = pipeline.sent()
    pipeline.update(1, *running)

    warned = pipeline.update(2, ended("COMPLETED"), is_watched=True)
    again = pipeline.update(3, ended("COMPLETED"), is_watched=True)

    assert (started[0], completed[0]) == ("START", "COMPLETE")
    ((kind, name, run_id),) = pipeline.sent()[2:]
    assert (kind, name) == ("ABORT", "orders.orders")
    assert run_id != started[2]
    assert [(event.code, event.facts["update_id"], event.facts["runs"]) for event in warned] == [
        (RUNS_ENDED, IDS[1], 1)
    ]
    assert again == []


def test_an_update_that_is_killed_after_it_has_reported_leaves_nothing_to_report_twice(pipeline):
    reported = Warned(RUNS_ENDED, "reported", facts={"update_id": IDS[0], "runs": 1})
    pipeline.update(0, state("orders", "RUNNING"))
    pipeline.update(1, reported, state("post", "RUNNING"))

    assert lost_updates(EventReader(pipeline.log), IDS[2]) == [LostUpdate(IDS[1], "shop")]


def test_several_killed_updates_are_found_back_to_the_last_one_that_ended(pipeline):
    pipeline.update(0, settings={"lineage": {"namespace": "before"}})
    pipeline.update(1, ended("FAILED"))
    pipeline.update(2, settings={"lineage": {"namespace": "other"}})
    # Lineage was off: nothing was reported, and nothing ends.
    pipeline.update(3, settings={})
    pipeline.update(4)

    found = lost_updates(EventReader(pipeline.log), IDS[5])

    assert found == [LostUpdate(IDS[4], "shop"), LostUpdate(IDS[2], "other")]


def test_an_update_is_not_among_those_that_it_finds(pipeline):
    pipeline.update(0)

    assert lost_updates(EventReader(pipeline.log), IDS[0]) == []
    assert lost_updates(EventReader(str(Path(pipeline.log) / "none")), IDS[0]) == []


def test_what_is_sent_was_stored_before(pipeline, monkeypatch):
    stored = []
    monkeypatch.setattr(EventLog, "flush", lambda _log: stored.append(len(pipeline.sent())))

    with LineageOfUpdates(pipeline.settings, Secrets({}), {}).watch(IDS[0], print, lambda: stored.append(1)) as add:
        add(BEGIN[0], pipeline.clock())
        for event in (*BEGIN[1:], state("orders", "RUNNING")):
            add(event, pipeline.clock())

    assert stored == [1]
    assert len(pipeline.sent()) == 1


def test_without_transports_nothing_is_started(tmp_path):
    (tmp_path / "pipeline.yml").write_text("name: shop\nlineage: {namespace: shop}\n")
    settings = load_settings(tmp_path / "pipeline.yml", environ={})
    before = threading.active_count()

    with LineageOfUpdates(settings, Secrets({}), {}).watch(IDS[0], print, print) as add:
        assert add is None
        assert threading.active_count() == before


def test_an_event_that_cannot_be_understood_ends_the_lineage_of_the_update_and_not_the_update(pipeline):
    warned = []

    with LineageOfUpdates(pipeline.settings, Secrets({}), {}).watch(IDS[0], warned.append, lambda: None) as add:
        add(UpdateCreated("USER_ACTION"), pipeline.clock())
        add(state("orders", "RUNNING"), "no time")
        add(state("orders", "COMPLETED"), pipeline.clock())

    assert [event.code for event in warned] == [NOT_MADE]
    assert pipeline.sent() == []


def test_a_log_that_cannot_be_read_is_a_warning(pipeline):
    pipeline.update(0, state("orders", "RUNNING"))
    for commit in (Path(pipeline.log) / "_delta_log").glob("*.json"):
        commit.write_text("{")
    warned = []

    with LineageOfUpdates(pipeline.settings, Secrets({}), {}).watch(IDS[1], warned.append, lambda: None):
        pass

    assert [event.code for event in warned] == [NOT_MADE]
    assert "earlier updates" in warned[0].message


def test_taking_note_of_an_event_is_quick_while_a_transport_is_stuck(pipeline, tmp_path):
    (tmp_path / "sent.jsonl").mkdir()
    with LineageOfUpdates(pipeline.settings, Secrets({}), {}).watch(IDS[0], lambda _event: None, lambda: None) as add:
        started_at = time.monotonic()
        for number in range(3000):
            add(replace(state("orders", "RUNNING"), flow=f"f{number}"), pipeline.clock())
        took_s = time.monotonic() - started_at

    assert took_s < 5
