"""Metrics of the user's own: ``metric``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from headrace.errors import PipelineError
from headrace.model.custom_metrics import CustomMetric, is_metric_name
from headrace.model.location import Location
from headrace.pipelines.registry import Registry, current_registry

F = TypeVar("F", bound=Callable[[], Any])


def metric(name: str, expression: str) -> Callable[[F], F]:
    """Record an aggregate of the rows that each batch writes, as a metric of the table.

    It is computed while the batch is written, and recorded with the batch. A repeated batch counts once. An error in
    the argument of the aggregate counts as NULL, so that a metric never fails a flow.

    Args:
        name: letters, digits and "_"; the label ``metric`` in Prometheus.
        expression: SQL text, one call of ``sum``, ``count``, ``count_if``, ``avg``, ``min`` or ``max``, such as
            ``sum(amount)`` or ``count(*) FILTER (WHERE status = 'late')``. Sums and counts of a streaming table add up
            over its batches; other values are those of the newest batch.
    """
    registry = current_registry("metric")
    found = metrics_of(registry, {name: expression}, registry.here())

    def attach(function: F) -> F:
        for one in found:
            registry.add_metric(function, one)
        return function

    return attach


def metrics_of(registry: Registry, given: Mapping[Any, Any], location: Location) -> tuple[CustomMetric, ...]:
    """The metrics of a mapping from names to expressions; those with a wrong name or type become problems."""
    found = []
    for name, expression in given.items():
        if not is_metric_name(name):
            registry.problems.append(PipelineError("METRICS.INVALID_NAME", location=location, name=name))
        elif not isinstance(expression, str):
            wrong = {"what": "metric", "argument": "expression", "value": repr(expression), "expected": "a string"}
            registry.problems.append(PipelineError("DEFINITION.WRONG_TYPE", location=location, **wrong))
        else:
            found.append(CustomMetric(name, expression, location))
    return tuple(found)
