"""The ports of the loop, and the reports that it receives."""

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
    """A flow's query is running."""

    flow: str


@dataclass(frozen=True)
class Current:
    """A continuous flow completed its first batch, or found no input: readers of its table may start."""

    flow: str


@dataclass(frozen=True)
class Idle:
    """A view of a continuous update is current; it is checked again later."""

    flow: str


@dataclass(frozen=True)
class Completed:
    """A flow has processed everything that was available at its start, or was stopped between two batches.

    Its batches are reported by events of their own.
    """

    flow: str


@dataclass(frozen=True)
class NothingNew:
    """A flow was not started, because its inputs have nothing new in this update."""

    flow: str
    reason: str


@dataclass(frozen=True)
class SchemaEvolution:
    """The schema of a flow's source has a new version, with which the flow must be resolved again.

    ``code`` and ``message`` are those of the warning about it.
    """

    code: str
    message: str


@dataclass(frozen=True)
class Failed:
    """A flow's query could not start or ended with an error.

    ``condition`` and ``sql_state`` are those of the innermost Spark error, and alone decide whether to retry.
    ``transient`` is the adapter's decision for errors without a condition.
    """

    flow: str
    error: PipelineError
    condition: str | None = None
    sql_state: str | None = None
    transient: bool = False
    # Batches were completed since the flow was started, so that its earlier failures no longer count.
    progressed: bool = False
    # The flow continues without data loss once the graph is resolved again.
    schema_evolution: SchemaEvolution | None = None


@dataclass(frozen=True)
class Canceled:
    """A flow was stopped before it had processed everything."""

    flow: str


Report: TypeAlias = "Started | Current | Idle | Completed | NothingNew | Failed | Canceled"


class FlowStarter(Protocol):
    """Starts flows and reports on them. Called from one thread only."""

    def start(self, step: FlowStep, table: TableStep | None, attempt: int) -> None:
        """Start a flow and return at once; *attempt* counts from 1, and the first one makes the table changes.

        Exactly one of Completed, NothingNew, Failed and Canceled follows, after at most one Started. A continuous flow
        reports Current once, and a continuous view alternates between Idle and Started.
        """

    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        """The reports since the last call, in order; blocks until there is one or the time is up."""

    def stop(self) -> None:
        """Stop all running flows: batches that end within the stop timeout commit, the others are interrupted.

        Returns at once; the flows' last reports still come through :meth:`wait`.
        """

    @property
    def is_stopping(self) -> bool:
        """True once a stop of the update was requested."""
