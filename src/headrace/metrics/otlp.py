"""Pushes metrics to a collector with OpenTelemetry's protocol over HTTP."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.errors import PipelineError
from headrace.metrics.catalogue import CATALOGUE
from headrace.metrics.metric import Metric, MetricKind
from headrace.metrics.otlp_http import TIMEOUT_S, endpoint_of, export
from headrace.metrics.samples import INFINITY, Samples

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData

_PATH = "/v1/metrics"


def push_metrics(url: str, pipeline: str, samples: Samples, *, now: float, version: str) -> None:
    """Push all values once.

    Headers, such as a token, come from the environment variable ``OTEL_EXPORTER_OTLP_HEADERS``.

    Args:
        url: of the collector; without a path, ``/v1/metrics`` is added.
        pipeline: its name.
        samples: the values.
        now: the time of the values, in seconds since 1970.
        version: of Headrace.

    Raises:
        PipelineError: METRICS.NO_OTEL: the extra is not installed, METRICS.INVALID_URL, METRICS.NOT_PUSHED.
    """
    endpoint = endpoint_of(url, _PATH)
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.metrics.export import MetricExportResult  # noqa: PLC0415 - the same
    except ImportError as error:
        raise PipelineError("METRICS.NO_OTEL") from error
    exporter = partial(OTLPMetricExporter, endpoint=endpoint, timeout=TIMEOUT_S)
    data = metrics_data(pipeline, samples, now=now, version=version)
    export(endpoint, lambda session: exporter(session=session), MetricExportResult.SUCCESS, data)


def metrics_data(pipeline: str, samples: Samples, *, now: float, version: str) -> MetricsData:
    """The values as OpenTelemetry's data, with the attributes that Prometheus has as labels."""
    from opentelemetry.sdk.metrics.export import Metric as OtelMetric  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics  # noqa: PLC0415 - the same
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - the same
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415 - the same

    metrics = [
        OtelMetric(metric.name, metric.help, metric.unit, _data(metric, pipeline, samples, int(now * 1e9)))
        for metric in CATALOGUE
        if samples.of(metric)
    ]
    scope = ScopeMetrics(InstrumentationScope("headrace", version), metrics, "")
    resource = Resource({"service.name": "headrace", "service.version": version})
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _data(metric: Metric, pipeline: str, samples: Samples, now_ns: int) -> Any:
    from opentelemetry.sdk.metrics import export as otel  # noqa: PLC0415 - an extra

    def attributes(labels: tuple[str, ...]) -> dict[str, str]:
        return {"pipeline": pipeline, **dict(zip(metric.labels, labels, strict=True))}

    cumulative = otel.AggregationTemporality.CUMULATIVE
    # A start of 0 means that it is unknown.
    if metric.kind is MetricKind.HISTOGRAM:
        points = []
        for labels, buckets, total in samples.histograms(metric):
            counts = [int(count) for count in buckets.values()]
            own = [count - below for count, below in zip(counts, [0, *counts], strict=False)]
            size = int(buckets[INFINITY])
            unknown: Any = None
            points.append(
                otel.HistogramDataPoint(
                    attributes(labels), 0, now_ns, size, total, own, metric.buckets, min=unknown, max=unknown
                )
            )
        return otel.Histogram(points, cumulative)
    values = samples.of(metric).items()
    numbers = [otel.NumberDataPoint(attributes(labels), 0, now_ns, value) for labels, value in values]
    if metric.kind is MetricKind.COUNTER:
        return otel.Sum(numbers, cumulative, is_monotonic=True)
    return otel.Gauge(numbers)
