from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cdc.feed import MergePath
from headrace.events.envelope import Origin, Stamp, from_row, id_floor, redacted, seq_no_of, to_row
from headrace.events.schema import SCHEMA
from headrace.events.types import (
    BatchDone,
    BatchRunning,
    DatasetDefined,
    Event,
    ExternalInput,
    FlowDefined,
    FlowLagMetrics,
    FlowStateChanged,
    FlowStateMetrics,
    FlowTotal,
    SinkDefined,
    StreamProgress,
    UpdateCreated,
    UpdateStateChanged,
    UpdateTotals,
    Warned,
)
from headrace.events.upkeep import LogTrimmed, TableHandedOver
from headrace.model.batch_commit import BatchCommit
from headrace.model.column_lineage import ColumnLineage, ColumnUse, OutputColumn, Use
from headrace.model.custom_metrics import MetricValue
from headrace.model.dataset_id import DatasetId
from headrace.model.datasets import Kind
from headrace.model.executor_time import ExecutorTime
from headrace.model.expectation_facts import ExpectationFacts
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.location import Location
from headrace.model.outcome import (
    BatchTasks,
    ChangeCounts,
    FilesBacklog,
    FlowCounts,
    FlowState,
    PartitionLag,
    SourceLag,
    TableLag,
    UpdateState,
)
from headrace.model.stream_progress import BatchTiming, OperatorProgress, SourceProgress, StreamBatches

ORIGIN = Origin(pipeline_id="p1", pipeline_name="flights", update_id="u1", host="here")
STAMP = Stamp(7, datetime(2026, 11, 20, 10, 0, tzinfo=UTC), "log-1", "unique")

texts = st.text(st.characters(codec="utf-8"), max_size=20)
numbers = st.integers(0, 2**60)
scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))
objects = st.dictionaries(texts, values, max_size=4)
errors = st.none() | st.fixed_dictionaries(
    {"code": texts, "message": texts, "location": st.none() | st.just({"file": "a.py", "line": None})},
)
counts = st.builds(
    FlowCounts,
    numbers,
    numbers,
    numbers,
    st.lists(st.builds(ExpectationCount, texts, st.sampled_from(Action), numbers, numbers), max_size=3).map(tuple),
    st.booleans(),
    metrics=st.lists(
        st.builds(MetricValue, texts, st.floats(-1e9, 1e9) | st.integers(-(2**60), 2**60), st.booleans()), max_size=2
    ).map(tuple),
    changes=st.none()
    | st.builds(ChangeCounts, numbers, numbers, *[st.none() | numbers] * 3, lone_column=st.none() | st.text()),
)
lags = st.dictionaries(st.tuples(texts, st.integers(0, 99)), st.tuples(numbers, numbers), max_size=4).map(
    lambda found: tuple(PartitionLag(*place, *ends) for place, ends in sorted(found.items()))
)
moments = st.datetimes(timezones=st.just(UTC))
executor_times = st.none() | st.builds(ExecutorTime, numbers, numbers)
progress = st.builds(
    StreamBatches,
    st.integers(-1, 2**60),
    numbers,
    moments,
    numbers,
    st.dictionaries(texts, numbers, max_size=3),
    numbers,
    st.none() | st.floats(0, 1e9),
    st.none() | st.floats(0, 1e9),
    st.none() | moments,
    st.none() | moments,
    st.lists(st.builds(OperatorProgress, texts, texts, st.none() | numbers, *[numbers] * 6), max_size=2).map(tuple),
    st.lists(st.builds(SourceProgress, texts, numbers), max_size=2).map(tuple),
    st.lists(
        st.builds(BatchTiming, numbers, moments, numbers, st.dictionaries(texts, numbers, max_size=2), numbers),
        max_size=2,
    ).map(tuple),
    executor_times,
)
dataset_ids = st.lists(st.builds(DatasetId, texts, texts), max_size=2).map(tuple)
column_uses = st.lists(
    st.builds(ColumnUse, texts | st.builds(DatasetId, texts, texts), texts, st.sampled_from(Use)), max_size=3
).map(tuple)
lineages = st.builds(
    ColumnLineage,
    st.lists(st.builds(OutputColumn, texts, column_uses), max_size=3).map(tuple),
    column_uses,
    st.booleans(),
)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(BatchRunning, texts, texts, st.builds(BatchTasks, st.none() | numbers, numbers, numbers, numbers)),
    st.builds(StreamProgress, texts, texts, numbers, texts, texts, progress),
    st.builds(UpdateCreated, texts, objects, objects),
    st.builds(UpdateStateChanged, st.sampled_from(UpdateState), errors),
    st.builds(TableHandedOver, texts, texts, texts, st.none() | texts),
    st.builds(
        DatasetDefined,
        *(texts, st.sampled_from(Kind), st.none() | texts, st.lists(texts).map(tuple), st.none() | objects),
        *(st.none() | texts, st.booleans(), st.lists(texts).map(tuple), st.lists(texts).map(tuple)),
    ),
    st.builds(
        FlowDefined,
        *(texts, texts, st.lists(texts).map(tuple), texts, texts, st.booleans(), st.none() | texts),
        external_inputs=st.lists(st.builds(ExternalInput, texts, texts, dataset_ids), max_size=2).map(tuple),
        trigger=st.none() | texts,
        query_digest=st.none() | texts,
        columns=st.none() | lineages,
        location=st.none() | st.builds(Location, texts, numbers),
    ),
    st.builds(SinkDefined, texts, texts, objects, dataset_ids),
    st.builds(
        FlowStateChanged,
        texts,
        texts,
        st.sampled_from(FlowState),
        st.none() | texts,
        st.integers(0, 99),
        errors,
        st.none() | st.floats(0, 1e9),
    ),
    st.builds(
        BatchDone,
        *(texts, texts, numbers, numbers, counts, numbers),
        merge_path=st.none() | st.sampled_from(MergePath),
        commit=st.none() | st.builds(BatchCommit, numbers, numbers, numbers),
        executor_time=executor_times,
    ),
    st.builds(LogTrimmed, texts, texts, objects),
    st.lists(st.builds(FlowTotal, texts, texts, numbers, numbers, counts, st.none() | numbers))
    .map(tuple)
    .map(UpdateTotals),
    st.lists(
        st.builds(FlowLagMetrics, texts, texts, lags)
        | st.builds(FlowStateMetrics, texts, texts, st.just(()), texts)
        | st.builds(BatchRunning, texts, texts, st.builds(BatchTasks, numbers, numbers, numbers, numbers)),
        max_size=3,
    )
    .map(tuple)
    .map(lambda reports: UpdateTotals((), reports)),
    st.builds(
        FlowLagMetrics,
        texts,
        texts,
        lags,
        st.lists(st.builds(FilesBacklog, texts, numbers, numbers)).map(tuple),
        st.lists(
            st.builds(TableLag, texts, numbers, st.none() | numbers, st.none() | numbers, st.none() | moments),
            max_size=2,
        ).map(tuple),
        st.lists(st.builds(SourceLag, texts, texts, *[st.none() | numbers] * 5), max_size=2).map(tuple),
    ),
    st.builds(Warned, texts, texts, st.none() | texts, st.none() | texts),
)


def test_a_secret_that_is_a_part_of_a_date_leaves_times_readable() -> None:
    at = datetime(2026, 11, 27, 10, tzinfo=UTC)
    done = StreamProgress("f", "d", 0, "q", "r", StreamBatches(0, 1, at, 5, watermark=at))
    behind = FlowLagMetrics("f", "d", tables=(TableLag("t", 1, 1, 1, at),))

    assert [redacted(event, lambda text: text.replace("2026", "***")) for event in (done, behind)] == [done, behind]


def test_a_secret_that_is_a_part_of_a_name_leaves_sums_readable() -> None:
    total = FlowTotal("sales_by_day", "sales", 0, 1, FlowCounts(rows_written=8))
    samples = {"samples": [["batches_total", ["sales_by_day", "sales"], 8]]}

    def hide(text: str) -> str:
        return text.replace("sales", "***")

    for event in (UpdateTotals((total,)), LogTrimmed("00", "01", samples)):
        assert redacted(event, hide) == event
        assert from_row(to_row(event, origin=ORIGIN, stamp=STAMP, redact=hide)) == event


@given(events)
@settings(max_examples=150, deadline=None)
def test_event_survives_a_round_trip_through_its_row(event: Event) -> None:
    row = to_row(event, origin=ORIGIN, stamp=STAMP)

    stored = pa.Table.from_pylist([row], SCHEMA).to_pylist()[0]

    assert from_row(stored) == event


@given(events)
@settings(max_examples=150, deadline=None)
def test_redacted_event_equals_the_event_read_from_its_redacted_row(event: Event) -> None:
    def redact(text: str) -> str:
        return text.replace("a", "[REDACTED]")

    row = to_row(event, origin=ORIGIN, stamp=STAMP, redact=redact)

    assert redacted(event, redact) == from_row(row)


@given(st.lists(st.tuples(st.integers(0, 2**62), texts), min_size=2, max_size=2))
def test_event_ids_sort_by_sequence_number(numbered: list[tuple[int, str]]) -> None:
    (low, low_id), (high, high_id) = sorted(
        (number, Stamp(number, STAMP.timestamp, "i", u).id) for number, u in numbered
    )

    assert seq_no_of(low_id) == low
    assert id_floor(high) <= high_id
    assert low == high or low_id < id_floor(high)


def test_batch_details_use_the_vendors_field_names() -> None:
    rules = (ExpectationCount("valid id", Action.DROP, passed=8, failed=2),)
    event = BatchDone("clean", "orders", 1, 4, FlowCounts(7, 2, 1, rules), duration_ms=12)

    row = to_row(event, origin=ORIGIN, stamp=STAMP)

    progress = json.loads(row["details"])["flow_progress"]
    assert progress["metrics"] == {"num_output_rows": 7}
    assert progress["data_quality"] == {
        "dropped_records": 2,
        "quarantined_records": 1,
        "recovered": False,
        "expectations": [
            {"name": "valid id", "dataset": "orders", "action": "drop", "passed_records": 8, "failed_records": 2},
        ],
    }
    assert (row["level"], row["origin"]["flow_name"], row["origin"]["batch_id"]) == ("METRICS", "clean", 4)


def test_error_column_contains_the_source_location_of_a_failed_flow() -> None:
    error = {"code": "FLOW.FAILED", "message": "it broke", "location": {"file": "a.py", "line": 3}}

    row = to_row(FlowStateChanged("f", "t", FlowState.FAILED, error=error), origin=ORIGIN, stamp=STAMP)

    (exception,) = row["error"]["exceptions"]
    assert (exception["class_name"], exception["message"]) == ("FLOW.FAILED", "it broke")
    assert exception["stack"][0] == {
        "declaring_class": None,
        "method_name": None,
        "file_name": "a.py",
        "line_number": 3,
    }


def test_secret_is_redacted_in_every_text_of_the_row() -> None:
    error = {
        "code": "X",
        "message": "no s3cret",
        "location": {"file": "s3cret.py", "line": 1},
        "params": {"p": "s3cret"},
    }
    event = FlowStateChanged("f", "t", FlowState.FAILED, reason="s3cret", error=error)

    row = to_row(event, origin=ORIGIN, stamp=STAMP, redact=lambda text: text.replace("s3cret", "***"))

    assert "s3cret" not in repr(row)
    assert "***" in row["message"]


def test_flow_state_is_not_redacted_if_it_equals_a_secret() -> None:
    event = FlowStateChanged("f", "t", FlowState.RUNNING)

    row = to_row(event, origin=ORIGIN, stamp=STAMP, redact=lambda text: text.replace("RUNNING", "***"))

    assert from_row(row) == event


def test_unknown_event_type_of_a_later_version_is_ignored() -> None:
    row = to_row(UpdateCreated("USER_ACTION"), origin=ORIGIN, stamp=STAMP)

    assert from_row({**row, "event_type": "from_the_future", "details": '{"from_the_future": {}}'}) is None


def test_invalid_unicode_is_replaced_so_that_the_row_can_be_stored() -> None:
    row = to_row(Warned("CODE", "file \udcff"), origin=ORIGIN, stamp=STAMP)

    assert pa.Table.from_pylist([row], SCHEMA)["message"][0].as_py() == "file ?"


def test_facts_of_expectations_are_stored_with_their_names():
    facts = (ExpectationFacts("known", "not_null", "id"), ExpectationFacts("sums"))
    event = DatasetDefined("t", Kind.STREAMING_TABLE, "/t", ("known", "sums", "of old"), facts=facts)

    assert from_row(to_row(event, origin=ORIGIN, stamp=STAMP)) == event
