"""Schedulers on a simulated clock that die at any point: each time fires once, no request is lost, nothing spins."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from headrace.project.scheduling.scheduler import LEAST_WAIT_S, Place, Scheduler
from headrace.schedules.cron import CronTimes
from headrace.schedules.definition import Cron, Pace, Schedule, TableUpdate
from headrace.schedules.due import Change, Pause
from headrace.schedules.queue import Ending, Result
from headrace.schedules.state import Firing, Run, State, parse_state, state_text

START = 1_000_000_800.0
PERIOD_S = 600.0
OFTEN = Schedule("often", Cron(CronTimes.unix("*/10 * * * *", "UTC")), ("a", "b"), retries=None)
HOURLY = Schedule("hourly", Cron(CronTimes.unix("30 * * * *", "UTC")), ("c",), retries=None)
ORDERS = Schedule("orders", TableUpdate(("orders",), pace=Pace(5.0, 60.0)), ("d",), retries=None)
SCHEDULES = (OFTEN, HOURLY, ORDERS)


class Killed(BaseException):
    """The process of the scheduler dies here."""


@dataclass
class Update:
    """An update of the world: it goes on without the scheduler that started it."""

    world: World
    request_id: str
    firings: tuple[Firing, ...]
    started_at: float
    ends_at: float
    ending: Ending
    process: tuple[int, float] | None = (1, 1.0)

    def poll(self) -> Result | None:
        if self.world.now < self.ends_at:
            return None
        return Result(self.ending, "COMPLETED" if self.ending is Ending.DONE else "FAILED", self.request_id)

    def stop(self) -> None:
        if self.world.now < self.ends_at:
            self.ends_at, self.ending = self.world.now, Ending.STOPPED


@dataclass
class NeverStarted:
    """What is found of an update that no process runs, and no log has."""

    process: None = None

    def poll(self) -> Result:
        return Result(Ending.NOT_STARTED, "NOT_STARTED")

    def stop(self) -> None:
        """Do nothing."""


@dataclass
class World:
    """Storage, event log, table and clock: what a scheduler's death leaves as it is."""

    now: float = START
    stored: str = ""
    version: int = 0
    changed_at: float = START
    updates: dict[str, Update] = field(default_factory=dict)
    pauses: dict[str, Pause] = field(default_factory=dict)
    # Where the next scheduler dies, and how the next updates go.
    kill_at: str = ""
    fates: list[tuple[float, Ending]] = field(default_factory=list)
    writes: int = 0

    def point(self, name: str) -> None:
        if self.kill_at == name:
            self.kill_at = ""
            raise Killed

    # The file of the state.
    def read(self) -> State:
        return parse_state(self.stored.encode()) if self.stored else State()

    def write(self, state: State) -> None:
        self.point("before a write")
        self.stored = state_text(state)
        self.writes += 1
        self.point("after a write")

    # What runs updates: one with an id that has run is not run again.
    def start(self, request) -> Update:
        self.point("before a start")
        if request.request_id not in self.updates:
            duration_s, ending = self.fates.pop() if self.fates else (20.0, Ending.DONE)
            run = self.read().running
            # Whatever is started was stored before.
            assert run is not None
            assert run.request_id == request.request_id
            self.updates[request.request_id] = Update(
                self, request.request_id, run.firings, self.now, self.now + duration_s, ending
            )
        self.point("after a start")
        return self.updates[request.request_id]

    # What the scheduler knows.
    def schedules(self):
        return SCHEDULES

    def observe(self, _schedule, seen: str) -> Change:
        return Change(str(self.version), str(self.version) != seen, self.changed_at)

    def is_busy(self) -> bool:
        return any(self.now < update.ends_at for update in self.updates.values())

    def recovered(self, run: Run):
        return self.updates.get(run.request_id) or NeverStarted()

    def scheduler(self) -> Scheduler:
        place = Place("host", "/storage", lambda: self.now, self.sleep, lambda _line: None)
        outside = type("Outside", (), {"pauses": lambda _self: self.pauses, **DELEGATED})()
        outside.world = self
        return Scheduler(place, outside, self, self, self.read().leader + 1)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


DELEGATED = {
    "schedules": lambda self: self.world.schedules(),
    "observe": lambda self, schedule, seen: self.world.observe(schedule, seen),
    "is_busy": lambda self: self.world.is_busy(),
    "recovered": lambda self, run: self.world.recovered(run),
}

POINTS = ("", "", "", "before a write", "after a write", "before a start", "after a start")
STEPS = st.lists(
    st.tuples(
        # How much later than asked for the step is; where the process dies; how long until the next one.
        st.sampled_from((0.0, 0.0, 3.0, 65.0)),
        st.sampled_from(POINTS),
        st.sampled_from((0.0, 20.0, 700.0, 5000.0)),
        st.sampled_from(("", "", "change", "stop")),
    ),
    max_size=60,
)
FATES = st.lists(
    st.tuples(st.sampled_from((1.0, 40.0, 900.0)), st.sampled_from((Ending.DONE, Ending.DONE, Ending.FAILED))),
    max_size=30,
)


@dataclass
class Simulation:
    """Runs schedulers over a world, and notes when none was there."""

    world: World
    scheduler: Scheduler | None = None
    down: list[tuple[float, float]] = field(default_factory=list)
    steps: int = 0
    # The version of the table, and when it came.
    changes: list[tuple[int, float]] = field(default_factory=list)

    def step(self, late_s: float = 0.0, kill_at: str = "", down_s: float = 0.0, what: str = "") -> None:
        world = self.world
        began = world.now
        self.steps += 1
        world.kill_at = kill_at
        try:
            if what == "change":
                world.version, world.changed_at = world.version + 1, world.now
                self.changes.append((world.version, world.now))
            if self.scheduler is None:
                self.scheduler = world.scheduler()
            if what == "stop":
                self.scheduler.finish(60.0)
                world.kill_at = "stopped"
                world.point("stopped")
            wait_s = self.scheduler.step()
            assert wait_s >= LEAST_WAIT_S
            world.now += wait_s + late_s
        except Killed:
            self.scheduler = None
            world.now += down_s
            self.down.append((began, world.now))
        finally:
            world.kill_at = ""

    def settle(self) -> None:
        """Go on without accidents until nothing waits or runs."""
        self.world.fates.clear()
        earliest = self.world.now + 1.2 * PERIOD_S
        while self.world.now < earliest or self.world.read().waiting or self.world.read().running:
            assert self.steps < 3000, "it never comes to an end"
            # Steps that are a little late are fewer.
            self.step(late_s=9.0)

    def is_up(self, moment: float) -> bool:
        # A late step is as good as none.
        return not any(start - 70.0 <= moment <= end for start, end in self.down)


def simulated(steps, fates) -> Simulation:
    simulation = Simulation(World(fates=list(fates)))
    for step in steps:
        simulation.step(*step)
    simulation.settle()
    return simulation


def completed(simulation: Simulation) -> Counter:
    """How many updates have completed for each firing."""
    done = [update for update in simulation.world.updates.values() if update.ending is Ending.DONE]
    return Counter((firing.schedule, firing.due_at) for update in done for firing in update.firings)


@settings(max_examples=examples(25, 400), deadline=None)
@given(STEPS, FATES)
def test_each_time_of_a_schedule_fires_once_wherever_schedulers_die(steps, fates):
    """Guards exactly-once over kills before and after each write and start: no firing has two updates, none is lost."""
    simulation = simulated(steps, fates)
    done, world = completed(simulation), simulation.world

    assert set(done.values()) <= {1}
    last_start = max(update.started_at for update in world.updates.values())
    # The first scheduler may die before it has seen the schedules.
    first = next(iter(sorted(mark.since for mark in world.read().marks.values())))
    for schedule in (OFTEN, HOURLY):
        fired = sorted(due_at for name, due_at in done if name == schedule.name)
        due_at = schedule.timing.times.next_after(first)
        while due_at <= last_start - 120.0:
            # What nobody could fire in time, the next scheduler fires by the newest of these times.
            if simulation.is_up(due_at):
                assert due_at in fired, (schedule.name, due_at - START)
            assert any(due_at <= one for one in fired)
            due_at = schedule.timing.times.next_after(due_at)


@settings(max_examples=examples(25, 400), deadline=None)
@given(STEPS, FATES)
@example([(0.0, "", 0.0, "change"), (0.0, "after a start", 0.0, ""), (0.0, "", 0.0, "stop")], [])
def test_no_request_is_lost_by_merging(steps, fates):
    """Guards the queue: after each change of the table, an update of its dataset starts and completes."""
    simulation = simulated(steps, fates)
    world = simulation.world
    starts = [
        update.started_at
        for update in world.updates.values()
        if update.ending is Ending.DONE and any(firing.schedule == "orders" for firing in update.firings)
    ]

    assert all(any(start >= changed_at for start in starts) for _, changed_at in simulation.changes)
    assert world.read().waiting is None
    assert world.read().running is None


@settings(max_examples=examples(25, 400), deadline=None)
@given(STEPS, FATES)
def test_one_update_runs_at_a_time(steps, fates):
    """Guards that a scheduler that follows a dead one starts nothing beside what runs."""
    spans = sorted((one.started_at, one.ends_at) for one in simulated(steps, fates).world.updates.values())

    assert all(first[1] <= second[0] for first, second in pairwise(spans))


def test_an_idle_scheduler_writes_nothing_and_sleeps():
    """Guards the cost: no write without a decision, and few steps without anything due."""
    simulation = Simulation(World())
    simulation.settle()
    while not 60.0 < simulation.world.now % PERIOD_S < 120.0:
        simulation.step()
    writes, steps, began = simulation.world.writes, simulation.steps, simulation.world.now
    while simulation.world.now < began + 250.0:
        simulation.step()

    assert (simulation.world.writes - writes, simulation.steps - steps <= 26) == (0, True)


def test_a_pause_holds_back_firings_and_resuming_does_not_bring_them_back():
    """Guards pauses through the scheduler, which reads them in each step."""
    simulation = Simulation(World())
    simulation.step()
    simulation.world.pauses["often"] = Pause(is_paused=True, at=simulation.world.now)
    while simulation.world.now < START + 3000:
        simulation.step()
    simulation.world.pauses["often"] = replace(simulation.world.pauses["often"], is_paused=False, at=START + 3000)
    simulation.settle()

    fired = [due_at - START for name, due_at in completed(simulation) if name == "often"]
    assert min(fired) == 3600.0 - START % PERIOD_S


def test_an_update_that_a_stop_cuts_short_runs_again_with_the_next_scheduler():
    """Guards a graceful stop: what the stopped update did not do is done, under another id."""
    simulation = Simulation(World(fates=[(900.0, Ending.DONE)]))
    while not simulation.world.updates:
        simulation.step()
    simulation.step(what="stop")
    simulation.settle()

    first, second, *_ = simulation.world.updates.values()
    assert (first.ending, second.ending) == (Ending.STOPPED, Ending.DONE)
    assert [one.key for one in first.firings] == [one.key for one in second.firings][: len(first.firings)]


def test_in_a_copy_of_a_storage_the_process_of_the_original_is_nobodys():
    """Guards restored copies: the process that the state names is of the original: neither awaited nor stopped."""
    world = World(fates=[(900.0, Ending.DONE)])
    simulation = Simulation(world)
    while not world.updates:
        simulation.step()
    copied = replace(world.read(), storage="/elsewhere", leader=7)
    world.stored = state_text(copied)

    state = world.scheduler().state

    assert (state.running.pid, state.running.host, state.storage, state.leader) == (None, "", "/storage", 8)
