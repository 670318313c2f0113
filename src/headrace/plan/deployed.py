"""What is in the storage as the planner sees it; implemented above, where the storage is read."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from headrace.cdc.merge_keys import MergedRows
from headrace.graph.resolved import MadeWith, Mode, ResolvedFlow, ResolvedGraph
from headrace.graph.starts import Start
from headrace.graph.unavailable_sources import AwayFlow
from headrace.model.datasets import Kind
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema
from headrace.model.views import ViewDefinition
from headrace.plan.agreement import Disagreement
from headrace.plan.backfills import Load
from headrace.plan.source_retention import SourceReach, SourceStart


@dataclass(frozen=True)
class NewInput:
    """Whether a flow has something to do, and the reason in words."""

    started: bool
    reason: str


def read_anew(name: QualifiedName) -> str:
    """What to do about a stream that cannot go on, in words."""
    return f"to continue, run: headrace run --full-refresh {shlex.quote(str(name))}"


class DeployedTable(Protocol):
    """A table in the storage as it is now."""

    @property
    def schema(self) -> Schema:
        """Its columns."""

    @property
    def comment(self) -> str | None:
        """What is said about it."""

    @property
    def properties(self) -> Mapping[str, str]:
        """Its table properties."""

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The columns that it is partitioned by."""


class DeployedLayout(Protocol):
    """How a table in the storage is clustered, and its protocol."""

    @property
    def cluster_by(self) -> tuple[str, ...] | None:
        """The columns that it is clustered by; None when that is not known."""

    def holds(self, key: str, value: str) -> bool | None:
        """Whether a property that is kept in the protocol is met; None for any other property."""


class DeployedState(Protocol):
    """Reads what is deployed; never writes."""

    def table(self, name: QualifiedName) -> DeployedTable | None:
        """The table of a dataset in the storage, or None when there is none."""

    def layout(self, name: QualifiedName) -> DeployedLayout:
        """How the table of a dataset is laid out."""

    def news(self, graph: ResolvedGraph, flow: ResolvedFlow) -> NewInput:
        """Whether the flow has something to do, given the tables as they are now."""

    def resetting(self, flow: ResolvedFlow) -> bool:
        """True when a crash interrupted a reset of the flow, which is then finished first."""

    def accepted(self, flow: ResolvedFlow) -> bool:
        """True when nothing is asked any more about such a reset: it clears already, or what it loses was given up."""

    def pending_load(self, flow: ResolvedFlow) -> Load | None:
        """A load that a crash has left unfinished, or None."""

    def ran(self, flow: ResolvedFlow) -> bool:
        """True when the flow has progress: it was run before."""

    def made_with(self, flow: ResolvedFlow) -> MadeWith | None:
        """What the checkpoint of a flow was made with; None when it has none with a batch, or that is not known."""

    def merged_rows(self, name: QualifiedName) -> MergedRows | None:
        """By what changes were merged into the table of a dataset; None when that was not done, or is not known."""

    def contradiction(self, flow: ResolvedFlow) -> Disagreement | None:
        """What does not agree between the stores of a flow, or None when it can go on."""


class DeployedPast(Protocol):
    """Reads what flows have read before, and what of it is still there; never writes."""

    def rows(self, name: QualifiedName) -> tuple[int, int]:
        """Rows in the table of a dataset, and in its quarantine."""

    def kind(self, name: QualifiedName) -> Kind | None:
        """As what the table of a dataset was made; None when there is none, or when that is not known."""

    def path(self, name: QualifiedName) -> str:
        """Where the table of a dataset lies, if there is one."""

    def view(self, name: QualifiedName) -> ViewDefinition | None:
        """The stored definition of a persisted view, or None."""

    def wrote(self, flow: ResolvedFlow) -> bool:
        """True when the flow has run, or has at least put something into its table."""

    def mode(self, flow: ResolvedFlow) -> Mode | None:
        """How the flow ran before; None when it did not, or when that is not known."""

    def reach(self, flow: ResolvedFlow) -> tuple[SourceReach, ...]:
        """The sources of a flow, and what of what it read is gone."""

    def left(self, graph: ResolvedGraph, name: QualifiedName) -> tuple[str, ...]:
        """Flows that have fed a dataset and are no longer in the code."""

    def streamed(self, flow: AwayFlow, name: QualifiedName) -> bool:
        """True when the table of a dataset, as it is now, is one that the stream of a flow has read."""

    def starting(self, flow: ResolvedFlow, start: Start, cleared: frozenset[QualifiedName]) -> tuple[SourceStart, ...]:
        """Where the reading of each source of a flow starts.

        Raises:
            PipelineError, Problems: a source cannot be read from there.
        """
