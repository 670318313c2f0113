"""The trace of an update: a span for each flow, batch and phase, as a collector gets them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from headrace.errors import PipelineError
from headrace.events.recorded import Recorded
from headrace.events.types import BatchDone, FlowStateChanged, StreamProgress, UpdateCreated, UpdateStateChanged
from headrace.metrics.otlp_trace import push_trace
from headrace.metrics.trace import trace_of
from headrace.model.batch_commit import BatchCommit
from headrace.model.executor_time import ExecutorTime
from headrace.model.outcome import FlowCounts, FlowState, UpdateState
from headrace.model.stream_progress import BatchTiming, StreamBatches

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
ERROR = {"code": "FLOW.FAILED", "message": "it broke"}
PHASES = {"latest_offset": 100, "add_batch": 700, "commit_offsets": 100}


def at(seconds):
    return START + timedelta(seconds=seconds)


def state(flow, value, **more):
    return FlowStateChanged(flow, flow, value, **more)


def progress(flow, *timings, batches=None, **more):
    newest = timings[-1]
    reported = StreamBatches(
        newest.batch_id,
        batches or len(timings),
        newest.started_at,
        sum(one.duration_ms for one in timings),
        newest.phases_ms,
        input_rows=sum(one.input_rows for one in timings),
        timings=timings if len(timings) > 1 else (),
        **more,
    )
    return StreamProgress(flow, flow, 0, "query", "run", reported)


def timing(batch_id, second):
    return BatchTiming(batch_id, at(second), 1000, PHASES, 10)


def trace(*events, **more):
    return trace_of(
        [Recorded(str(number), "u1", moment, event) for number, (moment, event) in enumerate(events)], **more
    )


def names(span):
    return {span.name: [names(child) for child in span.children]} if span.children else span.name


CREATED = (at(0), UpdateCreated("SCHEDULE", user="ann", version="1"))


def test_an_update_has_a_span_for_each_flow_batch_and_phase():
    done = BatchDone("orders", "orders", 0, 4, FlowCounts(9, 1, 0), 900, commit=BatchCommit(7, 1, 512))
    report = progress("orders", timing(4, 3), executor_time=ExecutorTime(1800, 600))
    view = BatchDone("totals", "totals", 0, 2, FlowCounts(5), 2000, executor_time=ExecutorTime(3000, 900))

    found = trace(
        CREATED,
        (at(1), state("orders", FlowState.STARTING, attempt=1)),
        (at(4), done),
        (at(5), report),
        (at(6), state("orders", FlowState.COMPLETED, attempt=1)),
        (at(7), state("totals", FlowState.STARTING, attempt=1)),
        (at(10), view),
        (at(11), state("totals", FlowState.COMPLETED, attempt=1)),
        (at(12), UpdateStateChanged(UpdateState.COMPLETED)),
    )

    phases = ["latest_offset", "add_batch", "commit_offsets"]
    assert names(found.root) == {"update": [{"flow orders": [{"batch 4": phases}]}, {"flow totals": ["batch 2"]}]}
    orders, totals = found.root.children
    (batch,), (refresh,) = orders.children, totals.children
    assert (found.root.duration_s, orders.duration_s, batch.duration_s, refresh.duration_s) == (12, 5, 1, 2)
    assert [phase.start for phase in batch.children] == [at(3), at(3.1), at(3.8)]
    written = {"headrace.rows_written": 9, "headrace.table_version": 7, "headrace.executor_run_ms": 1800}
    assert written.items() <= batch.attributes.items()
    assert refresh.attributes["headrace.executor_cpu_ms"] == 900
    assert {"headrace.state": "COMPLETED", "headrace.cause": "SCHEDULE", "headrace.user": "ann"}.items() <= (
        found.root.attributes.items()
    )


def test_batches_of_one_report_have_spans_of_their_own_and_those_of_older_versions_one_together():
    found = trace(
        CREATED,
        (at(1), state("orders", FlowState.STARTING, attempt=1)),
        (at(9), progress("orders", timing(1, 2), timing(2, 5), timing(3, 6))),
        (at(19), progress("orders", BatchTiming(7, at(15), 4000, PHASES), batches=4)),
    )

    batches = found.root.children[0].children
    assert [(one.name, one.start, one.duration_s) for one in batches] == [
        ("batch 1", at(2), 1),
        ("batch 2", at(5), 1),
        ("batch 3", at(6), 1),
        ("batches 4 to 7", at(12), 4),
    ]


def test_a_retry_is_a_span_of_its_own_and_failures_are_on_the_flow_and_the_update():
    found = trace(
        CREATED,
        (at(1), state("orders", FlowState.STARTING, attempt=1)),
        (at(2), state("orders", FlowState.RETRYING, attempt=1, error=ERROR)),
        (at(5), state("orders", FlowState.STARTING, attempt=2)),
        (at(6), state("orders", FlowState.FAILED, attempt=2, error=ERROR)),
        (at(7), UpdateStateChanged(UpdateState.FAILED, ERROR)),
    )

    spans = [(span.name, span.start, span.end, span.failure and span.failure.code) for _, _, span in found.spans()]
    assert spans == [
        ("update", at(0), at(7), "FLOW.FAILED"),
        ("flow orders", at(1), at(2), "FLOW.FAILED"),
        ("flow orders", at(5), at(6), "FLOW.FAILED"),
    ]


def test_what_still_runs_ends_with_the_newest_event_and_only_the_newest_batches_are_kept():
    batches = [(at(2 + number), progress("orders", timing(number, 1 + number))) for number in range(5)]
    done = [(at(2 + number), BatchDone("orders", "orders", 0, number, duration_ms=900)) for number in range(5)]

    found = trace(CREATED, (at(1), state("orders", FlowState.STARTING, attempt=1)), *batches, *done, newest_batches=2)

    (flow,) = found.root.children
    assert (found.root.end, flow.end, flow.attributes["headrace.batches_left_out"]) == (at(6), at(6), 3)
    assert [span.name for span in flow.children] == ["batch 3", "batch 4"]


def test_the_same_events_have_the_same_ids_and_no_two_spans_share_one():
    events = (CREATED, (at(1), state("orders", FlowState.STARTING)), (at(4), progress("orders", timing(4, 3))))

    first, again = trace(*events), trace(*events)

    ids = [(span_id, parent) for span_id, parent, _ in first.spans()]
    assert (first.trace_id, ids) == (again.trace_id, [(span_id, parent) for span_id, parent, _ in again.spans()])
    assert len({span_id for span_id, _ in ids}) == len(ids) == 6
    assert {parent for _, parent in ids[1:]} < {span_id for span_id, _ in ids}


def test_events_without_the_beginning_of_the_update_have_no_trace():
    assert trace((at(1), state("orders", FlowState.STARTING))) is None


def test_a_collector_gets_all_spans_with_times_parents_attributes_and_errors(collector):
    found = trace(
        CREATED,
        (at(1), state("orders", FlowState.STARTING, attempt=1)),
        (at(4), progress("orders", timing(4, 3))),
        (at(5), state("orders", FlowState.FAILED, attempt=1, error=ERROR)),
    )

    push_trace(collector.url, "shop", found, version="1")

    ((path, body, _),) = collector.requests
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    (scope,) = resource.scope_spans
    update, flow, batch, *phases = scope.spans
    assert (path, [phase.name for phase in phases]) == ("/v1/traces", list(PHASES))
    assert (flow.parent_span_id, batch.parent_span_id) == (update.span_id, flow.span_id)
    assert {span.trace_id for span in scope.spans} == {found.trace_id.to_bytes(16, "big")}
    start = int(START.timestamp()) * 10**9
    assert (batch.start_time_unix_nano, batch.end_time_unix_nano) == (start + 3 * 10**9, start + 4 * 10**9)
    attributes = {one.key: one.value.string_value for one in flow.attributes}
    assert {"pipeline": "shop", "flow": "orders", "headrace.state": "FAILED"}.items() <= attributes.items()
    assert (flow.status.code, flow.status.message) == (Status.STATUS_CODE_ERROR, "it broke")
    assert [one.name for one in flow.events] == ["exception"]


def test_a_collector_that_refuses_a_trace_is_named(collector):
    collector.status = 404

    with pytest.raises(PipelineError) as raised:
        push_trace(collector.url, "shop", trace(CREATED), version="1")

    assert (raised.value.code, "404" in raised.value.params["reason"]) == ("METRICS.NOT_PUSHED", True)
