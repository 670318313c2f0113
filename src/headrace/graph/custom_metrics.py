"""Checks of the metrics that users define, without a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from headrace.errors import PipelineError
from headrace.model.datasets import Dataset, Flow, Kind
from headrace.model.names import QualifiedName

_HINTS: Mapping[Kind, str] = {
    Kind.SINK: "Attach it to the table that the sink's flows read, or call headrace.delivery.record_metric in a "
    "function of @dp.foreach_batch_sink.",
    Kind.TEMPORARY_VIEW: "A view stores nothing. Attach it to a table that reads the view.",
    Kind.PERSISTED_VIEW: "A view stores nothing. Attach it to a table that reads the view.",
}


def custom_metric_problems(
    datasets: Mapping[QualifiedName, Dataset], flows_into: Callable[[QualifiedName], Sequence[Flow]]
) -> Iterator[PipelineError]:
    """Metrics with the name of another one, and those of datasets that cannot have any."""
    for dataset in datasets.values():
        is_merged = any(flow.changes is not None or flow.snapshots is not None for flow in flows_into(dataset.name))
        seen: set[str] = set()
        for metric in dataset.metrics:
            names = {"name": metric.name, "dataset": str(dataset.name)}
            if metric.name in seen:
                yield PipelineError("METRICS.DUPLICATE", location=metric.location, **names)
            seen.add(metric.name)
            if dataset.kind in _HINTS:
                kind = {"kind": dataset.kind.label, "fix": _HINTS[dataset.kind]}
                yield PipelineError("METRICS.NO_TABLE", location=metric.location, **kind, **names)
            elif is_merged:
                yield PipelineError("METRICS.MERGED", location=metric.location, **names)
