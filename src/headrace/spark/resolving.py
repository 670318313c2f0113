"""Whether a query function is being called to be resolved: on empty stand-ins, to find what it reads and returns."""

from __future__ import annotations

from contextvars import ContextVar

RESOLVING: ContextVar[bool] = ContextVar("headrace_resolving", default=False)
