"""Tables that change events are merged into, as sources: who reads their changes, and who cannot read their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.cdc.change_feed import FEED_PROPERTY
from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedDataset, ResolvedFlow, SourceKind
from headrace.model.datasets import Definitions, Flow
from headrace.model.names import InvalidName, QualifiedName


def reading_feeds(definitions: Definitions) -> Definitions:
    """The definitions, in which flows that apply the changes of such a table are marked as those that read its feed."""
    merged = merged_tables(definitions)
    return replace(definitions, flows=tuple(_marked(flow, merged) for flow in definitions.flows))


def merged_tables(definitions: Definitions) -> set[QualifiedName]:
    """The tables whose rows are changed, by change events or by snapshots."""
    return {flow.target for flow in definitions.flows if flow.changes is not None or flow.snapshots is not None}


def streamed_as_rows(flow: ResolvedFlow, merged: Iterable[QualifiedName]) -> list[PipelineError]:
    """A problem for each table that change events are merged into, and that a flow reads as if rows were only added.

    Args:
        flow: who reads; what it reads through views is the views' affair.
        merged: the tables that change events are merged into.
    """
    names = {str(name): name for name in merged}
    streamed = {str(given.name) for given in flow.analysis.inputs if given.streaming}
    wrong = {
        source.detail: None
        for source in flow.analysis.sources
        if source.kind is SourceKind.DATASET and not source.passes_changes and source.detail in streamed & set(names)
    }
    place = flow.flow.location
    return [PipelineError("CDC.READ_AS_ROWS", location=place, flow=flow.name, table=name) for name in wrong]


def with_feeds(
    datasets: Mapping[QualifiedName, ResolvedDataset], flows: Iterable[ResolvedFlow]
) -> tuple[dict[QualifiedName, ResolvedDataset], list[PipelineError]]:
    """The datasets, of which those whose change feed a flow reads keep one; and why some cannot."""
    found, problems = dict(datasets), list[PipelineError]()
    names = {str(name): name for name in datasets}
    for flow in flows:
        for source in flow.analysis.sources:
            name = names.get(source.detail) if source.kind is SourceKind.DATASET and source.reads_feed else None
            if name is None:
                continue
            declared = found[name].dataset
            said = {key.casefold(): value for key, value in declared.properties.items()}.get(FEED_PROPERTY.casefold())
            if said is None:
                properties = {**declared.properties, FEED_PROPERTY: "true"}
                found[name] = replace(found[name], dataset=replace(declared, properties=properties))
            elif said.strip().casefold() != "true":
                problems.append(PipelineError("CDC.NO_FEED", location=declared.location, flow=flow.name, table=name))
    return found, problems


def _marked(flow: Flow, merged: set[QualifiedName]) -> Flow:
    if flow.changes is None or flow.changes.source is None or flow.once:
        return flow
    try:
        source = flow.query.naming.canonical(flow.changes.source)
    except InvalidName:
        return flow
    return replace(flow, changes=replace(flow.changes, reads_feed=True)) if source in merged else flow
