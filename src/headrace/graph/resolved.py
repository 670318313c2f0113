"""The resolved graph: every dataset with its kind and schema, every flow with what it reads, in an order to run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from headrace.cdc.feed import ChangeFeed
from headrace.cdc.merge_keys import MergedRows
from headrace.graph.flows import GraphFlow
from headrace.graph.unavailable_sources import AwayFlow
from headrace.model.datasets import Dataset, Kind
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema

# Types of sequences, as Spark's JSON has them, with few values: many events share one.
_COARSE = frozenset(('"date"', '"boolean"', '"byte"'))


class Mode(str, Enum):
    """How a flow's rows reach its target."""

    APPEND = "append"  # a stream that adds rows
    UPDATE = "update"  # a stream of rows that have changed, into a sink
    COMPLETE = "complete"  # a stream whose whole result replaces the table in each batch
    MERGE = "merge"  # a stream of change events that are merged into the table
    SNAPSHOT = "snapshot"  # batches, each all rows of a source, to which the table is brought
    ONCE = "once"  # a batch that is appended exactly once
    REPLACE = "replace"  # a batch that replaces the table in one commit
    VIEW = "view"  # nothing is stored

    @property
    def streams(self) -> bool:
        """True for a flow that goes on where it stopped, by a checkpoint."""
        return self in (Mode.APPEND, Mode.UPDATE, Mode.COMPLETE, Mode.MERGE)


@dataclass(frozen=True)
class Input:
    """A dataset of the pipeline that a flow reads."""

    name: QualifiedName
    streaming: bool


class SourceKind(str, Enum):
    """What a streaming source is, as far as its position can be compared without starting the flow."""

    DATASET = "dataset"
    FILES = "files"
    AUTO_LOADER = "auto loader"
    OTHER = "other"


@dataclass(frozen=True)
class Source:
    """One streaming source of a flow, in the order in which Spark writes their offsets.

    ``detail`` is the dataset's name, or the source's own description; that of Auto Loader is its reader, as text.
    ``passes_changes`` means that rows which are removed from a dataset, or changed, do not stop the stream that reads
    it; ``reads_feed`` that what has happened to its rows is read.
    """

    kind: SourceKind
    detail: str
    passes_changes: bool = False
    reads_feed: bool = False
    # Options of the source that change nothing, each with the reason.
    without_effect: tuple[tuple[str, str], ...] = ()
    # What it has sent cannot be read again.
    forgets: bool = False

    @property
    def digest(self) -> str:
        """What is stored to recognise the source; its own description may hold a secret, and is not stored."""
        if self.kind is not SourceKind.AUTO_LOADER:
            return self._digest_of(self.detail)
        reader = {key: value for key, value in json.loads(self.detail).items() if key not in PLACES_OF_READER}
        return self._digest_of(json.dumps(reader, sort_keys=True))

    def is_same(self, digest: str) -> bool:
        """Whether a digest that was stored, by this version or by 0.1, is that of the source."""
        return digest in (self.digest, self._digest_of(self.detail))

    def _digest_of(self, text: str) -> str:
        return f"{self.kind.value}:{hashlib.sha256(text.encode()).hexdigest()[:32]}"


# What the text of Auto Loader's reader says of the machine and of the storage, and not of what is read.
PLACES_OF_READER = frozenset({"ledgers", "schema_location", "tasks"})

# The kind of "operator" that a flow is whose change events are merged.
CHANGES = "changes"


@dataclass(frozen=True)
class StatefulOperator:
    """An operator that keeps state between batches.

    ``kind`` is such as "aggregate" or "join". ``digest`` is equal for operators that can use each other's state: it
    stands for what decides the layout and the meaning of the state, and for nothing around it. ``description`` is for
    the reader, and ``types`` too, when two operators differ in nothing else.
    """

    kind: str
    digest: str = ""
    description: str = ""
    types: str = ""

    @property
    def has_timers(self) -> bool:
        """True when something may come of it although nothing new came in."""
        return self.kind in ("applyInPandasWithState", "transformWithState")

    @property
    def goes_by_clock(self) -> bool:
        """True when its timers are those of the clock, for which Spark plans one batch after the other."""
        return self.has_timers and "ProcessingTime" in self.description


@dataclass(frozen=True)
class Analysis:
    """What calling a flow's query once on empty inputs has shown."""

    schema: Schema
    streaming: bool
    inputs: tuple[Input, ...] = ()
    sources: tuple[Source, ...] = ()
    # External things that are read (paths, tables outside of the pipeline), for the reader.
    external: tuple[str, ...] = ()
    # Paths of those that are Delta tables, read as a batch; their versions tell whether their rows are others now.
    external_tables: tuple[str, ...] = ()
    # The streaming result cannot be appended: an aggregation without a watermark.
    complete: bool = False
    # Operators that keep state between batches, in Spark's order.
    operators: tuple[StatefulOperator, ...] = ()
    # Identifies the query; a different text means that the result may differ.
    fingerprint: str = ""
    # The same as version 0.1 has written it, which depends on where the query runs.
    former_fingerprint: str = ""
    # None when the same inputs always give the same result, otherwise why not.
    unrepeatable: str | None = None
    # How events become rows, for a flow that applies changes; ``schema`` is then that of its target.
    feed: ChangeFeed | None = None


@dataclass(frozen=True)
class MadeWith:
    """The part of a streaming query that its checkpoint, and the rows that it has written, depend on."""

    mode: Mode
    operators: tuple[StatefulOperator, ...] = ()


@dataclass(frozen=True)
class ResolvedFlow(GraphFlow):
    """A flow whose query was called once on empty inputs of the right schema."""

    mode: Mode
    analysis: Analysis

    @property
    def merges(self) -> bool:
        """True when rows of the target are changed, and not only added or replaced as a whole."""
        return self.analysis.feed is not None

    @property
    def asks(self) -> bool:
        """True when a function is asked for what comes next."""
        return self.flow.snapshots is not None and self.flow.snapshots.asks

    @property
    def made_with(self) -> MadeWith:
        """What a checkpoint depends on that is made now."""
        feed = self.analysis.feed
        kind = "snapshots" if self.mode is Mode.SNAPSHOT else CHANGES
        merges = () if feed is None else (StatefulOperator(kind, feed.meaning, feed.meaning, feed.sequence_type),)
        return MadeWith(self.mode, self.analysis.operators + merges)


@dataclass(frozen=True)
class ResolvedDataset:
    """A dataset with its kind decided and its schema known; ``path`` is None for a view and a sink.

    A table that keeps its rows keeps its columns: ``schema`` has those that the code no longer speaks of too, and the
    wider type where the code has a narrower one. ``queried`` is what the code alone says, None when that is the same.
    ``merged`` is by what changes are merged into the table, None where they are not.
    """

    dataset: Dataset
    schema: Schema
    path: str | None
    queried: Schema | None = None
    merged: MergedRows | None = None

    @property
    def name(self) -> QualifiedName:
        """The dataset's canonical name."""
        return self.dataset.name

    @property
    def kind(self) -> Kind:
        """What it is; never ``Kind.TABLE``."""
        return self.dataset.kind

    @property
    def in_code(self) -> Schema:
        """The columns as declared, or else as its flows return them."""
        return self.schema if self.queried is None else self.queried

    @property
    def members(self) -> tuple[QualifiedName, ...]:
        """The sinks that get what is delivered to it."""
        return self.dataset.sink.members if self.dataset.sink is not None else ()

    @property
    def label(self) -> str:
        """What it is, in prose."""
        if self.dataset.sink is not None and not self.dataset.sink.members:
            return f"sink, {self.dataset.sink.format}"
        return f"private {self.kind.label}" if self.dataset.private else self.kind.label


@dataclass(frozen=True)
class ResolvedGraph:
    """All datasets and flows, inputs before what reads them.

    ``away`` are flows that could not be resolved because a source is away, and those that need them, views' too; a
    dataset that has no other flows is not among ``datasets``, but ``absent``.
    """

    datasets: tuple[ResolvedDataset, ...]
    flows: tuple[ResolvedFlow, ...]
    away: tuple[AwayFlow, ...] = ()

    @cached_property
    def by_name(self) -> dict[QualifiedName, ResolvedDataset]:
        """Datasets by name."""
        return {dataset.name: dataset for dataset in self.datasets}

    @cached_property
    def absent(self) -> dict[QualifiedName, Dataset]:
        """Datasets of the code, as declared, of which nothing could be resolved because sources are away."""
        return {away.target: away.dataset for away in self.away if away.target not in self.by_name}

    @cached_property
    def by_flow(self) -> dict[str, ResolvedFlow]:
        """Flows by name."""
        return {flow.name: flow for flow in self.flows}

    @property
    def stored_flows(self) -> tuple[ResolvedFlow, ...]:
        """The flows that an update runs: all but those of views."""
        return tuple(flow for flow in self.flows if flow.mode is not Mode.VIEW)

    def away_into(self, name: QualifiedName) -> tuple[AwayFlow, ...]:
        """The flows of a dataset that could not be resolved because sources are away."""
        return tuple(away for away in self.away if away.target == name)

    def flows_into(self, name: QualifiedName) -> tuple[ResolvedFlow, ...]:
        """The flows that feed a dataset."""
        return tuple(flow for flow in self.flows if flow.target == name)

    def stored_inputs(self, flow: ResolvedFlow) -> tuple[Input, ...]:
        """The tables that a flow reads, directly or through views; streaming when any path to it is."""
        found: dict[QualifiedName, bool] = {}
        for given in flow.analysis.inputs:
            if self.by_name[given.name].kind.is_view:
                for view_flow in self.flows_into(given.name):
                    for inner in self.stored_inputs(view_flow):
                        found[inner.name] = found.get(inner.name, False) or inner.streaming
            else:
                found[given.name] = found.get(given.name, False) or given.streaming
        return tuple(Input(name, streaming) for name, streaming in found.items())

    def views_below(self, flow: ResolvedFlow) -> tuple[ResolvedFlow, ...]:
        """The flows of all views that a flow reads, directly or through other views, innermost first."""
        wanted: set[QualifiedName] = set()
        pending = [flow]
        while pending:
            for given in pending.pop().analysis.inputs:
                if self.by_name[given.name].kind.is_view and given.name not in wanted:
                    wanted.add(given.name)
                    pending.extend(self.flows_into(given.name))
        return tuple(view for view in self.flows if view.target in wanted)

    @property
    def cautions(self) -> tuple[tuple[ResolvedFlow, str], ...]:
        """Flows that work, and lead to rows that surprise, each with the reason."""
        found = []
        for flow in self.flows:
            feed = flow.analysis.feed
            if feed is not None and feed.ordered_by is not None:
                reason = (
                    f"its events are ordered by {feed.sequence}, which depends on {feed.ordered_by}: events that are "
                    "read together tie, and their order changes when they are read again"
                )
                found.append((flow, reason))
            if feed is not None and flow.mode is Mode.MERGE and feed.sequence_type in _COARSE:
                kind = feed.sequence_type.strip('"')
                reason = (
                    f"its events are ordered by {feed.sequence}, which is of type {kind}: events with the same key and "
                    f"{kind} tie, and a delete wins, otherwise the greatest row"
                )
                found.append((flow, reason))
        return tuple(found)

    def describe(self) -> str:
        """The graph as stable text: a line a dataset, indented lines for its flows and what they read."""
        lines = []
        for dataset in self.datasets:
            lines.append(f"{dataset.name}  ({dataset.label})")
            lines += [f"  -> {member}" for member in dataset.members]
            for flow in self.flows_into(dataset.name):
                own = "" if flow.name == str(dataset.name) else f"flow {flow.name}: "
                lines.append(f"  <- {own}{_reads(flow)}")
                lines += [f"     warning: {reason}" for cautioned, reason in self.cautions if cautioned is flow]
        return "\n".join(lines)

    def to_mermaid(self) -> str:
        """The graph as a Mermaid flowchart."""
        ids = {dataset.name: f"d{number}" for number, dataset in enumerate(self.datasets)}
        shapes = {
            Kind.STREAMING_TABLE: '[["{}"]]',
            Kind.MATERIALIZED_VIEW: '[("{}")]',
            Kind.TEMPORARY_VIEW: '(["{}"])',
            Kind.PERSISTED_VIEW: '[/"{}"/]',
            Kind.SINK: '>"{}"]',
        }
        lines = ["flowchart LR"]
        lines += [f"  {ids[d.name]}{shapes[d.kind].format(_escaped(str(d.name)))}" for d in self.datasets]
        for flow in self.flows:
            for given in flow.analysis.inputs:
                arrow = "-->" if given.streaming else "-.->"
                lines.append(f"  {ids[given.name]} {arrow} {ids[flow.target]}")
        lines += [f"  {ids[d.name]} --> {ids[member]}" for d in self.datasets for member in d.members]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The graph as the contract's JSON object; ``warnings`` are there where there are some."""
        warnings = [{"flow": flow.name, "reason": reason} for flow, reason in self.cautions]
        return {
            "datasets": [
                {"name": str(d.name), "kind": d.kind.value, "path": d.path, "private": d.dataset.private}
                for d in self.datasets
            ],
            "flows": [
                {"name": f.name, "target": str(f.target), "inputs": [str(i.name) for i in f.analysis.inputs]}
                for f in self.flows
            ],
            **({"warnings": warnings} if warnings else {}),
        }


def _reads(flow: ResolvedFlow) -> str:
    inputs = [f"{given.name}{' (stream)' if given.streaming else ''}" for given in flow.analysis.inputs]
    return ", ".join([*inputs, *flow.analysis.external]) or "nothing"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;")
