"""Tells the user's event hooks what happens in an update, in a thread of their own.

Source: lakeflow.md 1.9, event hooks: they get events of maturity STABLE, one at a time and asynchronously; what they
raise fails no update; a hook that failed too often in a row is left alone until the next update.
"""

from __future__ import annotations

import copy
import json
import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headrace.events.types import Event, Maturity, Warned
from headrace.model.hooks import EventHook

if TYPE_CHECKING:
    from typing import Self

# Above this, hooks are so slow that events are left out; memory is not theirs to fill.
MOST_WAITING = 10_000
# How long the end of an update waits for hooks that are behind.
PATIENCE_S = 10.0

Row = Mapping[str, Any]


@dataclass
class _Standing:
    """How a hook is doing."""

    hook: EventHook
    failures: int = 0
    disabled: bool = False


class Hooks:
    """The hooks of one update. Enter it to begin; leaving it waits a bounded time for those that are behind.

    Args:
        hooks: the user's.
        emit: records a warning; warnings are not stable, so hooks never hear of each other's trouble.
        in_thread: called first in the hooks' thread.
        patience_s: how long leaving waits.
    """

    def __init__(
        self,
        hooks: Iterable[EventHook],
        emit: Callable[[Event], None],
        in_thread: Callable[[], None] = lambda: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._standings = [_Standing(hook) for hook in hooks]
        self._emit = emit
        self._in_thread = in_thread
        self._patience_s = patience_s
        self._waiting: queue.Queue[Row | None] = queue.Queue(MOST_WAITING)
        self._left_out = False
        self._late = threading.Event()
        self._thread = threading.Thread(target=self._tell_all, name="headrace-hooks", daemon=True)

    def __enter__(self) -> Self:
        if self._standings:
            self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        if not self._thread.is_alive():
            return
        if not self._put(None):
            # The end goes before what can no longer be told.
            self._late.set()
        self._thread.join(self._patience_s)
        if self._thread.is_alive():
            self._late.set()
            said = f"event hooks were behind when the update ended: {self._waiting.qsize()} events were not told"
            self._emit(Warned("HOOK.LATE", said))

    def tell(self, row: Row) -> None:
        """Let the hooks know of a row of the event log; returns at once."""
        if self._standings and row["maturity_level"] == Maturity.STABLE.value and not self._put(row):
            # The warning is the thread's to give: whoever emits an event here holds the log.
            self._left_out = True

    def _put(self, row: Row | None) -> bool:
        try:
            self._waiting.put_nowait(row)
        except queue.Full:
            return False
        return True

    def _tell_all(self) -> None:
        self._in_thread()
        slow = False
        while not self._late.is_set():
            row = self._waiting.get()
            if row is None:
                return
            if self._left_out and not slow:
                slow = True
                self._warn("HOOK.SLOW", f"event hooks are {MOST_WAITING} events behind; some events are not told")
            said = as_told(row)
            for standing in self._standings:
                if not standing.disabled and not self._late.is_set():
                    # A hook may change what it is given.
                    self._tell(standing, copy.deepcopy(said))

    def _tell(self, standing: _Standing, event: dict[str, Any]) -> None:
        hook = standing.hook
        try:
            hook.function(event)
        except Exception as error:  # noqa: BLE001 - whatever a hook raises is the hook's trouble alone
            standing.failures += 1
            most = hook.most_failures
            if most is not None and standing.failures > most:
                standing.disabled = True
                said = f'event hook "{hook.name}" ({hook.location}) failed {standing.failures} times in a row and is'
                self._warn("HOOK.DISABLED", f"{said} left alone until the next update: {_reason(error)}")
            elif standing.failures == 1:
                self._warn("HOOK.FAILED", f'event hook "{hook.name}" ({hook.location}) failed: {_reason(error)}')
        else:
            standing.failures = 0

    def _warn(self, code: str, message: str) -> None:
        # Once the update has ended the log is closed, and nobody is left to hear of a hook.
        with suppress(Exception):
            self._emit(Warned(code, message))


def as_told(row: Row) -> dict[str, Any]:
    """A row of the event log as hooks get it: values of JSON alone, with the details parsed."""
    said = {key: value.isoformat() if isinstance(value, datetime) else value for key, value in row.items()}
    said["details"] = json.loads(row["details"])
    return copy.deepcopy(said)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
