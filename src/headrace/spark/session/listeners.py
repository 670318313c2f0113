"""Listeners that a project's files add to the session's streams; removed when the session loads another project.

The session is shared by everything in the process, so listeners that the program itself added stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from typing import Any

# Set while files of a project load: records the listeners that they add.
_RECORDED: ContextVar[list[tuple[Any, Any]] | None] = ContextVar("headrace_noted_listeners", default=None)
_added: list[tuple[Any, Any]] = []


@contextmanager
def recording_listeners() -> Iterator[None]:
    """Record the listeners that are added inside the block."""
    token = _RECORDED.set(_added)
    try:
        yield
    finally:
        _RECORDED.reset(token)


def remove_listeners() -> None:
    """Remove the listeners that the files of the last loaded project added."""
    while _added:
        manager, listener = _added.pop()
        # The session it was added to may be gone, and the listener with it.
        with suppress(Exception):
            manager.removeListener(listener)


def recording(original: Any) -> Any:
    """Wrap ``addListener`` to record what a project's files add."""

    @wraps(original)
    def adding(self: Any, listener: Any) -> Any:
        result = original(self, listener)
        recorded = _RECORDED.get()
        if recorded is not None:
            recorded.append((self, listener))
        return result

    return adding
