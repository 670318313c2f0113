"""What an execution of a flow reports while it runs, and by what it learns that it should end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from headrace.runtime.ports import Report


@dataclass(frozen=True)
class Hooks:
    """Calls from an execution to the attempt that it belongs to.

    Attributes:
        started: the query runs.
        current: a stream has finished its first batch or waits for input.
        stop_timeout_s: how long the running batch may still take once the flow should end early; None before that.
        compact: many batches were written, so that small files can be compacted.
        polled: a continuous stream was looked at.
    """

    started: Callable[[], None]
    current: Callable[[], None]
    stop_timeout_s: Callable[[], float | None]
    compact: Callable[[], None]
    polled: Callable[[], None]

    def is_stopping(self) -> bool:
        """Whether the flow should end early."""
        return self.stop_timeout_s() is not None


class FlowExecution(Protocol):
    """One attempt of one flow. There is a class for streams, for snapshots, and for queries that run as a batch."""

    @property
    def progressed(self) -> bool:
        """Whether a batch was finished before the attempt failed."""

    def run(self) -> Report:
        """Run the flow to its end.

        Raises:
            Exception: whatever made it fail.
        """
