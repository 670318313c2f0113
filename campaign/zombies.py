"""Lease holders that are stopped, replaced from another host name and continued; and updates that start together."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from campaign.arena import TIMEOUT_S, Arena, CampaignError, Victim
from campaign.kills import Verdict, run_until_hit
from campaign.places import Pass, Shot
from campaign.strike import Who, kill_leftovers, wait_until_stopped
from campaign.victim import Order
from campaign.workload import Scenario, command_of
from headrace.errors import PipelineError
from headrace.model.outcome import UpdateState
from headrace.project.lease_holders import LeaseTiming, Process, read_holder

HOLDER, TAKER = "campaign-holder", "campaign-taker"
# Short, to save time.
TIMING = LeaseTiming(renew_every_s=0.5, expires_after_s=3.0)
_LEASED = 3


def stop_all(arena: Arena, shots: Sequence[tuple[int, Shot]]) -> Iterator[tuple[Verdict, Path]]:
    """Stop one victim after the other, take over its lease, continue it; yields verdicts with their folders."""
    for number, shot in shots:
        folder = arena.workspace.point(shot.scenario, f"zombie-{number:03}")
        at = shot.at if isinstance(shot.at, Pass) else None
        order = Order(str(folder), command_of(shot.scenario), at, shot.delay_ms, shot.who, "SIGSTOP", TIMING)
        victim = arena.victim(order, HEADRACE_HOST=HOLDER)
        victim.await_ready()
        began = time.monotonic()
        struck = run_until_hit(victim, shot, signal.SIGSTOP)
        if struck:
            code, faults = _take_over(arena, victim, shot)
        else:
            code, faults = victim.exit_code(), []
            faults += [] if shot.delay_ms else [f"the victim never came to {shot.at.describe()}"]
        faults += [f"still alive: {text}" for text in kill_leftovers(victim.mark, TIMEOUT_S / 10)]
        yield Verdict(number, shot.describe(), struck, code, time.monotonic() - began, tuple(faults), shot), folder


def _take_over(arena: Arena, victim: Victim, shot: Shot) -> tuple[int | None, list[str]]:
    holder = read_holder(victim.folder / "storage" / "lease.json")
    if holder is None or holder.jvm is None:
        raise CampaignError(f"{victim.folder} has no lease")
    stopped = holder.jvm if shot.who is Who.JVM else holder.python
    faults = [] if wait_until_stopped(stopped.pid, TIMEOUT_S) else ["the victim did not stop"]
    if shot.who is Who.JVM:
        # Its Python process still renews the lease: nobody may take over.
        faults += _check_refused(arena, victim.folder)
        _continue(holder.python, holder.jvm)
        return _check_exit(victim, 0, [*faults, *_faults_later(arena, victim, shot)])
    faults += _check_taken(arena, victim.folder)
    before = _commits(victim.folder)
    _continue(holder.python, holder.jvm)
    code, faults = _check_exit(victim, _LEASED, faults)
    new = sorted(_commits(victim.folder) - before)
    faults += [f"the holder that was taken over has stored {', '.join(new)}"] if new else []
    outcome = arena.run(victim.folder, host=TAKER, lease_timing=TIMING)
    if outcome.state is not UpdateState.COMPLETED:
        faults.append(f"the update after all ended as {outcome.state.value}: {outcome.error}")
    return code, [*faults, *arena.faults(victim.folder, shot.scenario, repeats=True)]


def _faults_later(arena: Arena, victim: Victim, shot: Shot) -> Iterator[str]:
    victim.exit_code()
    yield from arena.faults(victim.folder, shot.scenario)


def _check_exit(victim: Victim, wanted: int, faults: list[str]) -> tuple[int | None, list[str]]:
    code = victim.exit_code()
    if code != wanted:
        faults = [*faults, f"the victim ended with {code} instead of {wanted}: {victim.output()[-500:]}"]
    return code, faults


def _check_refused(arena: Arena, folder: Path) -> list[str]:
    deadline = time.monotonic() + 2 * TIMING.expires_after_s
    while time.monotonic() < deadline:
        try:
            arena.run(folder, host=TAKER, lease_timing=TIMING)
        except PipelineError as refused:
            if refused.code != "LEASE.HELD":
                return [f"the taker was refused with {refused.code}"]
        else:
            return ["the lease of a holder that renews it was taken"]
    return []


def _check_taken(arena: Arena, folder: Path) -> list[str]:
    deadline = time.monotonic() + 10 * TIMING.expires_after_s
    while time.monotonic() < deadline:
        try:
            outcome = arena.run(folder, host=TAKER, lease_timing=TIMING)
        except PipelineError as refused:
            if refused.code != "LEASE.HELD":
                return [f"the taker was refused with {refused.code}"]
            time.sleep(0.1)
        else:
            taken = outcome.state is UpdateState.COMPLETED
            return [] if taken else [f"the taker's update ended as {outcome.state.value}: {outcome.error}"]
    return ["the lease of a holder that is stopped was never given up"]


def _continue(python: Process, jvm: Process) -> None:
    for process in (jvm, python):
        with suppress(ProcessLookupError):
            os.killpg(os.getpgid(process.pid), signal.SIGCONT)


def _commits(folder: Path) -> set[str]:
    """All table commits, and all batches that streams have planned."""
    storage = folder / "storage"
    files = [*storage.glob("tables/*/*/_delta_log/*.json"), *storage.glob("checkpoints/*/*/*/*/offsets/[0-9]*")]
    return {str(file.relative_to(storage)) for file in files}


def race_all(arena: Arena, numbers: Sequence[int]) -> Iterator[tuple[Verdict, Path]]:
    """Start two updates together: one wins, the other names it. Every other time, a dead holder has the lease."""
    for number in numbers:
        folder = arena.workspace.point(Scenario.NEXT, f"race-{number:03}")
        dead = number % 2 == 0
        what = "two updates at once" + (", the lease of another host has expired" if dead else "")
        if dead:
            _leave_dead_holder(folder / "storage" / "lease.json")
        order = Order(str(folder), command_of(Scenario.NEXT))
        victims = []
        for name in ("one", "other"):
            victims.append(arena.victim(order, name))
            victims[-1].await_ready()
        began = time.monotonic()
        for victim in victims:
            victim.go()
        faults = _race_faults(victims)
        faults += arena.faults(folder, Scenario.NEXT)
        codes = {victim.process.returncode for victim in victims}
        yield Verdict(number, what, True, max(codes), time.monotonic() - began, tuple(faults)), folder  # noqa: FBT003


def _race_faults(victims: Sequence[Victim]) -> list[str]:
    codes = {victim.process.pid: victim.exit_code() for victim in victims}
    if sorted(map(str, codes.values())) != ["0", str(_LEASED)]:
        return [f"the updates ended with {list(codes.values())}", *(victim.output()[-500:] for victim in victims)]
    winner = next(pid for pid, code in codes.items() if code == 0)
    loser = next(victim for victim in victims if victim.process.returncode)
    return [] if f"Process {winner} on" in loser.output() else [f"the loser does not name the winner: {loser.output()}"]


def _leave_dead_holder(file: Path) -> None:
    dead = {"pid": 1, "started_at": 1.0}
    held = {"number": 7, "host": "gone", "python": dead, "jvm": dead, "held_since": 1.0, "renewed_at": 1.0}
    file.write_text(json.dumps({**held, "released": False}), encoding="utf-8")
    # By the clock of a store, too.
    os.utime(file, (1.0, 1.0))
