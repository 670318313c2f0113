"""Callbacks from a running flow to its attempt, and the protocol of flow executions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from headrace.runtime.ports import Report


@dataclass(frozen=True)
class Hooks:
    """Callbacks from an execution to its attempt.

    Attributes:
        on_start: the query runs.
        on_current: a stream has finished its first batch or waits for input.
        stop_timeout_s: how long the running batch may still take once the flow should end early; None before that.
        compact: many batches were written; small files can be compacted.
        on_poll: a continuous stream was polled.
        watch_jobs: called with a group of Spark jobs that belong to the flow, before they run.
    """

    on_start: Callable[[], None]
    on_current: Callable[[], None]
    stop_timeout_s: Callable[[], float | None]
    compact: Callable[[], None]
    on_poll: Callable[[], None]
    watch_jobs: Callable[[str], None]

    def is_stopping(self) -> bool:
        """Whether the flow should end early."""
        return self.stop_timeout_s() is not None


class FlowExecution(Protocol):
    """One attempt of one flow. Streams, snapshots and batch queries have a class each."""

    @property
    def progressed(self) -> bool:
        """Whether a batch was finished before the attempt failed."""

    def run(self) -> Report:
        """Run the flow to its end.

        Raises:
            Exception: whatever made it fail.
        """
