"""Tables with merged changes as sources: which flows read their change feed, and which cannot read their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.cdc.delta_change_feed import FEED_PROPERTY
from headrace.errors import PipelineError
from headrace.graph.analysis import SourceKind
from headrace.graph.resolved import ResolvedDataset
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.datasets import Definitions, Flow
from headrace.model.names import InvalidName, QualifiedName


def with_feed_readers(definitions: Definitions) -> Definitions:
    """The definitions, with ``reads_feed`` set for flows that apply the changes of a merged table."""
    merged = merged_tables(definitions)
    return replace(definitions, flows=tuple(_with_feed_reader(flow, merged) for flow in definitions.flows))


def merged_tables(definitions: Definitions) -> set[QualifiedName]:
    """The tables into which flows merge change events or snapshots."""
    return {flow.target for flow in definitions.flows if flow.changes is not None or flow.snapshots is not None}


def append_only_read_problems(flow: ResolvedFlow, merged: Iterable[QualifiedName]) -> list[PipelineError]:
    """A problem for each merged table that a flow streams as if it were append-only.

    Args:
        flow: the reader. Its views are checked as flows of their own.
        merged: the tables with merged changes.
    """
    names = {str(name): name for name in merged}
    streamed = {str(given.name) for given in flow.analysis.inputs if given.streaming}
    wrong = {
        source.detail: None
        for source in flow.analysis.sources
        if source.kind is SourceKind.DATASET and not source.passes_changes and source.detail in streamed & set(names)
    }
    location = flow.flow.location
    return [PipelineError("CDC.READ_AS_ROWS", location=location, flow=flow.name, table=name) for name in wrong]


def with_change_feeds(
    datasets: Mapping[QualifiedName, ResolvedDataset], flows: Iterable[ResolvedFlow]
) -> tuple[dict[QualifiedName, ResolvedDataset], list[PipelineError]]:
    """The datasets, with the change feed enabled where a flow reads it; and a problem where it is disabled."""
    found, problems = dict(datasets), list[PipelineError]()
    names = {str(name): name for name in datasets}
    for flow in flows:
        for source in flow.analysis.sources:
            name = names.get(source.detail) if source.kind is SourceKind.DATASET and source.reads_feed else None
            if name is None:
                continue
            declared = found[name].dataset
            setting = {key.casefold(): value for key, value in declared.properties.items()}.get(
                FEED_PROPERTY.casefold()
            )
            if setting is None:
                properties = {**declared.properties, FEED_PROPERTY: "true"}
                found[name] = replace(found[name], dataset=replace(declared, properties=properties))
            elif setting.strip().casefold() != "true":
                problems.append(PipelineError("CDC.NO_FEED", location=declared.location, flow=flow.name, table=name))
    return found, problems


def _with_feed_reader(flow: Flow, merged: set[QualifiedName]) -> Flow:
    if flow.changes is None or flow.changes.source is None or flow.once:
        return flow
    try:
        source = flow.query.naming.canonical(flow.changes.source)
    except InvalidName:
        return flow
    return replace(flow, changes=replace(flow.changes, reads_feed=True)) if source in merged else flow
