"""Graphs made by hand, without files and without Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from headrace.cdc.feed import ChangeFeed
from headrace.cdc.scd_spec import ScdSpec, ScdType
from headrace.errors import PipelineError
from headrace.graph.analysis import Analysis, ChangeAnalysis, Input, Source
from headrace.graph.resolved import ResolvedDataset, ResolvedGraph
from headrace.graph.resolved_flows import (
    AppendFlow,
    CompleteFlow,
    MergeFlow,
    Mode,
    OnceFlow,
    OnceMergeFlow,
    RefreshFlow,
    SnapshotFlow,
    UpdateFlow,
    ViewFlow,
)
from headrace.graph.unavailable_sources import UnavailableFlow
from headrace.model.cdc import ApplyChanges, CompareSnapshots
from headrace.model.datasets import Dataset, Flow, Kind, PythonQuery
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.model.schema import Column, Schema
from headrace.plan.source_retention import SourceRetention, SourceStart

KINDS = {
    Mode.APPEND: Kind.STREAMING_TABLE,
    Mode.MERGE: Kind.STREAMING_TABLE,
    Mode.SNAPSHOT: Kind.STREAMING_TABLE,
    Mode.COMPLETE: Kind.STREAMING_TABLE,
    Mode.ONCE: Kind.STREAMING_TABLE,
    Mode.REPLACE: Kind.MATERIALIZED_VIEW,
    Mode.VIEW: Kind.TEMPORARY_VIEW,
}
TYPES = {known.mode: known for known in (AppendFlow, UpdateFlow, CompleteFlow, OnceFlow, RefreshFlow, ViewFlow)}
FEED = ChangeFeed(
    ScdSpec(("id",), ("id",), ScdType.ONE),
    "version",
    '"integer"',
    "{}",
    derivable_from_rows=True,
    derivable_in_merge=True,
)
CHANGES = ApplyChanges("events", ("id",), "version")
CHANGE_TYPES = {
    Mode.MERGE: (MergeFlow, CHANGES),
    Mode.ONCE: (OnceMergeFlow, CHANGES),
    Mode.SNAPSHOT: (SnapshotFlow, CompareSnapshots("events", ("id",))),
}
HERE = Location("transformations/a.py", 1)
DOWN = PipelineError("JDBC.UNREACHABLE", database="shop", reason="it is down")


@dataclass
class Table:
    """A table of the storage, as the engine asks for it."""

    schema: Schema
    comment: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()


class Make:
    """Values of the engine from short texts; an input that begins with ``~`` is read as a stream."""

    def schema(self, text):
        """``"id integer, name string"`` as a schema."""
        pairs = [column.split() for column in text.split(",")]
        return Schema(tuple(Column(name, json.dumps(kind)) for name, kind in pairs))

    def table(self, schema, **there):
        """A table of the storage."""
        return Table(schema, **there)

    def flow(self, name, *reads, target=None, mode=Mode.REPLACE, feed=None, **analysis):
        """A resolved flow; its target has its name unless said otherwise, and with a feed it applies changes."""
        inputs = tuple(Input(QualifiedName(read.lstrip("~")), read.startswith("~")) for read in reads)
        seen = {
            "schema": self.schema("id integer"),
            "streaming": mode in (Mode.APPEND, Mode.COMPLETE),
            "inputs": inputs,
            "fingerprint": "f",
            **analysis,
        }
        flow = Flow(name, QualifiedName(target or name), PythonQuery(lambda: None, Naming()), HERE)
        if mode in (Mode.MERGE, Mode.SNAPSHOT) or feed is not None:
            changes = ChangeAnalysis(feed=feed or FEED, **seen)
            kind, declared = CHANGE_TYPES[mode]
            return kind(flow, changes, declared)
        return TYPES[mode](flow, Analysis(**seen))

    def unavailable(self, name, kind=Kind.TABLE, target=None, blocked=None, error=DOWN, **declared):
        """A flow whose source is away; its target has its name unless said otherwise."""
        target = QualifiedName(target or name)
        flow = Flow(name, target, PythonQuery(lambda: None, Naming()), HERE)
        return UnavailableFlow(flow, Dataset(target, kind, HERE, **declared), error, blocked)

    def graph(self, *flows, schema="id integer", unavailable=(), **declared):
        """The graph of flows that are given in an order to run; *declared* holds for every dataset of theirs."""
        targets = {flow.target: KINDS[flow.mode] for flow in flows}
        datasets = [
            ResolvedDataset(Dataset(name, kind, HERE, **declared), self.schema(schema), f"/{name}")
            for name, kind in targets.items()
        ]
        return ResolvedGraph(tuple(datasets), tuple(flows), tuple(unavailable))

    def source(self, kind, detail):
        """A streaming source."""
        return Source(kind, detail)


@pytest.fixture
def make():
    return Make()


@dataclass
class Past:
    """What was read before, as the test says."""

    held: dict[str, tuple[int, int]] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    modes: dict[str, Mode] = field(default_factory=dict)
    reaches: dict[str, tuple[SourceRetention, ...]] = field(default_factory=dict)
    gone_flows: dict[str, tuple[str, ...]] = field(default_factory=dict)
    starts: dict[str, tuple[SourceStart, ...]] = field(default_factory=dict)
    wrote_rows: set[str] = field(default_factory=set)
    # Flows that are away, with the tables that they have read as streams.
    read_by: dict[str, set[str]] = field(default_factory=dict)

    def rows(self, name):
        return self.held.get(str(name), (0, 0))

    def view(self, _name):
        return None

    def path(self, name):
        return f"/tables/{name}"

    def kind(self, name):
        return self.kinds.get(str(name))

    def has_written(self, flow):
        return flow.name in self.wrote_rows

    def mode(self, flow):
        return self.modes.get(flow.name)

    def source_retention(self, flow):
        return self.reaches.get(flow.name, ())

    def former_stream_flows(self, _graph, name):
        return self.gone_flows.get(str(name), ())

    def has_streamed(self, flow, name):
        return str(name) in self.read_by.get(flow.name, ())

    def start_positions(self, flow, _start, _cleared):
        return self.starts.get(flow.name, ())


@pytest.fixture
def past():
    return Past


class FakeClock:
    """A clock that moves when it is told."""

    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)


@pytest.fixture
def clock():
    return FakeClock()
