"""Metrics for OpenTelemetry: what a collector gets, and what is said when it does not take it."""

from __future__ import annotations

import sys

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from headrace.errors import PipelineError
from headrace.metrics import catalogue
from headrace.metrics.otlp import push_metrics
from headrace.metrics.samples import Samples


@pytest.fixture
def samples():
    found = Samples()
    found.add(catalogue.BATCHES, 3, "orders", "orders")
    found.set(catalogue.TABLE_ROWS, 7, "orders")
    for seconds in (0.05, 0.3, 400):
        found.observe(catalogue.BATCH_DURATION, seconds, "orders")
    return found


def push(url, samples):
    push_metrics(url, "shop", samples, now=1000.5, version="1")


def test_a_collector_gets_sums_gauges_and_histograms_with_the_labels_as_attributes(collector, samples, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret")

    push(collector.url, samples)

    ((path, body, token),) = collector.requests
    assert (path, token) == ("/v1/metrics", "secret")
    (scope,) = ExportMetricsServiceRequest.FromString(body).resource_metrics[0].scope_metrics
    found = {metric.name: metric for metric in scope.metrics}
    batches, rows, durations = (
        found[f"headrace.{name}"] for name in ("flow.batches", "table.rows", "flow.batch.duration")
    )
    (point,) = batches.sum.data_points
    attributes = {one.key: one.value.string_value for one in point.attributes}
    assert attributes == {"pipeline": "shop", "flow": "orders", "dataset": "orders"}
    assert (batches.sum.is_monotonic, point.as_double or point.as_int, point.time_unix_nano) == (
        True,
        3,
        1000_500_000_000,
    )
    assert rows.gauge.data_points[0].as_int == 7
    (histogram,) = durations.histogram.data_points
    assert (histogram.count, histogram.sum) == (3, 400.35)
    assert list(histogram.bucket_counts) == [1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert not histogram.HasField("min")


def test_a_collector_that_refuses_the_metrics_is_named_with_its_answer(collector, samples, capsys):
    collector.status = 404

    with pytest.raises(PipelineError) as raised:
        push(f"{collector.url}/own/path", samples)

    assert (raised.value.code, collector.requests[0][0]) == ("METRICS.NOT_PUSHED", "/own/path")
    assert "404" in raised.value.params["reason"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_gets_no_metrics_and_no_token(collector, samples, status):
    collector.status = status

    with pytest.raises(PipelineError) as raised:
        push(collector.url, samples)

    assert [path for path, *_ in collector.requests] == ["/v1/metrics"]
    assert (raised.value.code, f"status {status}" in raised.value.params["reason"]) == ("METRICS.NOT_PUSHED", True)


@pytest.mark.parametrize("proxy", ["http://", "nonsense://host"])
def test_a_proxy_that_cannot_be_used_is_an_error_of_the_push(samples, monkeypatch, proxy):
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    monkeypatch.setenv("https_proxy", proxy)

    with pytest.raises(PipelineError) as raised:
        push("https://192.0.2.1:1", samples)

    assert raised.value.code == "METRICS.NOT_PUSHED"


@pytest.mark.parametrize(
    "url", ["localhost:4318", "ftp://host", "http://user:hunter2@host", "http://host?key=1", "http://["]
)
def test_a_url_that_is_none_or_has_a_secret_is_refused(url, samples):
    with pytest.raises(PipelineError) as raised:
        push(url, samples)

    assert raised.value.code == "METRICS.INVALID_URL"
    assert "hunter2" not in str(raised.value)


def test_without_the_extra_the_command_to_install_it_is_shown(samples, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)

    with pytest.raises(PipelineError) as raised:
        push("http://localhost:4318", samples)

    assert raised.value.code == "METRICS.NO_OTEL"
    assert 'pip install "headrace[otel]"' in raised.value.hint
