"""Pushes metrics to a collector with OpenTelemetry's protocol over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from headrace.errors import PipelineError
from headrace.metrics.catalogue import CATALOGUE
from headrace.metrics.metric import Metric, MetricKind
from headrace.metrics.samples import INFINITY, Samples

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData

_PATH = "/v1/metrics"
_TIMEOUT_S = 10.0
_LOGGER = "opentelemetry"


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
    endpoint = _endpoint(url)
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.metrics.export import MetricExportResult  # noqa: PLC0415 - the same
    except ImportError as error:
        raise PipelineError("METRICS.NO_OTEL") from error
    with _messages() as messages:
        exporter = OTLPMetricExporter(endpoint=endpoint, timeout=_TIMEOUT_S, session=_session())
        try:
            result = exporter.export(metrics_data(pipeline, samples, now=now, version=version))
        except OSError as error:
            # Older exporters pass on what requests raises, such as an invalid proxy.
            raise PipelineError("METRICS.NOT_PUSHED", url=endpoint, reason=type(error).__name__) from error
        exporter.shutdown()
    if result is not MetricExportResult.SUCCESS:
        reason = messages[-1] if messages else f"it did not accept them within {_TIMEOUT_S:.0f} s"
        raise PipelineError("METRICS.NOT_PUSHED", url=endpoint, reason=reason)


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


def _session() -> Any:
    """A session of requests that follows no redirects: another host must not get the values, and a token."""
    import requests  # noqa: PLC0415 - the exporter needs it

    class Session(requests.Session):
        def request(self, *args: Any, **options: Any) -> Any:
            response = super().request(*args, **{**options, "allow_redirects": False})
            if response.is_redirect:
                raise requests.TooManyRedirects(f"status {response.status_code}, and redirects are not followed")
            return response

    return Session()


def _data(metric: Metric, pipeline: str, samples: Samples, now_ns: int) -> Any:
    from opentelemetry.sdk.metrics import export  # noqa: PLC0415 - an extra

    def attributes(labels: tuple[str, ...]) -> dict[str, str]:
        return {"pipeline": pipeline, **dict(zip(metric.labels, labels, strict=True))}

    cumulative = export.AggregationTemporality.CUMULATIVE
    # A start of 0 means that it is unknown.
    if metric.kind is MetricKind.HISTOGRAM:
        points = []
        for labels, buckets, total in samples.histograms(metric):
            counts = [int(count) for count in buckets.values()]
            own = [count - below for count, below in zip(counts, [0, *counts], strict=False)]
            size = int(buckets[INFINITY])
            unknown: Any = None
            points.append(
                export.HistogramDataPoint(
                    attributes(labels), 0, now_ns, size, total, own, metric.buckets, min=unknown, max=unknown
                )
            )
        return export.Histogram(points, cumulative)
    values = samples.of(metric).items()
    numbers = [export.NumberDataPoint(attributes(labels), 0, now_ns, value) for labels, value in values]
    if metric.kind is MetricKind.COUNTER:
        return export.Sum(numbers, cumulative, is_monotonic=True)
    return export.Gauge(numbers)


def _endpoint(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise PipelineError("METRICS.INVALID_URL", reason=f"{error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PipelineError("METRICS.INVALID_URL", reason="it must begin with http:// or https:// and name a host")
    if parts.username or parts.password or parts.query:
        # The command line of a process is no place for secrets.
        raise PipelineError("METRICS.INVALID_URL", reason="it must not contain a user, a password or a query")
    return parts._replace(path=_PATH).geturl() if parts.path in ("", "/") else url


@contextmanager
def _messages() -> Iterator[list[str]]:
    """Collect what the exporter logs, instead of printing it."""
    messages: list[str] = []

    class _Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, handler = logging.getLogger(_LOGGER), _Collect(logging.WARNING)
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
