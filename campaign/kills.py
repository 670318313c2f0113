"""Victims that are killed or told to stop, and what the next update makes of what they left."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from campaign.arena import Arena, Victim
from campaign.places import File, Pass, Shot
from campaign.strike import Who, left_over, strike
from campaign.victim import Order
from campaign.workload import Scenario, words_of
from headrace.model.outcome import UpdateState
from headrace.project.lease_holders import read_holder
from headrace.runtime.failpoints import Failpoint

# How long what a victim leaves behind may live once another update is done.
_LEFT_OVER_PATIENCE_S = 20.0


@dataclass(frozen=True)
class Verdict:
    """What became of one point."""

    number: int
    what: str
    # The signal came before the update was over.
    struck: bool
    code: int | None
    seconds: float
    faults: tuple[str, ...] = ()
    shot: Shot | None = field(default=None, compare=False)

    @property
    def passed(self) -> bool:
        """True when nothing shows."""
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
class Waiting:
    """A victim that is ready, or soon will be."""

    number: int
    shot: Shot
    victim: Victim


def hit_all(
    arena: Arena, shots: Sequence[tuple[int, Shot]], number: signal.Signals = signal.SIGKILL
) -> Iterator[tuple[Verdict, Path]]:
    """Hit one victim after the other and let the next update finish its work; verdicts come with the folders.

    The next victim starts its JVM while one is judged.
    """
    waiting: list[Waiting] = []
    try:
        coming = iter(shots)
        waiting += [_waiting(arena, *point, number) for point in islice(coming, 1)]
        while waiting:
            waiting += [_waiting(arena, *point, number) for point in islice(coming, 1)]
            here = waiting.pop(0)
            yield _hit(arena, here, number), here.victim.folder
    finally:
        for other in waiting:
            other.victim.close()
            other.victim.exit_code()


def _name(number: int) -> str:
    return f"point-{number:03}"


def _waiting(arena: Arena, number: int, shot: Shot, sent: signal.Signals) -> Waiting:
    folder = arena.ground.point(shot.scenario, _name(number))
    at = shot.at if isinstance(shot.at, Pass) else None
    order = Order(str(folder), words_of(shot.scenario), at, shot.delay_ms, shot.who, sent.name)
    return Waiting(number, shot, arena.victim(order))


def _hit(arena: Arena, here: Waiting, sent: signal.Signals) -> Verdict:
    shot, victim = here.shot, here.victim
    victim.await_ready()
    began = time.monotonic()
    struck = let_run(victim, shot, sent)
    code = victim.exit_code()
    faults = _of_the_end(shot, sent, code, struck=struck)
    if code == 0 and shot.scenario not in (Scenario.ENDLESS, Scenario.LOAD):
        # Who says that all is done has nothing left to do.
        faults += arena.faults(victim.folder, shot.scenario)
    outcome = arena.run(victim.folder)
    if outcome.state is UpdateState.COMPLETED:
        faults += arena.faults(victim.folder, shot.scenario)
    else:
        faults.append(f"the next update ended as {outcome.state.value}: {outcome.error}")
    faults += [f"still alive: {text}" for text in left_over(victim.mark, _LEFT_OVER_PATIENCE_S)]
    return Verdict(here.number, shot.describe(), struck, code, time.monotonic() - began, tuple(faults), shot)


def let_run(victim: Victim, shot: Shot, sent: signal.Signals) -> bool:
    """Let a victim run until it is hit or has ended; True when it was hit."""
    if isinstance(shot.at, Pass):
        victim.go()
        while victim.process.poll() is None and not (victim.folder / "struck").exists():
            time.sleep(0.01)
        return (victim.folder / "struck").exists()
    return _watched(victim, shot.at, shot.delay_ms / 1000, shot.who, sent)


def _watched(victim: Victim, file: File, delay_s: float, who: Who, sent: signal.Signals) -> bool:
    """Hit a victim from outside when a file comes to be."""
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


def _of_the_end(shot: Shot, sent: signal.Signals, code: int | None, *, struck: bool) -> list[str]:
    if code is None:
        return ["the victim hangs"]
    if not struck:
        # With a delay, the update may have been over by then.
        came = [] if shot.delay_ms else [f"the victim never came to {shot.at.describe()}"]
        return came if code == 0 else [*came, f"the victim was not hit and ended with {code}"]
    allowed = {0} if shot.scenario is Scenario.ENDLESS else {0, 130}
    if sent is signal.SIGKILL:
        # A backfill that has begun its stream anew behind what it loaded has nothing left to ask a JVM.
        over = shot.scenario is Scenario.LOAD and isinstance(shot.at, Pass) and shot.at.point == Failpoint.FENCED.value
        allowed = ({0, 1} if over else {1}) if shot.who is Who.JVM else {-signal.SIGKILL}
    return [] if code in allowed else [f"the victim ended with {code} instead of {sorted(allowed)}"]
