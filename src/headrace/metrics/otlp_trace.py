"""Pushes the trace of an update to a collector with OpenTelemetry's protocol over HTTP."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from headrace.errors import PipelineError
from headrace.metrics.otlp_http import TIMEOUT_S, endpoint_of, export
from headrace.metrics.trace import SpanFailure, Trace

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Event, ReadableSpan

_PATH = "/v1/traces"
# Of one request; collectors refuse large ones.
_SPANS = 2000


def push_trace(url: str, pipeline: str, trace: Trace, *, version: str) -> None:
    """Push all spans of a trace. To push it again changes nothing in collectors that know spans by their ids.

    Headers, such as a token, come from the environment variable ``OTEL_EXPORTER_OTLP_HEADERS``.

    Args:
        url: of the collector; without a path, ``/v1/traces`` is added.
        pipeline: its name.
        trace: the trace.
        version: of Headrace.

    Raises:
        PipelineError: METRICS.NO_OTEL: the extra is not installed, METRICS.INVALID_URL, METRICS.NOT_PUSHED.
    """
    endpoint = endpoint_of(url, _PATH)
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415 - the same
    except ImportError as error:
        raise PipelineError("METRICS.NO_OTEL") from error
    exporter = partial(OTLPSpanExporter, endpoint=endpoint, timeout=TIMEOUT_S)
    spans = readable_spans(pipeline, trace, version=version)
    for first in range(0, len(spans), _SPANS):
        part = spans[first : first + _SPANS]
        export(endpoint, lambda session: exporter(session=session), SpanExportResult.SUCCESS, part)


def readable_spans(pipeline: str, trace: Trace, *, version: str) -> list[ReadableSpan]:
    """The spans as OpenTelemetry's, parents first."""
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415 - the same
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415 - the same
    from opentelemetry.trace import SpanContext, TraceFlags  # noqa: PLC0415 - the same
    from opentelemetry.trace.status import Status, StatusCode  # noqa: PLC0415 - the same

    resource = Resource({"service.name": "headrace", "service.version": version})
    scope = InstrumentationScope("headrace", version)

    def context(span_id: int) -> SpanContext:
        return SpanContext(trace.trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    found = []
    for span_id, parent, span in trace.spans():
        failure = span.failure
        status = Status(StatusCode.UNSET) if failure is None else Status(StatusCode.ERROR, failure.message)
        found.append(
            ReadableSpan(
                span.name,
                context(span_id),
                None if parent is None else context(parent),
                resource,
                {"pipeline": pipeline, **span.attributes},
                () if failure is None else (_event(failure),),
                status=status,
                start_time=_nanoseconds(span.start),
                end_time=_nanoseconds(span.end),
                instrumentation_scope=scope,
            )
        )
    return found


def _event(failure: SpanFailure) -> Event:
    from opentelemetry.sdk.trace import Event  # noqa: PLC0415 - an extra

    attributes = {"exception.type": failure.code, "exception.message": failure.message}
    return Event("exception", attributes, _nanoseconds(failure.at))


def _nanoseconds(moment: datetime) -> int:
    # As a floating-point number, it would lose microseconds.
    return int(moment.timestamp()) * 10**9 + moment.microsecond * 1000
