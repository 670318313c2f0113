"""Notices for declared settings without effect, so that none is silently ignored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.autoloader.options import options_without_effect
from headrace.autoloader.source import Source as LoaderSource
from headrace.graph.analysis import SourceKind
from headrace.graph.resolved import ResolvedDataset, ResolvedGraph
from headrace.graph.resolved_flows import MergeFlow, OnceMergeFlow, ResolvedFlow, ViewFlow
from headrace.model.pipeline_keys import Z_ORDER_KEY, pipeline_key
from headrace.model.sequence_conflicts import ON_TIE_KEY
from headrace.model.tombstone_retention import RETENTION_KEYS
from headrace.sinks.checks import options_of


@dataclass(frozen=True)
class Notice:
    """A table property, a flow's conf or an option without effect."""

    message: str
    dataset: str
    flow: str | None = None


def without_effect(graph: ResolvedGraph) -> Iterator[Notice]:
    """Notices for accepted settings without effect, and for sinks without a flow."""
    members = {name for dataset in graph.datasets for name in dataset.members}
    for dataset in graph.datasets:
        if dataset.dataset.sink is not None and not graph.flows_into(dataset.name) and dataset.name not in members:
            yield Notice(f'sink "{dataset.name}" has no effect: no flow writes to it', str(dataset.name))
        merging = [f for f in graph.flows_into(dataset.name) if isinstance(f, MergeFlow | OnceMergeFlow)]
        # A bitemporal table is derived from all events, so it expires none.
        keeps_tombstones = any(not flow.feed.spec.bitemporal for flow in merging)
        for key in dataset.dataset.properties:
            reason = _reason(key, dataset)
            if key in RETENTION_KEYS and not keeps_tombstones:
                reason = "no change events are merged into the table, so it keeps no tombstones"
            if reason is not None:
                yield Notice(f'table property "{key}" of "{dataset.name}" has no effect: {reason}', str(dataset.name))
            if key == ON_TIE_KEY and not merging:
                message = f'table property "{key}" of "{dataset.name}" has no effect: no flow merges change events'
                yield Notice(message, str(dataset.name))
        for key, reason in options_of(dataset.dataset.sink).without_effect() if dataset.dataset.sink else ():
            yield Notice(f'option "{key}" of sink "{dataset.name}" has no effect: {reason}', str(dataset.name))
    for flow in graph.flows:
        for key, reason in _options(flow):
            yield Notice(f'option "{key}" of flow "{flow.name}" has no effect: {reason}', str(flow.target), flow.name)


def _reason(key: str, dataset: ResolvedDataset) -> str | None:
    """Why a key of ``pipelines.`` has no effect on a table; None if it has one."""
    known = pipeline_key(key)
    if known is not None and known.name == Z_ORDER_KEY and dataset.dataset.cluster_by:
        return "the table is clustered by cluster_by"
    return None if known is None else known.without_effect


def _options(flow: ResolvedFlow) -> Iterator[tuple[str, str]]:
    """Options of sources without effect, each with the reason. Those of a view are reported for its readers."""
    sources = () if isinstance(flow, ViewFlow) else flow.analysis.sources
    for source in sources:
        if source.kind is SourceKind.AUTO_LOADER:
            yield from options_without_effect(LoaderSource.from_json(source.detail).options)
        yield from source.without_effect
