"""Maintenance at random moments beside a continuous update whose streams read the tables that it rewrites."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from campaign.arena import TIMEOUT_S, Arena
from campaign.kills import Verdict
from campaign.series import Series, output_of
from campaign.strike import kill_leftovers
from campaign.workload import Scenario, command_of
from headrace.events.envelope import from_row
from headrace.events.reader import EventReader
from headrace.events.types import FlowStateChanged
from headrace.model.maintenance import DAY_S, MaintenancePolicy, Task, VacuumScope
from headrace.model.outcome import FlowState, UpdateState
from headrace.plan import maintenance
from headrace.plan.maintenance import Action, ActionState, Size
from headrace.project.lease_holders import read_holder
from headrace.storage.removal import size_of

# Longer than a write of a few rows takes, so that versions of the initial storage expire at once.
_RETAIN_S = 60.0
# Files of less than a day are never vacuumed, so those of the initial storage become older.
_AGE_S = 2 * DAY_S
# Updates of one process, one after the other. The first has a cold JVM, in which a batch may take a minute.
_POINTS_OF_PROCESS = 20
# The first maintenance begins within this time after the update has the lease.
_LATEST_S = 12.0
# Generous: an update that exceeds it counts as hanging.
_TIMEOUT_S = 900.0
_COUNTED_AGAIN = "counts of per_kind:"
_POLICY = MaintenancePolicy(VacuumScope.ALL, retain_s=_RETAIN_S)
# Tables of a campaign have few files and commits.
_LIMITS = {"COMPACT_ABOVE_FILES": 1, "CHECKPOINT_ABOVE_COMMITS": 3, "UNORDERED_SHARE": 0.01}


def maintain_all(arena: Arena, seed: int, numbers: Sequence[int]) -> Iterator[tuple[Verdict, Path]]:
    """Maintain the storage of one continuous update after the other; yields verdicts with the folders.

    The updates run in other processes than the maintenance.

    A point passes if nothing failed, in the update or in the maintenance, and the tables are those of an uninterrupted
    project.
    """
    for first in range(0, len(numbers), _POINTS_OF_PROCESS):
        series = Series(arena.workspace.base, arena.environ)
        for number in numbers[first : first + _POINTS_OF_PROCESS]:
            yield _point(arena, series, seed, number)
            if not series.is_alive:
                series = Series(arena.workspace.base, arena.environ)
        series.close()
        kill_leftovers(series.mark, TIMEOUT_S / 10)


def _point(arena: Arena, series: Series, seed: int, number: int) -> tuple[Verdict, Path]:
    folder = arena.workspace.point(Scenario.ENDLESS, f"maintain-{number:03}")
    _age(folder / "storage" / "tables")
    delay_s = random.Random(f"{seed} {number}").uniform(0, _LATEST_S)  # noqa: S311 - which moment
    began = time.monotonic()
    series.begin(folder, command_of(Scenario.ENDLESS))
    before = _tables_on_disk(folder)
    actions, faults = _maintain_beside(arena, series, folder, delay_s)
    after = _tables_on_disk(folder)
    code = series.stop(folder)
    faults += [] if code == 0 else [f"the update ended with {code}: {output_of(folder)[-500:]}"]
    faults += [f"{action.task.value} of {action.table} failed: {action.reason}" for action in _failed(actions)]
    faults += _unrest(folder)
    outcome = arena.run(folder)
    faults += _relevant(arena.faults(folder, Scenario.ENDLESS))
    if outcome.state is not UpdateState.COMPLETED:
        faults.append(f"the next update ended as {outcome.state.value}: {outcome.error}")
    what = f"after {delay_s:.1f} s: {_counts(actions)}; tables on disk {before}, afterwards {after}"
    struck = any(action.state is ActionState.DONE for action in actions)
    return Verdict(number, what, struck, code, time.monotonic() - began, tuple(faults)), folder


def _age(tables: Path) -> None:
    """Make all files two days older; Delta has the times of commits from them."""
    for file in tables.rglob("*"):
        found = file.stat()
        os.utime(file, (found.st_atime, found.st_mtime - _AGE_S))


def _maintain_beside(arena: Arena, series: Series, folder: Path, delay_s: float) -> tuple[list[Action], list[str]]:
    """Maintain again and again until the update has read all input, and once more."""
    lease = folder / "storage" / "lease.json"
    deadline = time.monotonic() + _TIMEOUT_S
    while (holder := read_holder(lease)) is None or holder.released or holder.jvm is None:
        if time.monotonic() > deadline or not series.is_alive:
            return [], ["the update does not begin"]
        time.sleep(0.01)
    time.sleep(delay_s)
    actions: list[Action] = []
    with ExitStack() as stack:
        for name, value in _LIMITS.items():
            stack.enter_context(patch.object(maintenance, name, value))
        is_done = False
        while not is_done and time.monotonic() < deadline and series.is_alive:
            is_done = not _relevant(arena.differences(folder, Scenario.ENDLESS))
            actions += arena.maintain(folder, _POLICY)
    return actions, [] if is_done else ["the update has not read all input"]


def _relevant(faults: Sequence[str]) -> list[str]:
    """The faults that a rewrite must not cause.

    After a commit without new rows, a stream may run a batch without input. In complete mode, such a batch writes the
    same table again, and its rows are counted again.
    """
    return [fault for fault in faults if not fault.startswith(_COUNTED_AGAIN)]


def _failed(actions: Sequence[Action]) -> list[Action]:
    return [action for action in actions if action.state is ActionState.FAILED]


def _unrest(folder: Path) -> list[str]:
    """Attempts of flows that failed in any update of the point, which a retry may have hidden."""
    events = (from_row(row) for row in EventReader(str(folder / "storage" / "system" / "events")).events())
    return [
        f"flow {event.flow} is {event.state.value}: {event.reason or event.error}"
        for event in events
        if isinstance(event, FlowStateChanged) and event.state in (FlowState.FAILED, FlowState.RETRYING)
    ]


def _tables_on_disk(folder: Path) -> str:
    """The files and bytes of all tables, with their logs and the versions that are not vacuumed."""
    found = size_of(folder / "storage" / "tables")
    return Size(found.files, found.size_bytes).describe()


def _counts(actions: Sequence[Action]) -> str:
    done = [action for action in actions if action.state is ActionState.DONE]
    skipped = sum(action.state is ActionState.SKIPPED for action in actions)
    parts = [_count([action for action in done if action.task is task]) for task in Task]
    return ", ".join([*filter(None, parts), *([f"{skipped} skipped"] if skipped else [])]) or "nothing was due"


def _count(done: Sequence[Action]) -> str:
    """The number of actions of one task, with the files and bytes before and after all of them."""
    if not done:
        return ""
    text = f"{len(done)} {done[0].task.value}"
    sizes = [(action.before, action.after) for action in done if action.before and action.after]
    if not sizes:
        return text
    return f"{text} ({_sum(before for before, _ in sizes)} -> {_sum(after for _, after in sizes)})"


def _sum(sizes: Iterable[Size]) -> str:
    listed = list(sizes)
    return Size(sum(size.files for size in listed), sum(size.size_bytes for size in listed)).describe()
