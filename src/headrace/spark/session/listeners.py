"""Listeners that a project's files add to the session's streams: there until the session serves another project.

The session is shared by whatever runs in the process, so listeners that the program itself has added stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from typing import Any

# Set while files of a project load: what they add is noted here.
_NOTED: ContextVar[list[tuple[Any, Any]] | None] = ContextVar("headrace_noted_listeners", default=None)
_added: list[tuple[Any, Any]] = []


@contextmanager
def noting_listeners() -> Iterator[None]:
    """Take note of the listeners that are added inside the block."""
    token = _NOTED.set(_added)
    try:
        yield
    finally:
        _NOTED.reset(token)


def remove_listeners() -> None:
    """Take away the listeners that files of the project which was loaded last have added."""
    while _added:
        manager, listener = _added.pop()
        # The session it was added to may be gone, and the listener with it.
        with suppress(Exception):
            manager.removeListener(listener)


def noted(original: Any) -> Any:
    """``addListener`` that notes what a project's files add."""

    @wraps(original)
    def adding(self: Any, listener: Any) -> Any:
        result = original(self, listener)
        noting = _NOTED.get()
        if noting is not None:
            noting.append((self, listener))
        return result

    return adding
