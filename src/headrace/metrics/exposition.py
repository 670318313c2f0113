"""Metrics as Prometheus' text format, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from headrace.metrics.catalogue import CATALOGUE
from headrace.metrics.metric import Metric, MetricKind
from headrace.metrics.samples import INFINITY, Samples


def prometheus_text(pipeline: str, samples: Samples) -> str:
    """The values in Prometheus' text format; metrics without values are left out."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Values(pipeline, samples))
    return generate_latest(registry).decode()


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


class _Values(Collector):
    def __init__(self, pipeline: str, samples: Samples) -> None:
        self._pipeline = pipeline
        self._samples = samples

    def collect(self) -> Iterator[Family]:
        for metric in CATALOGUE:
            values = self._samples.of(metric)
            if not values:
                continue
            names = ("pipeline", *metric.labels)
            if metric.kind is MetricKind.HISTOGRAM:
                yield self._histogram(metric, names)
                continue
            family: CounterMetricFamily | GaugeMetricFamily
            if metric.kind is MetricKind.COUNTER:
                family = CounterMetricFamily(metric.prometheus.removesuffix("_total"), metric.help, labels=names)
            else:
                family = GaugeMetricFamily(metric.prometheus, metric.help, labels=names)
            for labels, value in values.items():
                family.add_metric((self._pipeline, *labels), value)
            yield family

    def _histogram(self, metric: Metric, names: tuple[str, ...]) -> HistogramMetricFamily:
        family = HistogramMetricFamily(metric.prometheus, metric.help, labels=names)
        for labels, buckets, total in self._samples.histograms(metric):
            family.add_metric((self._pipeline, *labels), list(buckets.items()), total)
        return family
