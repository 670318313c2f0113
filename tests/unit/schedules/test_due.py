"""Which schedules are due, and what becomes of their firings in the queue."""

from __future__ import annotations

from math import inf

import pytest

from headrace.model.outcome import UpdateCause
from headrace.schedules.cron import CronTimes
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
from headrace.schedules.due import Age, Change, Pause, decided, next_decision
from headrace.schedules.queue import Ending, Result, added, begun, ended, may_start
from headrace.schedules.state import Firing, State, UnreadableState, parse_state, state_text

HOUR = 3600.0
NIGHTLY = Schedule("nightly", Cron(CronTimes.unix("0 * * * *", "UTC")), ("gold",), retries=2)
RETRIES = {"nightly": 2, "other": 2}


def fired(state: State) -> list[tuple[str, float]]:
    waiting = () if state.waiting is None else state.waiting.firings
    return [(firing.schedule, firing.due_at) for firing in waiting]


def at(moment, state, *schedules, observed=None, pauses=None):
    return decided(state, schedules, observed or {}, pauses or {}, moment)


def test_times_that_passed_fire_once_for_all_of_them():
    """Guards missed times: three hours without a scheduler are one update, due at the newest time."""
    state = at(10 * HOUR + 1, State(), NIGHTLY)

    late = at(13 * HOUR + 5, state, NIGHTLY)

    assert (fired(state), fired(late)) == ([], [("nightly", 13 * HOUR)])
    assert at(13 * HOUR + 6, late, NIGHTLY) == late


def test_missed_times_do_not_fire_without_catching_up():
    """Guards catch_up: none, which still fires what is due now."""
    schedule = Schedule("nightly", NIGHTLY.timing, catch_up=CatchUp.NONE)
    state = at(10 * HOUR + 1, State(), schedule)

    late = at(13 * HOUR + 500, state, schedule)
    timely = at(14 * HOUR + 5, late, schedule)

    assert (fired(late), fired(timely)) == ([], [("nightly", 14 * HOUR)])


def test_periods_are_counted_from_the_first_look_and_do_not_drift():
    """Guards EVERY: a late decision does not move the next time."""
    every = Schedule("often", Every(600.0))
    state = at(1000.0, State(), every)

    for moment in (1599.0, 1650.0, 2199.0, 2200.0, 4100.0):
        state = at(moment, state, every)

    assert [due_at for _, due_at in fired(state)] == [1600.0, 2200.0, 4000.0]


def test_another_timing_starts_over_and_other_datasets_do_not():
    """Guards edits of a schedule: neither the time that has fired nor one before the edit fires again."""
    state = at(11 * HOUR + 1, at(10 * HOUR + 1, State(), NIGHTLY), NIGHTLY)
    other_times = Schedule("nightly", Cron(CronTimes.unix("30 * * * *", "UTC")), ("gold",))
    more = Schedule("nightly", NIGHTLY.timing, ("gold", "silver"))

    assert fired(at(11 * HOUR + 1900, state, other_times)) == [("nightly", 11 * HOUR)]
    assert fired(at(12 * HOUR + 1, state, more)) == [("nightly", 11 * HOUR), ("nightly", 12 * HOUR)]


def test_a_paused_schedule_skips_the_times_until_it_is_resumed():
    """Guards pauses, also while no scheduler runs: only times after the resumption fire."""
    state = at(10 * HOUR + 1, State(), NIGHTLY)
    paused = at(12 * HOUR, state, NIGHTLY, pauses={"nightly": Pause(is_paused=True, at=10.5 * HOUR)})
    resumed = {"nightly": Pause(is_paused=False, at=13.5 * HOUR)}

    assert fired(at(13.9 * HOUR, paused, NIGHTLY, pauses=resumed)) == []
    assert fired(at(14 * HOUR, paused, NIGHTLY, pauses=resumed)) == [("nightly", 14 * HOUR)]


@pytest.mark.parametrize(
    ("now", "change", "is_due"),
    [
        (1000.0, Change("b", is_new=True, changed_at=989.0), True),
        (1000.0, Change("b", is_new=True, changed_at=991.0), False),
        (1000.0, Change("a", is_new=False, changed_at=500.0), False),
        # The last update started at 900.
        (959.0, Change("b", is_new=True, changed_at=901.0), False),
        (960.0, Change("b", is_new=True, changed_at=901.0), True),
        (1000.0, None, False),
    ],
)
def test_changes_fire_after_a_quiet_time_and_not_too_often(now, change, is_due):
    """Guards the pace of files and tables, and that a change fires once."""
    arrivals = Schedule("arrivals", FileArrival("/in", Pace(quiet_s=10.0, at_most_every_s=60.0)))
    first = at(900.0, State(), arrivals, observed={"arrivals": Change("a", is_new=True, changed_at=1.0)})

    state = at(now, first, arrivals, observed={} if change is None else {"arrivals": change})

    assert (len(fired(first)), len(fired(state))) == (1, 1 + is_due)
    assert state.marks["arrivals"].seen == ("b" if is_due else "a")


def test_causes_follow_what_started_an_update():
    """Guards the causes in the event log."""
    tables, files = Schedule("t", TableUpdate(("orders",))), Schedule("f", FileArrival("/in"))

    assert [one.cause for one in (NIGHTLY, tables, files)] == [
        UpdateCause.SCHEDULE,
        UpdateCause.TABLE_UPDATE,
        UpdateCause.FILE_ARRIVAL,
    ]


def test_a_freshness_target_updates_what_leads_there_before_it_is_missed():
    """Guards freshness: by the start of the last good update and its duration, and at half the target if it fails."""
    target = Schedule("target", Freshness({"revenue": 600.0}))
    age = {"target": Age(fresh_at=1000.0, duration_s=100.0)}
    state = at(1400.0, State(), target, observed=age)

    due = at(1480.0, state, target, observed=age)
    failed = ended(begun(due, 1480.0, "h"), Result(Ending.OVER, "FAILED"), 1500.0, {"target": 0})

    assert (fired(state), fired(due)) == ([], [("target", 1480.0)])
    assert due.waiting.refresh == ("+revenue",)
    assert fired(at(1779.0, failed, target, observed=age)) == []
    assert fired(at(1780.0, failed, target, observed=age)) == [("target", 1780.0)]


def test_a_continuous_schedule_is_started_again_after_a_pause_that_depends_on_its_end():
    """Guards that neither an end nor a project that is wrong makes a busy loop."""
    always = Schedule("always", Continuous(), retries=None)
    running = begun(at(0.0, State(), always), 0.0, "h")
    well, wrong = (
        ended(running, Result(Ending.OVER, state), 100.0, {"always": None}) for state in ("COMPLETED", "WRONG")
    )

    assert at(50.0, running, always) == running
    assert [fired(at(moment, well, always)) for moment in (109.0, 110.0)] == [[], [("always", 110.0)]]
    assert [fired(at(moment, wrong, always)) for moment in (219.0, 220.0)] == [[], [("always", 220.0)]]
    assert next_decision(wrong, [always], {}, 100.0) == 220.0


def firing(name="nightly", due_at=1.0, *refresh, **more):
    return Firing(name, due_at, UpdateCause.SCHEDULE, refresh, **more)


def test_a_waiting_run_takes_later_requests_and_a_running_one_does_not():
    """Guards merging: one run follows the running one, with the datasets of all requests, or with all datasets."""
    running = begun(added(State(), firing("nightly", 1.0, "a")), 1.0, "h")

    some = added(added(running, firing("nightly", 2.0, "b")), firing("other", 3.0, "a", "b"))
    everything = added(some, firing("other", 4.0))

    assert (running.running.refresh, some.waiting.refresh, everything.waiting.refresh) == (("a",), ("b", "a"), ())
    assert not may_start(some, inf)


def test_a_failed_run_waits_longer_each_time_and_is_given_up_after_its_retries():
    """Guards retries: counted for each request, which a new one does not lose by joining."""
    state, delays = added(State(), firing()), []
    for moment in (1000.0, 2000.0):
        state = ended(begun(state, moment, "h"), Result(Ending.FAILED, "FAILED"), moment, RETRIES)
        delays.append(state.waiting.not_before - moment)
    state = added(state, firing("other", 5.0))

    last = ended(begun(state, 3000.0, "h"), Result(Ending.FAILED, "FAILED"), 3000.0, RETRIES)

    assert delays == [60.0, 120.0]
    assert state.waiting.cause is UpdateCause.SCHEDULE
    assert fired(last) == [("other", 5.0)]
    assert (last.last["nightly"].retries_at, last.last["other"].retries_at) == (None, 3060.0)


def test_the_id_of_a_request_changes_with_each_start_and_each_firing_but_not_when_nothing_ran():
    """Guards that an update that was not started runs, and one that was started does not run twice."""
    first = begun(added(State(), firing()), 1.0, "h")
    again = ended(first, Result(Ending.NOT_STARTED, "BUSY"), 2.0, RETRIES)
    failed = ended(first, Result(Ending.FAILED, "FAILED"), 2.0, RETRIES)
    with_more = added(again, firing("other", 3.0))

    ids = [begun(state, 100.0, "h").running.request_id for state in (again, failed, with_more)]

    assert ids[0] == first.running.request_id
    assert len({*ids}) == 3


def test_schedules_that_no_longer_exist_are_forgotten_with_what_waits_for_them():
    """Guards schedules that leave the settings or the code."""
    state = at(11 * HOUR, at(10 * HOUR + 1, State(), NIGHTLY), NIGHTLY)

    assert at(11 * HOUR + 1, state).to_json() == State().to_json()


def test_a_state_is_read_back_and_one_of_another_version_is_refused():
    """Guards the stored form."""
    state = begun(at(11 * HOUR, at(10 * HOUR + 1, State(), NIGHTLY), NIGHTLY), 11 * HOUR, "h")
    state = added(ended(state, Result(Ending.FAILED, "FAILED", "u1", "no"), 12 * HOUR, RETRIES), firing())

    assert parse_state(state_text(state).encode()) == state
    for wrong in (b"", b"[]", b'{"format": 2}', state_text(state).replace('"leader"', '"x"').encode()):
        with pytest.raises(UnreadableState):
            parse_state(wrong)
