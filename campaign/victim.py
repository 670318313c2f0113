"""The victim process: runs a command line of Headrace with its own JVM, on a start signal, and may hit itself.

python -m campaign.victim ORDER     with ORDER as JSON, see :class:`Order`
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from campaign.places import Pass
from campaign.strike import Who, strike
from headrace.cli.main import call
from headrace.project.lease_holders import LeaseTiming, read_holder
from headrace.project.open import Project
from headrace.project.test_harness import Harness
from headrace.runtime.failpoints import Failpoint
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings


@dataclass(frozen=True)
class Order:
    """What a victim does: a command line in a folder; and where, whom and with which signal it hits."""

    folder: str
    words: list[str]
    at: Pass | None = None
    delay_ms: int = 0
    who: Who = Who.PYTHON
    signal: str = "SIGKILL"
    terms: LeaseTiming = field(default_factory=LeaseTiming)

    def to_json(self) -> str:
        """The order as an argument of the process."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Order:
        """The order of :meth:`to_json`."""
        raw: dict[str, Any] = json.loads(text)
        at = Pass(**raw["at"]) if raw["at"] else None
        return Order(**{**raw, "at": at, "who": Who(raw["who"]), "terms": LeaseTiming(**raw["terms"])})


class Trap:
    """A failpoint handler that hits on the n-th pass of a point, or a delay later."""

    def __init__(self, at: Pass, delay_s: float, hit: Callable[[], None]) -> None:
        self._point = Failpoint(at.point)
        self._remaining = at.number
        self._delay_s = delay_s
        self._hit = hit
        self._order = threading.Lock()

    def __call__(self, point: Failpoint) -> None:
        """Handle a pass of a failpoint."""
        if point is not self._point:
            return
        with self._order:
            self._remaining -= 1
            is_due = self._remaining == 0
        if is_due and self._delay_s:
            timer = threading.Timer(self._delay_s, self._hit)
            # If the update ends first, it is not hit.
            timer.daemon = True
            timer.start()
        elif is_due:
            self._hit()


def main() -> int:
    """Start the JVM, wait for a line of input, run the command line."""
    order = Order.from_json(sys.argv[1])
    folder = Path(order.folder)

    def hit() -> None:
        holder = read_holder(folder / "storage" / "lease.json")
        if holder is not None and holder.jvm is not None:
            # Tells the campaign of the hit; written first, because this process may not survive.
            (folder / "struck").touch()
            strike(order.who, signal.Signals[order.signal], os.getpid(), holder.jvm.pid)

    harness = Harness(lease_timing=order.terms)
    if order.at is not None:
        harness = Harness(failpoints=Trap(order.at, order.delay_ms / 1000, hit), lease_timing=order.terms)
    project = Project(load_settings(find_settings(folder), environ=os.environ), os.environ, harness)
    project.plan()
    (folder / "ready").touch()
    if not sys.stdin.readline():
        return 1
    return call(order.words, lambda *_, **__: project)


if __name__ == "__main__":
    sys.exit(main())
