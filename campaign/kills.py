"""Victims that are killed or asked to stop, and the checks after the next update."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from campaign.arena import Arena, Victim
from campaign.places import DataFile, File, Pass, Shot
from campaign.strike import Who, kill_leftovers, strike
from campaign.victim import Order
from campaign.workload import Scenario, command_of
from headrace.model.outcome import UpdateState
from headrace.project.lease_holders import read_holder
from headrace.runtime.failpoints import Failpoint

# How long leftover processes of a victim may live after the next update.
_LEFTOVER_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Verdict:
    """The result of one point."""

    number: int
    what: str
    # Whether the signal arrived before the update ended.
    struck: bool
    code: int | None
    seconds: float
    faults: tuple[str, ...] = ()
    shot: Shot | None = field(default=None, compare=False)

    @property
    def passed(self) -> bool:
        """Whether no fault was found."""
        return not self.faults

    def to_json(self) -> dict[str, Any]:
        """The verdict as stored."""
        return {
            "number": self.number,
            "what": self.what,
            "struck": self.struck,
            "code": self.code,
            "seconds": round(self.seconds, 1),
            "faults": list(self.faults),
            "shot": self.shot.to_json() if self.shot else None,
        }


@dataclass(frozen=True)
class PendingVictim:
    """A victim that was started, and may still be starting its JVM."""

    number: int
    shot: Shot
    victim: Victim


def hit_all(
    arena: Arena, shots: Sequence[tuple[int, Shot]], number: signal.Signals = signal.SIGKILL
) -> Iterator[tuple[Verdict, Path]]:
    """Hit one victim after the other, and let the next update finish its work; yields verdicts with their folders.

    The next victim starts its JVM during the checks of the current one.
    """
    pending: list[PendingVictim] = []
    try:
        shots_left = iter(shots)
        pending += [_start_victim(arena, *point, number) for point in islice(shots_left, 1)]
        while pending:
            pending += [_start_victim(arena, *point, number) for point in islice(shots_left, 1)]
            current = pending.pop(0)
            yield _hit(arena, current, number), current.victim.folder
    finally:
        for other in pending:
            other.victim.close()
            other.victim.exit_code()


def _name(number: int) -> str:
    return f"point-{number:03}"


def _start_victim(arena: Arena, number: int, shot: Shot, sent: signal.Signals) -> PendingVictim:
    folder = arena.workspace.point(shot.scenario, _name(number))
    at = shot.at if isinstance(shot.at, Pass) else None
    order = Order(str(folder), command_of(shot.scenario), at, shot.delay_ms, shot.who, sent.name)
    return PendingVictim(number, shot, arena.victim(order))


def _hit(arena: Arena, current: PendingVictim, sent: signal.Signals) -> Verdict:
    shot, victim = current.shot, current.victim
    victim.await_ready()
    began = time.monotonic()
    struck = run_until_hit(victim, shot, sent)
    code = victim.exit_code()
    faults = _exit_faults(shot, sent, code, struck=struck)
    if code == 0 and shot.scenario not in (Scenario.ENDLESS, Scenario.LOAD):
        # An update that reports success must have finished all work.
        faults += arena.faults(victim.folder, shot.scenario)
    if code is not None:
        faults += arena.status_faults(victim.folder)
    outcome = arena.run(victim.folder)
    faults += arena.status_faults(victim.folder, ended_as=outcome.state)
    if outcome.state is UpdateState.COMPLETED:
        faults += arena.faults(victim.folder, shot.scenario)
    else:
        faults.append(f"the next update ended as {outcome.state.value}: {outcome.error}")
    faults += [f"still alive: {text}" for text in kill_leftovers(victim.mark, _LEFTOVER_TIMEOUT_S)]
    return Verdict(current.number, shot.describe(), struck, code, time.monotonic() - began, tuple(faults), shot)


def run_until_hit(victim: Victim, shot: Shot, sent: signal.Signals) -> bool:
    """Let a victim run until it is hit or exits; returns whether it was hit."""
    if isinstance(shot.at, Pass):
        victim.go()
        while victim.process.poll() is None and not (victim.folder / "struck").exists():
            time.sleep(0.01)
        return (victim.folder / "struck").exists()
    return _watched(victim, shot.at, shot.delay_ms / 1000, shot.who, sent)


def _watched(victim: Victim, file: File | DataFile, delay_s: float, who: Who, sent: signal.Signals) -> bool:
    """Hit a victim from outside, once a file appears or changes."""
    storage = victim.folder / "storage"
    happened = file.watch(storage)
    victim.go()
    while not happened():
        if victim.process.poll() is not None:
            return False
        time.sleep(0.001)
    deadline = time.monotonic() + delay_s
    holder = read_holder(storage / "lease.json")
    while time.monotonic() < deadline or holder is None or holder.jvm is None:
        if victim.process.poll() is not None:
            return False
        time.sleep(0.001)
        holder = read_holder(storage / "lease.json")
    strike(who, sent, victim.process.pid, holder.jvm.pid)
    return True


def _exit_faults(shot: Shot, sent: signal.Signals, code: int | None, *, struck: bool) -> list[str]:
    if code is None:
        return ["the victim hangs"]
    if not struck:
        # With a delay, the update may have ended first.
        missed = [] if shot.delay_ms else [f"the victim never came to {shot.at.describe()}"]
        return missed if code == 0 else [*missed, f"the victim was not hit and ended with {code}"]
    allowed = {0} if shot.scenario is Scenario.ENDLESS else {0, 130}
    if sent is signal.SIGKILL:
        # A backfill that has repositioned its stream no longer needs the JVM.
        may_finish = (
            shot.scenario is Scenario.LOAD
            and isinstance(shot.at, Pass)
            and shot.at.point == Failpoint.STREAM_REPOSITIONED.value
        )
        allowed = ({0, 1} if may_finish else {1}) if shot.who is Who.JVM else {-signal.SIGKILL}
    return [] if code in allowed else [f"the victim ended with {code} instead of {sorted(allowed)}"]
