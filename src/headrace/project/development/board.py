"""What the last check of a project has found, for everybody who shows it: a terminal, and pages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from headrace.project.development.check import Check
from headrace.project.development.plan_lines import PlanDifference, PlanLine, differences, summary


class Phase(str, Enum):
    """How far it is."""

    STARTING = "starting"
    CHECKING = "checking"
    VALID = "valid"
    BROKEN = "broken"


@dataclass(frozen=True)
class DevState:
    """What is known of a project. Times are seconds since 1970.

    Attributes:
        phase: how far it is.
        saved: the files whose save it is about; none for the first check.
        check: the last check that has ended; None before the first.
        plan: the lines of the newest plan that could be made.
        datasets: the names of the datasets and sinks in it.
        changes: how they differ from the plan before the save; None if there was none to compare with.
        checked_at: when the last check ended.
        checks: how many have ended.
    """

    phase: Phase = Phase.STARTING
    saved: tuple[str, ...] = ()
    check: Check | None = None
    plan: tuple[PlanLine, ...] | None = None
    datasets: tuple[str, ...] = ()
    changes: tuple[PlanDifference, ...] | None = None
    checked_at: float | None = None
    checks: int = 0

    def begun(self, saved: tuple[str, ...]) -> DevState:
        """A check has begun, because some files were saved."""
        return replace(self, phase=Phase.CHECKING, saved=saved)

    def ended(self, check: Check, now: float) -> DevState:
        """A check has ended.

        Law: the plan of a broken project is the last good one, so the next good save is compared with it.
        """
        known = replace(self, check=check, checked_at=now, checks=self.checks + 1)
        if not check.has_plan:
            return replace(known, phase=Phase.BROKEN, changes=None)
        changes = None if self.plan is None else differences(self.plan, check.lines)
        return replace(known, phase=Phase.VALID, plan=check.lines, datasets=check.datasets, changes=changes)

    def to_json(self) -> dict[str, Any]:
        """The state for programs and pages."""
        check = self.check
        return {
            "phase": self.phase.value,
            "saved": list(self.saved),
            "checked_at": self.checked_at,
            "checks": self.checks,
            "duration_s": None if check is None else round(check.duration_s, 3),
            "problems": [] if check is None else [dict(one) for one in check.problems],
            "summary": None if self.plan is None else summary(self.plan),
            "plan": None if self.plan is None else [line.text for line in self.plan],
            "datasets": list(self.datasets),
            "changes": None if self.changes is None else [one.to_json() for one in self.changes],
        }


class DevBoard:
    """Holds the state; used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state = DevState()
        self._listeners: list[Callable[[], None]] = []

    @property
    def state(self) -> DevState:
        """The state now."""
        return self._state

    def show(self, state: DevState) -> None:
        """Replace the state, and let everybody know who listens."""
        with self._lock:
            self._state = state
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call a function after each change, from the thread that changes it; it must return at once."""
        with self._lock:
            self._listeners.append(listener)
