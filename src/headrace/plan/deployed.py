"""The deployed state as the planner sees it. ``headrace.storage`` implements these protocols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from headrace.cdc.merge_keys import MergeKeys
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import Mode, ResolvedFlow, StateSignature
from headrace.graph.starts import Start
from headrace.graph.unavailable_sources import UnavailableFlow
from headrace.model.datasets import Kind
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema
from headrace.model.views import ViewDefinition
from headrace.plan.agreement import Disagreement
from headrace.plan.backfills import Backfill
from headrace.plan.source_retention import SourceRetention, SourceStart


@dataclass(frozen=True)
class NewInput:
    """Whether a flow has work to do, and the reason in words."""

    is_due: bool
    reason: str


class DeployedTable(Protocol):
    """The current state of a table in the storage."""

    @property
    def schema(self) -> Schema:
        """Its columns."""

    @property
    def comment(self) -> str | None:
        """Its comment."""

    @property
    def properties(self) -> Mapping[str, str]:
        """Its table properties."""

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The columns that it is partitioned by."""


class DeployedLayout(Protocol):
    """The clustering and the protocol of a table in the storage."""

    @property
    def cluster_by(self) -> tuple[str, ...] | None:
        """The columns that it is clustered by; None if unknown."""

    def satisfies(self, key: str, value: str) -> bool | None:
        """Whether the protocol satisfies a property; None if the property is not part of the protocol."""


class DeployedState(Protocol):
    """Reads the deployed state. It never writes."""

    def table(self, name: QualifiedName) -> DeployedTable | None:
        """The table of a dataset in the storage, or None."""

    def layout(self, name: QualifiedName) -> DeployedLayout:
        """The layout of a dataset's table."""

    def detect_changes(self, graph: ResolvedGraph, flow: ResolvedFlow) -> NewInput:
        """Whether the flow has work to do, given the current tables."""

    def is_modified(self, flow: ResolvedFlow) -> bool:
        """True if the flow last ran with other code or settings, or never."""

    def is_resetting(self, flow: ResolvedFlow) -> bool:
        """True if a crash interrupted a reset of the flow. The next update finishes it first."""

    def is_reset_accepted(self, flow: ResolvedFlow) -> bool:
        """True if such a reset needs no consent: it has started to clear, or the user accepted the loss."""

    def pending_backfill(self, flow: ResolvedFlow) -> Backfill | None:
        """A backfill that a crash interrupted, or None."""

    def has_run(self, flow: ResolvedFlow) -> bool:
        """True if the flow has progress: it ran before."""

    def state_signature(self, flow: ResolvedFlow) -> StateSignature | None:
        """The state signature of a flow's checkpoint; None if the checkpoint has no batch, or if it is unknown."""

    def merge_keys(self, name: QualifiedName) -> MergeKeys | None:
        """The keys by which changes were merged into a dataset's table; None if there were none, or if unknown."""

    def disagreement(self, flow: ResolvedFlow) -> Disagreement | None:
        """The disagreement between the stores of a flow, or None if it can continue."""


class DeployedHistory(Protocol):
    """Reads what flows have read before, and which of it is still available. It never writes."""

    def rows(self, name: QualifiedName) -> tuple[int, int]:
        """Rows in the table of a dataset, and in its quarantine."""

    def kind(self, name: QualifiedName) -> Kind | None:
        """The kind that the table of a dataset was created as; None if there is no table, or if unknown."""

    def path(self, name: QualifiedName) -> str:
        """The path of a dataset's table."""

    def view(self, name: QualifiedName) -> ViewDefinition | None:
        """The stored definition of a persisted view, or None."""

    def has_written(self, flow: ResolvedFlow) -> bool:
        """True if the flow has run, or at least written to its table."""

    def mode(self, flow: ResolvedFlow) -> Mode | None:
        """The mode in which the flow ran before; None if it did not run, or if unknown."""

    def source_retention(self, flow: ResolvedFlow) -> tuple[SourceRetention, ...]:
        """The sources of a flow, and which of the rows that it read cannot be read again."""

    def former_stream_flows(self, graph: ResolvedGraph, name: QualifiedName) -> tuple[str, ...]:
        """Flows that wrote to a dataset and are no longer in the code."""

    def has_streamed(self, flow: UnavailableFlow, name: QualifiedName) -> bool:
        """True if the stream of a flow has read the current table of a dataset."""

    def start_positions(
        self, flow: ResolvedFlow, start: Start, cleared: frozenset[QualifiedName]
    ) -> tuple[SourceStart, ...]:
        """The start position of each source of a flow.

        Raises:
            PipelineError, Problems: a source cannot be read from there.
        """
