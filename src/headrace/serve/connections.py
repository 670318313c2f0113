"""Connections of clients that are slow, or do nothing: each is closed after a time, so that others find room."""

from __future__ import annotations

import asyncio
import resource
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

# How long a client may take for the head of a request, from the start or from the answer before; and for reading what
# it was sent. The body has a limit of its own, in the guard.
HEAD_S, READ_S = 20.0, 30.0
_MOST_FILES = 8192


class TimedConnection(H11Protocol):
    """A connection that is closed if its client sends no request in time, or does not read the answer."""

    head_s = HEAD_S
    read_s = READ_S

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as the class above
        """Wait for the first request."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        for timer in (self._head_timer, self._read_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """A request may have come."""
        super().handle_events()
        # None before the first request.
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        # Before the class above looks at the next request, which may be there already.
        self._expect_head()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client has not read so much that no more is sent."""
        super().pause_writing()
        self._read_timer = self.loop.call_later(self.read_s, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _expect_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
        self._head_timer = self.loop.call_later(self.head_s, self.transport.abort)


def allow_files() -> None:
    """Let this process have as many open connections as it answers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
