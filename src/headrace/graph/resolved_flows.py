"""The flows of a resolved graph: one type per way in which rows reach a target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, Self, TypeAlias

from headrace.cdc.feed import ChangeFeed
from headrace.graph.analysis import CHANGES, Analysis, ChangeAnalysis, Input, StatefulOperator
from headrace.graph.graph_flow import GraphFlow
from headrace.model.cdc import ApplyChanges, CompareSnapshots
from headrace.model.datasets import Dataset, Flow, Kind


class Mode(str, Enum):
    """The type of a flow, as records and events store it."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"
    MERGE = "merge"
    SNAPSHOT = "snapshot"
    ONCE = "once"
    REPLACE = "replace"
    VIEW = "view"

    @property
    def is_streaming(self) -> bool:
        """True for a flow that continues from its checkpoint."""
        return self in (Mode.APPEND, Mode.UPDATE, Mode.COMPLETE, Mode.MERGE)


@dataclass(frozen=True)
class StateSignature:
    """The parts of a streaming query that its checkpoint and its written rows depend on."""

    mode: Mode
    operators: tuple[StatefulOperator, ...] = ()


@dataclass(frozen=True)
class _Resolved(GraphFlow):
    """A flow whose query was analyzed once on empty inputs of the right schema."""

    analysis: Analysis
    mode: ClassVar[Mode]

    @property
    def state_signature(self) -> StateSignature:
        """The signature of a checkpoint that starts now."""
        return StateSignature(self.mode, self.analysis.operators)

    def with_inputs(self, inputs: tuple[Input, ...]) -> Self:
        """The flow with these datasets as inputs."""
        return replace(self, analysis=replace(self.analysis, inputs=inputs))


@dataclass(frozen=True)
class AppendFlow(_Resolved):
    """A stream that adds rows."""

    mode = Mode.APPEND


@dataclass(frozen=True)
class UpdateFlow(_Resolved):
    """A stream that delivers changed rows to a sink."""

    mode = Mode.UPDATE


@dataclass(frozen=True)
class CompleteFlow(_Resolved):
    """A stream whose whole result replaces the table in each batch."""

    mode = Mode.COMPLETE


@dataclass(frozen=True)
class OnceFlow(_Resolved):
    """A batch that is appended exactly once."""

    mode = Mode.ONCE


@dataclass(frozen=True)
class RefreshFlow(_Resolved):
    """A batch that replaces the table of a materialized view in one commit."""

    mode = Mode.REPLACE


@dataclass(frozen=True)
class ViewFlow(_Resolved):
    """The query of a view, which stores nothing."""

    mode = Mode.VIEW


@dataclass(frozen=True)
class _Changes(_Resolved):
    """A flow that changes rows of its target by their keys."""

    analysis: ChangeAnalysis
    # The kind of its "operator" in the signature.
    _operator: ClassVar[str] = CHANGES

    @property
    def feed(self) -> ChangeFeed:
        """How events become rows of the target."""
        return self.analysis.feed

    @property
    def state_signature(self) -> StateSignature:
        """The signature of a checkpoint that starts now. It includes the meaning of the events."""
        feed = self.feed
        merging = StatefulOperator(self._operator, feed.signature, feed.signature, feed.sequence_type)
        return StateSignature(self.mode, (*self.analysis.operators, merging))


@dataclass(frozen=True)
class MergeFlow(_Changes):
    """A stream of change events that are merged into the table."""

    mode = Mode.MERGE
    changes: ApplyChanges


@dataclass(frozen=True)
class OnceMergeFlow(_Changes):
    """A batch of change events that is merged into the table exactly once."""

    mode = Mode.ONCE
    changes: ApplyChanges


@dataclass(frozen=True)
class SnapshotFlow(_Changes):
    """Batches, each a full snapshot of a source, that update the table."""

    mode = Mode.SNAPSHOT
    _operator: ClassVar[str] = "snapshots"
    comparison: CompareSnapshots

    @property
    def calls_function(self) -> bool:
        """True when a function is called for the next snapshot."""
        return self.comparison.calls_function


# Flows that continue from a checkpoint.
StreamingFlow: TypeAlias = AppendFlow | UpdateFlow | CompleteFlow | MergeFlow
# Streams whose checkpoint can be reset while their table keeps its rows.
RestartableFlow: TypeAlias = AppendFlow | UpdateFlow | MergeFlow
# Flows that change rows of their target by keys.
ChangeFlow: TypeAlias = MergeFlow | OnceMergeFlow | SnapshotFlow
# Flows that run once, and again after a full refresh.
OneTimeFlow: TypeAlias = OnceFlow | OnceMergeFlow
# Flows whose query runs as one batch.
BatchFlow: TypeAlias = RefreshFlow | OneTimeFlow
# Flows that an update runs: they store rows or deliver them.
StoredFlow: TypeAlias = StreamingFlow | SnapshotFlow | BatchFlow
ResolvedFlow: TypeAlias = StoredFlow | ViewFlow


def resolved_flow(dataset: Dataset, flow: Flow, analysis: Analysis) -> ResolvedFlow:
    """Create the flow of the type that its target, declaration and analysis require."""
    if dataset.kind.is_view:
        return ViewFlow(flow, analysis)
    if dataset.kind is Kind.MATERIALIZED_VIEW:
        return RefreshFlow(flow, analysis)
    if isinstance(analysis, ChangeAnalysis):
        return _change_flow(flow, analysis)
    if flow.once:
        return OnceFlow(flow, analysis)
    if flow.updates:
        return UpdateFlow(flow, analysis)
    return CompleteFlow(flow, analysis) if analysis.complete else AppendFlow(flow, analysis)


def _change_flow(flow: Flow, analysis: ChangeAnalysis) -> ChangeFlow:
    if flow.snapshots is not None:
        return SnapshotFlow(flow, analysis, flow.snapshots)
    if flow.changes is None:
        raise ValueError(f"flow {flow.name} declares no changes, but its analysis has some")
    return (OnceMergeFlow if flow.once else MergeFlow)(flow, analysis, flow.changes)
