"""Metrics: a fold over events that is the same in parts, and text that Prometheus reads."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import count

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from tests.tiers import examples

from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.reader import EventReader
from headrace.events.recorded import continues, recorded_events
from headrace.events.schema import SCHEMA
from headrace.events.types import (
    BatchDone,
    FlowDefined,
    FlowLagMetrics,
    FlowStateChanged,
    StreamProgress,
    UpdateCreated,
    UpdateStateChanged,
    Warned,
)
from headrace.metrics import catalogue
from headrace.metrics.exposition import json_of, prometheus_text
from headrace.metrics.fold import EventFold
from headrace.metrics.metric import MetricKind
from headrace.metrics.samples import Samples
from headrace.metrics.snapshot import Snapshot, read_snapshot, write_snapshot
from headrace.model.custom_metrics import MetricValue
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.outcome import FlowCounts, FlowState, PartitionLag, SourceLag, TableLag, UpdateState
from headrace.model.stream_progress import OperatorProgress, StreamBatches

START = datetime(2026, 11, 27, 10, tzinfo=UTC)
STATE = OperatorProgress("dedupe", "deduplication", 7, 5, 1, 2, 3, 4096, 9)
DONE = UpdateStateChanged(UpdateState.COMPLETED)
RUNNING = UpdateStateChanged(UpdateState.RUNNING)


def batch(number, rows=10, *, epoch=0, flow="orders"):
    rule = ExpectationCount("paid", Action.DROP, passed=rows, failed=1)
    metrics = (MetricValue("value", 2.5 * rows, is_total=True), MetricValue("newest", rows, is_total=False))
    return BatchDone(flow, flow, epoch, number, FlowCounts(rows, 1, 0, (rule,), metrics=metrics), 100 * rows)


def progress(rows, duration_ms):
    done = StreamBatches(
        0, 1, START, duration_ms, {"add_batch": duration_ms}, rows, 2.0, 5.0, START, START, (STATE, STATE)
    )
    return StreamProgress("orders", "orders", 0, "q", "r", done)


def folded(*events, update_id="u"):
    fold = EventFold()
    for number, event in enumerate(events):
        fold.apply(event, START + timedelta(seconds=number), update_id)
    return fold


def test_a_repeated_record_of_a_batch_counts_once_and_a_new_epoch_counts_anew():
    fold = folded(batch(0), batch(0), batch(1), batch(0, epoch=1))

    assert fold.samples.of(catalogue.BATCHES) == {("orders", "orders"): 3}
    assert fold.samples.of(catalogue.ROWS)["orders", "orders", "written"] == 30
    assert fold.samples.of(catalogue.EXPECTATIONS)["orders", "orders", "paid", "drop", "failed"] == 3


def test_metrics_of_users_add_up_if_they_are_totals_and_are_those_of_the_newest_batch_otherwise():
    samples = folded(batch(0), batch(0), batch(1, rows=4)).samples

    assert samples.of(catalogue.CUSTOM_TOTAL) == {("orders", "orders", "value"): 35}
    assert samples.of(catalogue.CUSTOM_VALUE) == {("orders", "orders", "newest"): 4}


def test_a_value_of_a_user_is_gone_after_an_update_that_read_rows_and_did_not_have_it():
    def without(number, rows):
        return BatchDone("orders", "orders", 0, number, FlowCounts(rows))

    fold = folded(UpdateCreated("USER_ACTION"), batch(0), DONE)
    for update_id, event in (("empty", without(1, 0)), ("removed", without(2, 5))):
        for step in (UpdateCreated("USER_ACTION"), event, DONE):
            before = dict(fold.samples.of(catalogue.CUSTOM_VALUE))
            fold.apply(step, START, update_id)

    # It was there until the end of the update.
    assert before == {("orders", "orders", "newest"): 10}
    assert fold.samples.of(catalogue.CUSTOM_VALUE) == {}
    assert fold.samples.of(catalogue.CUSTOM_TOTAL) == {("orders", "orders", "value"): 25}


def test_lost_offsets_are_added_up_and_a_loss_of_unknown_size_counts_once():
    def lost(offsets):
        facts = {"topic": "raw", "partition": 0, "offsets": offsets}
        return Warned("KAFKA.OFFSETS_LOST", "lost", "orders", "orders", facts=facts)

    samples = folded(lost(7), lost(None), Warned("SINK.DOWN", "down", "orders")).samples

    assert samples.of(catalogue.LOST_OFFSETS) == {("orders", "raw"): 8}
    assert samples.of(catalogue.LAST_LOSS) == {("orders", "raw"): (START + timedelta(seconds=1)).timestamp()}


def test_durations_are_counted_in_cumulative_buckets_and_unknown_ones_are_not():
    unknown = BatchDone("orders", "orders", 0, 9)
    samples = folded(batch(0, rows=1), batch(1, rows=4), batch(2, rows=4000), unknown).samples

    ((labels, buckets, total),) = samples.histograms(catalogue.BATCH_DURATION)
    assert (labels, total) == (("orders",), 400.5)
    assert buckets == {"0.1": 1, "0.25": 1} | dict.fromkeys(
        ("0.5", "1.0", "2.5", "5.0", "10.0", "30.0", "60.0", "300.0"), 2
    ) | {"+Inf": 3}


def test_batches_of_a_table_that_was_deleted_count_anew_in_a_later_update():
    fold = folded(batch(7), batch(3))
    fold.apply(batch(0), START, "later")
    fold.apply(batch(0), START, "later")

    assert fold.samples.of(catalogue.BATCHES) == {("orders", "orders"): 2}


def test_flows_of_an_update_without_an_end_are_lost_when_the_next_one_begins():
    running = FlowStateChanged("orders", "orders", FlowState.RUNNING)

    fold = folded(UpdateCreated("USER_ACTION"), running, UpdateCreated("USER_ACTION"))

    assert fold.samples.of(catalogue.FLOW_STATE) == {("orders", "orders", "LOST"): 1}


def test_ended_updates_are_counted_by_state_and_one_without_an_end_is_lost():
    fold = folded(UpdateCreated("USER_ACTION"), RUNNING, DONE)
    for event in (UpdateCreated("USER_ACTION"), RUNNING):
        fold.apply(event, START, "killed")
    fold.apply(UpdateCreated("USER_ACTION"), START, "next")

    assert fold.samples.of(catalogue.UPDATES) == {("COMPLETED", "USER_ACTION"): 1, ("LOST", "USER_ACTION"): 1}
    assert fold.samples.of(catalogue.UPDATE_DURATION) == {("USER_ACTION",): 2.0}


def test_failures_and_retries_are_counted_and_a_flow_has_one_state():
    retrying = FlowStateChanged("orders", "orders", FlowState.RETRYING, attempt=1)
    failed = FlowStateChanged("orders", "orders", FlowState.FAILED, error={"code": "FLOW.FAILED"})

    samples = folded(retrying, failed).samples

    assert samples.of(catalogue.FLOW_STATE) == {("orders", "orders", "FAILED"): 1}
    assert samples.of(catalogue.FLOW_FAILURES) == {("orders", "FLOW.FAILED"): 1}
    assert samples.of(catalogue.FLOW_RETRIES) == {("orders",): 1}


def test_rates_are_the_latest_and_rows_phases_and_state_changes_are_added_up():
    samples = folded(progress(10, 500), progress(20, 1500)).samples

    assert samples.of(catalogue.INPUT_ROWS) == {("orders",): 30}
    assert samples.of(catalogue.PHASES) == {("orders", "add_batch"): 2.0}
    assert samples.of(catalogue.PROCESS_RATE) == {("orders",): 5.0}
    # Two operators of a kind.
    assert samples.of(catalogue.STATE_BYTES) == {("orders", "deduplication"): 8192}
    assert samples.of(catalogue.STATE_CHANGES)["orders", "deduplication", "duplicate"] == 12


def test_lag_behind_a_table_is_its_unread_rows_commits_and_bytes_and_its_oldest_commit():
    behind = FlowLagMetrics("orders", "orders", tables=(TableLag("raw", 2, 30, 4096, START),))
    current = FlowLagMetrics("orders", "orders", tables=(TableLag("raw", 0, 0, 0),))

    fold = folded(behind)
    assert [fold.samples.of(metric)["orders", "raw"] for metric in (catalogue.LAG_ROWS, catalogue.LAG_COMMITS)] == [
        30,
        2,
    ]
    assert fold.unread.oldest == {"orders": {"raw": START.timestamp()}}
    assert folded(behind, current).unread.oldest == {"orders": {"raw": None}}
    # Log clean-up has removed the unread commits.
    removed = FlowLagMetrics("orders", "orders", tables=(TableLag("raw", 2, None, None),))
    assert folded(current, removed).unread.oldest == {"orders": {}}


def test_lag_behind_other_sources_has_the_metrics_of_what_is_known():
    files = SourceLag("/in", "files", files=2, size=70, seconds=30.0)

    fold = folded(FlowLagMetrics("orders", "orders", sources=(files, SourceLag("db", "jdbc", rows=0))))

    assert fold.samples.of(catalogue.LAG_FILES) == {("orders", "/in"): 2}
    assert fold.samples.of(catalogue.LAG_ROWS) == {("orders", "db"): 0}
    assert fold.unread.oldest == {"orders": {"/in": START.timestamp() - 30}}


@pytest.mark.parametrize(("selection", "remaining"), [({}, {"orders"}), ({"refresh": ["orders"]}, {"orders", "old"})])
def test_gauges_of_a_flow_that_left_the_code_disappear_with_an_update_of_all_flows(selection, remaining):
    lags = [FlowLagMetrics(flow, flow, (PartitionLag("t", 0, 1, 5),)) for flow in ("orders", "old")]

    fold = folded(*lags, UpdateCreated("USER_ACTION", {}, selection), FlowDefined("orders", "orders"), RUNNING)

    assert {flow for flow, _ in fold.samples.of(catalogue.LAG_OFFSETS)} == remaining


EVENTS = st.one_of(
    st.builds(batch, st.integers(0, 3), st.integers(0, 5), epoch=st.integers(-1, 2), flow=st.sampled_from("ab")),
    st.sampled_from([UpdateCreated("USER_ACTION"), RUNNING, DONE, progress(3, 100)]),
    st.builds(FlowStateChanged, st.sampled_from("ab"), st.just("t"), st.sampled_from(FlowState)),
    st.builds(FlowDefined, st.sampled_from("ab"), st.just("t")),
)


@given(st.lists(EVENTS, max_size=12), st.integers(0, 12))
@settings(max_examples=60)
def test_a_fold_that_was_stored_halfway_gives_the_same_metrics(events, at):
    whole = folded(*events)
    halfway = EventFold.from_json(json.loads(json.dumps(folded(*events[:at]).to_json())))
    for number, event in enumerate(events[at:], at):
        halfway.apply(event, START + timedelta(seconds=number), "u")

    assert halfway.to_json() == whole.to_json()


def test_every_metric_is_read_by_a_parser_of_prometheus_under_its_name_with_its_labels():
    samples = EventFold().samples
    for metric in catalogue.CATALOGUE:
        labels = [f'a "{name}" \\ \n b' for name in metric.labels]
        if metric.kind is MetricKind.HISTOGRAM:
            samples.observe(metric, 1.5, *labels)
        else:
            samples.set(metric, 1.5, *labels)

    families = list(text_string_to_metric_families(prometheus_text("shop", samples)))

    found = {
        sample.name.removesuffix("_count"): (family.type, family.documentation, tuple(sorted(sample.labels)))
        for family in families
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_sum"))
    }
    assert found == {
        metric.prometheus: (metric.kind.value, metric.help, tuple(sorted(("pipeline", *metric.labels))))
        for metric in catalogue.CATALOGUE
    }
    assert len(json_of("shop", samples)) == len(catalogue.CATALOGUE)


def logged(folder, *events):
    numbers = count()
    path = str(folder / "events")
    with EventLog(path, origin=Origin("p", "p", "u"), clock=lambda: START, new_id=lambda: f"{next(numbers):04}") as log:
        for event in events:
            log.emit(event)
    return EventReader(path)


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=3, max_size=3),
    st.floats() | st.integers(-(2**53), 2**53),
)
@settings(max_examples=examples(20, 200))
def test_any_label_and_value_is_read_as_it_was_by_a_parser_of_prometheus(texts, value):
    pipeline, flow, source = texts
    samples = Samples()
    samples.set(catalogue.LAG_SECONDS, value, flow, source)

    (family,) = text_string_to_metric_families(prometheus_text(pipeline, samples))

    (sample,) = family.samples
    assert sample.labels == {"pipeline": pipeline, "flow": flow, "source": source}
    assert sample.value == value or (sample.value != sample.value and value != value)  # noqa: PLR0124 - NaN


def test_events_after_a_row_continue_where_a_snapshot_ended(tmp_path):
    reader = logged(tmp_path, batch(0), batch(1))
    first, second = recorded_events(reader)

    assert [one.event for one in recorded_events(reader, first.row_id)] == [batch(1)]
    assert continues(reader, second.row_id)


def test_an_event_that_another_version_has_written_otherwise_is_left_out(tmp_path):
    reader = logged(tmp_path, batch(0))
    row = {**next(reader.events()), "id": "f" * 16 + "-x", "details": '{"flow_progress": {"status": "NEW"}}'}
    write_deltalake(str(tmp_path / "events"), pa.Table.from_pylist([row], SCHEMA), mode="append")

    assert [one.event for one in recorded_events(reader)] == [batch(0)]


def test_a_snapshot_of_newer_events_than_the_log_has_does_not_continue(tmp_path):
    reader = logged(tmp_path, batch(0))

    assert not continues(reader, "f" * 16 + "-later")
    # Older rows were removed from the log.
    assert continues(reader, "0" * 16 + "-older")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1, "row_id": "\' OR 1", "fold": {}}'])
def test_a_snapshot_that_is_damaged_is_none(tmp_path, text):
    file = tmp_path / "metrics.json"
    file.write_text(text)

    assert read_snapshot(file, "1") is None


def test_a_snapshot_is_read_as_it_was_written(tmp_path):
    snapshot = Snapshot("log", "0" * 16 + "-a", folded(UpdateCreated("USER_ACTION"), batch(0), progress(3, 100)))

    write_snapshot(tmp_path / "metrics.json", "1", snapshot)
    write_snapshot(tmp_path / "missing" / "metrics.json", "1", snapshot)

    found = read_snapshot(tmp_path / "metrics.json", "1")
    assert found is not None
    assert (found.table_id, found.row_id) == ("log", snapshot.row_id)
    assert found.fold.to_json() == snapshot.fold.to_json()
    # Another version may have other metrics.
    assert read_snapshot(tmp_path / "metrics.json", "2") is None
