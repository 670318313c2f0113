"""What a query function is being called for. Spark's workers import this: keep the imports few."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Whether a query function is called to be run, and what its readers find out is to be kept.
_RUNS: ContextVar[bool] = ContextVar("headrace_runs", default=False)


@contextmanager
def storing() -> Iterator[None]:
    """Let query functions be called to be run inside the block: readers store the schemas that they infer."""
    token = _RUNS.set(True)
    try:
        yield
    finally:
        _RUNS.reset(token)


def is_run() -> bool:
    """Whether a query function is called to be run, and not just to be looked at."""
    return _RUNS.get()
