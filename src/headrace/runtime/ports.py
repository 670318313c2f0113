"""What the loop needs from outside, and what it hands on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from headrace.errors import PipelineError
from headrace.events.types import Event
from headrace.plan.steps import FlowStep, TableStep

Emit: TypeAlias = Callable[[Event], None]


@dataclass(frozen=True)
class Started:
    """A flow's query runs."""

    flow: str


@dataclass(frozen=True)
class Current:
    """A flow that goes on has brought a first batch, or found nothing to bring: what reads its table may start."""

    flow: str


@dataclass(frozen=True)
class Idle:
    """A view of a continuous update is current; it is looked at again later."""

    flow: str


@dataclass(frozen=True)
class Completed:
    """A flow has taken everything that was there when it started, or was stopped between two batches.

    Its batches were events of their own.
    """

    flow: str


@dataclass(frozen=True)
class NothingNew:
    """A flow was not started: its inputs brought nothing in this update."""

    flow: str
    reason: str


@dataclass(frozen=True)
class Growth:
    """The schema of a flow's source has a new version, which the flow is to be resolved with.

    ``code`` and ``said`` are those of the warning that tells of it.
    """

    code: str
    said: str


@dataclass(frozen=True)
class Failed:
    """A flow's query could not start or ended with an error.

    ``condition`` and ``sql_state`` are those of the innermost Spark error, read in one place; the decision to retry
    rests on them alone. ``transient`` is what the adapter knows of errors that carry no condition.
    """

    flow: str
    error: PipelineError
    condition: str | None = None
    sql_state: str | None = None
    transient: bool = False
    # Batches were done since the flow was started: its earlier failures are over.
    progressed: bool = False
    # It goes on, losing nothing, once the graph is resolved again.
    growth: Growth | None = None


@dataclass(frozen=True)
class Canceled:
    """A flow was stopped before it had taken everything."""

    flow: str


Report: TypeAlias = "Started | Current | Idle | Completed | NothingNew | Failed | Canceled"


class FlowStarter(Protocol):
    """Starts flows and reports what becomes of them. Called from one thread only."""

    def begin(self, step: FlowStep, table: TableStep | None, attempt: int) -> None:
        """Start a flow and return at once; *attempt* counts from 1, table changes are made in the first one.

        Exactly one of Completed, NothingNew, Failed and Canceled follows, after at most one Started; a flow that goes
        on reports Current once, and a view that does Idle and Started in turn.
        """

    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        """What happened since the last call, in order; blocks until something did or the time is up."""

    def stop(self) -> None:
        """End all flows that run: batches that end within the grace time commit, the others are interrupted.

        Returns at once; the flows' last reports still come through :meth:`wait`.
        """

    @property
    def stopping(self) -> bool:
        """True once somebody asked for the update to be stopped."""
