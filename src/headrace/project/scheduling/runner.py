"""What the scheduler needs of whatever runs updates: a child process, or a process that is warm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headrace.model.outcome import UpdateCause
from headrace.schedules.queue import Result

# The state in the result of an update that did not start, because another one held the lease of the pipeline.
BUSY = "BUSY"


@dataclass(frozen=True)
class RunRequest:
    """An update to run.

    Attributes:
        request_id: the runner passes it on, so that an update that is asked for twice runs once.
        refresh: selectors of the datasets; empty for all.
        cause: why, for the event log.
        is_continuous: until it is stopped.
    """

    request_id: str
    refresh: tuple[str, ...]
    cause: UpdateCause
    is_continuous: bool = False


class RunningUpdate(Protocol):
    """An update that was started."""

    @property
    def process(self) -> tuple[int, float] | None:
        """The id and the start time of its process, by which a later scheduler finds it; None if it has none."""

    def poll(self) -> Result | None:
        """How it ended; None while it runs. Returns at once, and the same again once it has ended."""

    def stop(self) -> None:
        """Ask it to stop: running batches may finish. Returns at once; may be called again."""


class Runner(Protocol):
    """Starts updates of one pipeline."""

    def start(self, request: RunRequest) -> RunningUpdate:
        """Start an update and return at once.

        Raises:
            OSError: nothing was started.
        """
