"""What is declared and has no effect here, said instead of ignored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.graph.resolved import ResolvedGraph
from headrace.model.triggers import INTERVAL_KEY, TRIGGER_KEY

_PREFIX = "pipelines."
_TRIGGERS = frozenset({INTERVAL_KEY, TRIGGER_KEY})
_MAINTENANCE = frozenset({"pipelines.autoOptimize.managed"})
_HONOURED = frozenset({"pipelines.reset.allowed"}) | _TRIGGERS | _MAINTENANCE


@dataclass(frozen=True)
class Notice:
    """A table property or a flow's conf that changes nothing."""

    message: str
    dataset: str
    flow: str | None = None


def without_effect(graph: ResolvedGraph) -> Iterator[Notice]:
    """Settings of the vendor's service, known by their prefix, that are accepted and change nothing."""
    for dataset in graph.datasets:
        for key in dataset.dataset.properties:
            if key.startswith(_PREFIX) and key not in _HONOURED:
                yield Notice(f'table property "{key}" of "{dataset.name}" has no effect', str(dataset.name))
    for flow in graph.flows:
        for key in flow.flow.spark_conf:
            if key.startswith(_PREFIX) and key not in _TRIGGERS:
                yield Notice(f'conf "{key}" of flow "{flow.name}" has no effect', str(flow.target), flow.name)
