"""The time that tasks of Spark took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class ExecutorTime:
    """The time of tasks, those of all cores added up.

    Attributes:
        run_ms: how long they ran, waits for storage and for Python included.
        cpu_ms: the processor time of their Java threads; that of Python's processes is not in it.
    """

    run_ms: int
    cpu_ms: int


def sum_of(times: Iterable[ExecutorTime]) -> ExecutorTime | None:
    """The sum of times; None for none."""
    known = tuple(times)
    return ExecutorTime(sum(one.run_ms for one in known), sum(one.cpu_ms for one in known)) if known else None
