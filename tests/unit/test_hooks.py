"""What event hooks are told, and what becomes of those that fail or are slow."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headrace import pipelines as dp
from headrace.events.envelope import Origin, Stamp, to_row
from headrace.events.types import UpdateStateChanged, Warned
from headrace.model.hooks import EventHook
from headrace.model.location import Location
from headrace.model.names import Naming
from headrace.model.outcome import UpdateState
from headrace.pipelines.registry import Registry, collecting
from headrace.project.update.event_hooks import Hooks

HERE = Location("a.py", 3)
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def row(event, number=1):
    return to_row(event, origin=Origin("p", "shop", "u"), stamp=Stamp(number, NOW, "i", "x"))


def states(*names):
    return [row(UpdateStateChanged(UpdateState(name)), number) for number, name in enumerate(names)]


def told(function, rows, most=None, timeout_s=10.0):
    warned = []
    with Hooks([EventHook(function, "hook", HERE, most)], warned.append, timeout_s=timeout_s) as hooks:
        for each in rows:
            hooks.notify(each)
    return [(event.code, event.message) for event in warned]


def test_a_hook_receives_all_stable_events_in_order_with_parsed_details():
    seen = []

    warned = told(seen.append, [*states("RUNNING", "COMPLETED"), row(Warned("X.Y", "not stable"))])

    assert warned == []
    assert [event["details"]["update_progress"]["state"] for event in seen] == ["RUNNING", "COMPLETED"]
    assert seen[0]["timestamp"] == "2026-01-02T00:00:00+00:00"
    assert (seen[0]["event_type"], seen[0]["origin"]["pipeline_name"]) == ("update_progress", "shop")


@pytest.mark.parametrize(("most", "calls", "last"), [(None, 4, "FAILED"), (0, 1, "DISABLED"), (2, 3, "DISABLED")])
def test_a_failing_hook_is_disabled_after_the_allowed_number_of_failures(most, calls, last):
    seen = []

    def failing(event):
        seen.append(event)
        raise ValueError("no luck")

    warned = told(failing, states("RUNNING", "RUNNING", "RUNNING", "COMPLETED"), most)

    assert len(seen) == calls
    assert warned[-1][0] == f"HOOK.{last}"
    assert 'event hook "hook" (a.py:3) failed' in warned[-1][1]
    assert "ValueError: no luck" in warned[-1][1]


def test_non_consecutive_failures_do_not_disable_a_hook():
    seen = []

    def sometimes(event):
        seen.append(event)
        if len(seen) % 2:
            raise ValueError

    told(sometimes, states(*["RUNNING"] * 6), most=1)

    assert len(seen) == 6


def test_a_hook_that_changes_an_event_does_not_affect_the_next_hook():
    seen = []
    hooks = [EventHook(lambda event: event.clear(), "first", HERE), EventHook(seen.append, "second", HERE)]

    with Hooks(hooks, lambda _event: None) as running:
        running.notify(states("RUNNING")[0])

    assert seen[0]["event_type"] == "update_progress"


def test_shutdown_waits_a_limited_time_and_reports_undelivered_events():
    began, release, seen = threading.Event(), threading.Event(), []

    def stuck(event):
        seen.append(event)
        began.set()
        release.wait(30)

    warned = []
    with Hooks([EventHook(stuck, "hook", HERE)], warned.append, timeout_s=0.05) as hooks:
        for each in states("RUNNING", "COMPLETED"):
            hooks.notify(each)
        began.wait(30)
    release.set()

    assert [event.code for event in warned] == ["HOOK.LATE"]
    assert len(seen) == 1


def test_the_decorator_accepts_both_forms_and_refuses_an_invalid_limit():
    registry = Registry(Naming(), Path())
    with collecting(registry):

        @dp.on_event_hook
        def plain(event): ...

        @dp.on_event_hook(max_allowable_consecutive_failures=3)
        def limited(event): ...

        @dp.on_event_hook(max_allowable_consecutive_failures=-1)
        def wrong(event): ...

        dp.on_event_hook("no function")

    assert [(hook.name, hook.max_consecutive_failures) for hook in registry.hooks] == [("plain", None), ("limited", 3)]
    assert [problem.code for problem in registry.problems] == ["HOOK.BAD_LIMIT", "DEFINITION.NOT_CALLABLE"]
