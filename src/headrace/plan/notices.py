"""What is declared and has no effect here, said instead of ignored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.autoloader.options import without_effect_of
from headrace.autoloader.source import Source as LoaderSource
from headrace.graph.resolved import Mode, ResolvedFlow, ResolvedGraph, SourceKind
from headrace.model.pipeline_keys import pipeline_key
from headrace.model.sequence_conflicts import ON_TIE_KEY
from headrace.model.tombstone_retention import RETENTION_KEYS
from headrace.sinks.checks import options_of


@dataclass(frozen=True)
class Notice:
    """A table property, a flow's conf or an option that changes nothing."""

    message: str
    dataset: str
    flow: str | None = None


def without_effect(graph: ResolvedGraph) -> Iterator[Notice]:
    """Settings of the vendor's service, known by their prefix, that are accepted and change nothing."""
    members = {name for dataset in graph.datasets for name in dataset.members}
    for dataset in graph.datasets:
        if dataset.dataset.sink is not None and not graph.flows_into(dataset.name) and dataset.name not in members:
            yield Notice(f'sink "{dataset.name}" has no effect: no flow writes to it', str(dataset.name))
        feeds = [flow.analysis.feed for flow in graph.flows_into(dataset.name) if flow.flow.changes is not None]
        merges = bool(feeds)
        # A table with two times follows from all events, and forgets none.
        forgets = any(feed is not None and not feed.shape.bitemporal for feed in feeds)
        for key in dataset.dataset.properties:
            known = pipeline_key(key)
            why = known.without_effect if known is not None else None
            if key in RETENTION_KEYS and not forgets:
                why = "it merges no change events, so it keeps no tombstones"
            if why is not None:
                yield Notice(f'table property "{key}" of "{dataset.name}" has no effect: {why}', str(dataset.name))
            if key == ON_TIE_KEY and not merges:
                message = f'table property "{key}" of "{dataset.name}" has no effect: it merges no change events'
                yield Notice(message, str(dataset.name))
        for key, why in options_of(dataset.dataset.sink).without_effect() if dataset.dataset.sink else ():
            yield Notice(f'option "{key}" of sink "{dataset.name}" has no effect: {why}', str(dataset.name))
    for flow in graph.flows:
        for key, why in _options(flow):
            yield Notice(f'option "{key}" of flow "{flow.name}" has no effect: {why}', str(flow.target), flow.name)


def _options(flow: ResolvedFlow) -> Iterator[tuple[str, str]]:
    """Options of sources, each with the reason; those of a view are said of the flows that read it."""
    sources = () if flow.mode is Mode.VIEW else flow.analysis.sources
    for source in sources:
        if source.kind is SourceKind.AUTO_LOADER:
            yield from without_effect_of(LoaderSource.from_json(source.detail).options)
        yield from source.without_effect
