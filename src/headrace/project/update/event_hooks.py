"""Calls the user's event hooks for the events of an update, in a separate thread.

Source: lakeflow.md 1.9, event hooks: they receive events of maturity STABLE, one at a time and asynchronously; their
exceptions fail no update; a hook that fails too often in a row is disabled until the next update.
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

from headrace.events.levels import Maturity
from headrace.events.types import Event, Warned
from headrace.model.hooks import EventHook

if TYPE_CHECKING:
    from typing import Self

# Hooks that fall further behind miss events, so that the queue does not fill the memory.
MAX_PENDING = 10_000
# How long the end of an update waits for hooks to catch up.
DRAIN_TIMEOUT_S = 10.0

Row = Mapping[str, Any]


@dataclass
class _HookState:
    """The state of a hook."""

    hook: EventHook
    failures: int = 0
    disabled: bool = False


class Hooks:
    """The hooks of one update, as a context manager. Its exit waits a limited time for hooks to catch up.

    Args:
        hooks: the user's hooks.
        emit: records a warning; warnings are not stable events, so hooks do not receive them.
        in_thread: called first in the hooks' thread.
        timeout_s: how long the exit waits.
    """

    def __init__(
        self,
        hooks: Iterable[EventHook],
        emit: Callable[[Event], None],
        in_thread: Callable[[], None] = lambda: None,
        timeout_s: float = DRAIN_TIMEOUT_S,
    ) -> None:
        self._states = [_HookState(hook) for hook in hooks]
        self._emit = emit
        self._in_thread = in_thread
        self._timeout_s = timeout_s
        self._pending: queue.Queue[Row | None] = queue.Queue(MAX_PENDING)
        self._has_dropped = False
        self._gave_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-hooks", daemon=True)

    def __enter__(self) -> Self:
        if self._states:
            self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        if not self._thread.is_alive():
            return
        if not self._put(None):
            # The queue is full: stop without delivering the rest.
            self._gave_up.set()
        self._thread.join(self._timeout_s)
        if self._thread.is_alive():
            self._gave_up.set()
            text = f"event hooks were behind when the update ended: {self._pending.qsize()} events were not delivered"
            self._emit(Warned("HOOK.LATE", text))

    def notify(self, row: Row) -> None:
        """Pass a row of the event log to the hooks; returns at once."""
        if self._states and row["maturity_level"] == Maturity.STABLE.value and not self._put(row):
            # The hooks' thread warns: the caller here holds the log's lock.
            self._has_dropped = True

    def _put(self, row: Row | None) -> bool:
        try:
            self._pending.put_nowait(row)
        except queue.Full:
            return False
        return True

    def _run(self) -> None:
        self._in_thread()
        warned_of_drops = False
        while not self._gave_up.is_set():
            row = self._pending.get()
            if row is None:
                return
            if self._has_dropped and not warned_of_drops:
                warned_of_drops = True
                self._warn("HOOK.SLOW", f"event hooks are {MAX_PENDING} events behind; some events are not delivered")
            event = as_hook_event(row)
            for state in self._states:
                if not state.disabled and not self._gave_up.is_set():
                    # A hook may modify its argument.
                    self._call(state, copy.deepcopy(event))

    def _call(self, state: _HookState, event: dict[str, Any]) -> None:
        hook = state.hook
        try:
            hook.function(event)
        except Exception as error:  # noqa: BLE001 - exceptions of a hook must not affect the update
            state.failures += 1
            limit = hook.max_consecutive_failures
            if limit is not None and state.failures > limit:
                state.disabled = True
                text = f'event hook "{hook.name}" ({hook.location}) failed {state.failures} times in a row and is'
                self._warn("HOOK.DISABLED", f"{text} disabled until the next update: {_reason(error)}")
            elif state.failures == 1:
                self._warn("HOOK.FAILED", f'event hook "{hook.name}" ({hook.location}) failed: {_reason(error)}')
        else:
            state.failures = 0

    def _warn(self, code: str, message: str) -> None:
        # Once the update has ended, the log is closed and the warning is dropped.
        with suppress(Exception):
            self._emit(Warned(code, message))


def as_hook_event(row: Row) -> dict[str, Any]:
    """A row of the event log as hooks receive it: only JSON values, with the details parsed."""
    event = {key: value.isoformat() if isinstance(value, datetime) else value for key, value in row.items()}
    event["details"] = json.loads(row["details"])
    return copy.deepcopy(event)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
