"""The resolved graph: every dataset with its kind and schema, every flow with its inputs, in topological order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.cdc.merge_keys import MergeKeys
from headrace.graph.analysis import Input
from headrace.graph.flow_targets import by_target
from headrace.graph.resolved_flows import ChangeFlow, MergeFlow, ResolvedFlow, StoredFlow, ViewFlow
from headrace.graph.unavailable_sources import UnavailableFlow
from headrace.model.datasets import Dataset, Kind
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema
from headrace.model.tags import tags_of

# Sequence types with few values (in Spark's JSON): many events share one.
_COARSE = frozenset(('"date"', '"boolean"', '"byte"'))


@dataclass(frozen=True)
class ResolvedDataset:
    """A dataset with its final kind and its schema.

    Attributes:
        dataset: as declared.
        schema: the columns of its table after the update. A table that keeps its rows also keeps columns that are no
            longer in the code, and types that are wider than those of the code.
        path: of its table; None for a view and a sink.
        query_schema: the schema of the code alone; None if it equals ``schema``.
        merge_keys: the keys by which changes are merged into the table; None if none are.
        published_as: catalog, schema and name under which a metastore has the table; None if it is not published.
    """

    dataset: Dataset
    schema: Schema
    path: str | None
    query_schema: Schema | None = None
    merge_keys: MergeKeys | None = None
    published_as: tuple[str, str, str] | None = None

    @property
    def name(self) -> QualifiedName:
        """The dataset's canonical name."""
        return self.dataset.name

    @property
    def kind(self) -> Kind:
        """Its kind; never ``Kind.TABLE``."""
        return self.dataset.kind

    @property
    def code_schema(self) -> Schema:
        """The columns as declared, or as its flows return them."""
        return self.schema if self.query_schema is None else self.query_schema

    @property
    def members(self) -> tuple[QualifiedName, ...]:
        """The sinks that receive its rows."""
        return self.dataset.sink.members if self.dataset.sink is not None else ()

    @property
    def label(self) -> str:
        """Its kind in words."""
        if self.dataset.sink is not None and not self.dataset.sink.members:
            return f"sink, {self.dataset.sink.format}"
        return f"private {self.kind.label}" if self.dataset.private else self.kind.label


@dataclass(frozen=True)
class ResolvedGraph:
    """All datasets and flows, in topological order.

    ``unavailable`` holds the flows that could not be resolved because a source is unavailable, and the flows downstream
    of them, including those of views. A dataset without other flows is not in ``datasets``, but in
    ``unavailable_datasets``.
    """

    datasets: tuple[ResolvedDataset, ...]
    flows: tuple[ResolvedFlow, ...]
    unavailable: tuple[UnavailableFlow, ...] = ()

    @cached_property
    def by_name(self) -> dict[QualifiedName, ResolvedDataset]:
        """Datasets by name."""
        return {dataset.name: dataset for dataset in self.datasets}

    @cached_property
    def unavailable_datasets(self) -> dict[QualifiedName, Dataset]:
        """Declared datasets without any resolved flow, because their sources are unavailable."""
        return {
            unavailable.target: unavailable.dataset
            for unavailable in self.unavailable
            if unavailable.target not in self.by_name
        }

    @cached_property
    def by_flow(self) -> dict[str, ResolvedFlow]:
        """Flows by name."""
        return {flow.name: flow for flow in self.flows}

    @property
    def stored_flows(self) -> tuple[StoredFlow, ...]:
        """The flows that an update runs: all except those of views."""
        return tuple(flow for flow in self.flows if not isinstance(flow, ViewFlow))

    def unavailable_into(self, name: QualifiedName) -> tuple[UnavailableFlow, ...]:
        """The flows of a dataset that could not be resolved because a source is unavailable."""
        return self._unavailable_by_target.get(name, ())

    def flows_into(self, name: QualifiedName) -> tuple[ResolvedFlow, ...]:
        """The flows that feed a dataset."""
        return self._by_target.get(name, ())

    def stored_inputs(self, flow: ResolvedFlow) -> tuple[Input, ...]:
        """The tables that a flow reads, directly or through views. An input is streaming if any path to it is."""
        found: dict[QualifiedName, bool] = {}
        for given in flow.analysis.inputs:
            if self.by_name[given.name].kind.is_view:
                for view_flow in self.flows_into(given.name):
                    for inner in self.stored_inputs(view_flow):
                        found[inner.name] = found.get(inner.name, False) or inner.streaming
            else:
                found[given.name] = found.get(given.name, False) or given.streaming
        return tuple(Input(name, streaming) for name, streaming in found.items())

    def view_flows_read_by(self, flow: ResolvedFlow) -> tuple[ResolvedFlow, ...]:
        """The flows of all views that a flow reads, directly or through other views, upstream first."""
        wanted: set[QualifiedName] = set()
        pending = [flow]
        while pending:
            for given in pending.pop().analysis.inputs:
                if self.by_name[given.name].kind.is_view and given.name not in wanted:
                    wanted.add(given.name)
                    pending.extend(self.flows_into(given.name))
        views = (view for name in wanted for view in self.flows_into(name))
        return tuple(sorted(views, key=lambda view: self._positions[view.name]))

    @cached_property
    def _by_target(self) -> dict[QualifiedName, tuple[ResolvedFlow, ...]]:
        return by_target(self.flows)

    @cached_property
    def _unavailable_by_target(self) -> dict[QualifiedName, tuple[UnavailableFlow, ...]]:
        return by_target(self.unavailable)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {flow.name: position for position, flow in enumerate(self.flows)}

    @cached_property
    def warnings(self) -> tuple[tuple[ResolvedFlow, str], ...]:
        """Flows that run but may produce unexpected rows, each with the reason."""
        found: list[tuple[ResolvedFlow, str]] = []
        for flow in self.flows:
            if isinstance(flow, ChangeFlow) and flow.feed.sequence_depends_on is not None:
                reason = (
                    f"its events are ordered by {flow.feed.sequence}, which depends on "
                    f"{flow.feed.sequence_depends_on}: events that are read together tie, and their order changes when "
                    "they are read again"
                )
                found.append((flow, reason))
            if isinstance(flow, MergeFlow) and flow.feed.sequence_type in _COARSE:
                kind = flow.feed.sequence_type.strip('"')
                reason = (
                    f"its events are ordered by {flow.feed.sequence}, which is of type {kind}: events with the same "
                    f"key and {kind} tie, and a delete wins, otherwise the greatest row"
                )
                found.append((flow, reason))
        return tuple(found)

    def describe(self) -> str:
        """The graph as stable text: one line per dataset, indented lines for its flows and their inputs."""
        lines = []
        reasons: dict[str, list[str]] = {}
        for flow, reason in self.warnings:
            reasons.setdefault(flow.name, []).append(reason)
        for dataset in self.datasets:
            lines.append(f"{dataset.name}  ({dataset.label})")
            lines += [f"  -> {member}" for member in dataset.members]
            lines += [f"  published as {'.'.join(dataset.published_as)}"] if dataset.published_as else []
            for flow in self.flows_into(dataset.name):
                own = "" if flow.name == str(dataset.name) else f"flow {flow.name}: "
                lines.append(f"  <- {own}{_reads(flow)}")
                lines += [f"     warning: {reason}" for reason in reasons.get(flow.name, ())]
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
        """The graph as the contract's JSON object; ``warnings``, ``tags`` and ``column_lineage`` only if known."""
        warnings = [{"flow": flow.name, "reason": reason} for flow, reason in self.warnings]
        return {
            "datasets": [
                {
                    "name": str(d.name),
                    "kind": d.kind.value,
                    "path": d.path,
                    "private": d.dataset.private,
                    **({"published_as": ".".join(d.published_as)} if d.published_as else {}),
                    **({"tags": list(tags)} if (tags := tags_of(d.dataset.properties)) else {}),
                }
                for d in self.datasets
            ],
            "flows": [
                {
                    "name": f.name,
                    "target": str(f.target),
                    "inputs": [str(i.name) for i in f.analysis.inputs],
                    **({} if f.analysis.columns is None else {"column_lineage": f.analysis.columns.to_json()}),
                }
                for f in self.flows
            ],
            **({"warnings": warnings} if warnings else {}),
        }


def _reads(flow: ResolvedFlow) -> str:
    inputs = [f"{given.name}{' (stream)' if given.streaming else ''}" for given in flow.analysis.inputs]
    return ", ".join([*inputs, *flow.analysis.external]) or "nothing"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;")
