"""Metrics as Prometheus' text format, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.metrics.catalogue import CATALOGUE
from headrace.metrics.metric import Metric, MetricKind
from headrace.metrics.samples import INFINITY, Samples


def prometheus_text(pipeline: str, samples: Samples) -> str:
    """The values in Prometheus' text format; metrics without values are left out."""
    return prometheus_text_of({pipeline: samples})


def prometheus_text_of(pipelines: Mapping[str, Samples]) -> str:
    """The values of some pipelines by their names, in one text: the format has each metric once.

    Source: the specification of the text format 0.0.4. The library for it takes longer to import than a scrape takes.
    """
    return "".join(f"{line}\n" for metric in CATALOGUE for line in _family(pipelines, metric))


def json_of(pipeline: str, samples: Samples) -> list[dict[str, Any]]:
    """One object per value: its metric under both names, its labels and the value.

    The value of a histogram is the number of its values, with their ``sum`` and the cumulative counts of ``buckets``.
    """
    return [
        {
            "name": metric.name,
            "prometheus": metric.prometheus,
            "unit": metric.unit,
            "labels": {"pipeline": pipeline, **dict(zip(metric.labels, labels, strict=True))},
            **value,
        }
        for metric in CATALOGUE
        for labels, value in _json_values(metric, samples)
    ]


def _json_values(metric: Metric, samples: Samples) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    if metric.kind is MetricKind.HISTOGRAM:
        for labels, buckets, total in samples.histograms(metric):
            yield labels, {"value": buckets[INFINITY], "sum": total, "buckets": dict(buckets)}
        return
    for labels, value in samples.of(metric).items():
        yield labels, {"value": value}


def _family(pipelines: Mapping[str, Samples], metric: Metric) -> Iterator[str]:
    """The lines of a metric; none without values."""
    if not any(samples.of(metric) for samples in pipelines.values()):
        return
    yield f"# HELP {metric.prometheus} {_escaped(metric.help)}"
    yield f"# TYPE {metric.prometheus} {metric.kind.value}"
    for pipeline, samples in pipelines.items():
        yield from _values(pipeline, metric, samples)


def _values(pipeline: str, metric: Metric, samples: Samples) -> Iterator[str]:
    names = ("pipeline", *metric.labels)
    if metric.kind is not MetricKind.HISTOGRAM:
        for labels, value in samples.of(metric).items():
            yield _sample(metric.prometheus, names, (pipeline, *labels), value)
        return
    for labels, buckets, total in samples.histograms(metric):
        for bound, count in buckets.items():
            yield _sample(f"{metric.prometheus}_bucket", (*names, "le"), (pipeline, *labels, bound), count)
        yield _sample(f"{metric.prometheus}_sum", names, (pipeline, *labels), total)
        yield _sample(f"{metric.prometheus}_count", names, (pipeline, *labels), buckets[INFINITY])


def _sample(name: str, labels: Sequence[str], values: Sequence[str], value: float) -> str:
    shown = (f'{label}="{_escaped(text, quotes=True)}"' for label, text in zip(labels, values, strict=True))
    return f"{name}{{{','.join(shown)}}} {_number(value)}"


def _escaped(text: str, *, quotes: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quotes else escaped


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value))
