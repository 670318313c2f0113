"""The time that tasks of Spark took."""

from __future__ import annotations

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

    def plus(self, other: ExecutorTime) -> ExecutorTime:
        """The sum of both."""
        return ExecutorTime(self.run_ms + other.run_ms, self.cpu_ms + other.cpu_ms)


def sum_of_times(times: list[ExecutorTime]) -> ExecutorTime:
    """The sum of times; zero for none."""
    return ExecutorTime(sum(one.run_ms for one in times), sum(one.cpu_ms for one in times))
