"""Metrics of users, without Spark: how values add up, where they wait for their batch, and which are refused."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.delivery import record_metric
from headrace.errors import PipelineError
from headrace.graph.custom_metrics import custom_metric_problems
from headrace.model.custom_metrics import CustomMetric, MetricValue, added_values
from headrace.model.datasets import Dataset, Kind
from headrace.model.location import Location
from headrace.model.names import QualifiedName
from headrace.spark.sinks.batch_metrics import BatchMetrics, recording
from headrace.storage.recorded_metrics import recorded_metrics, store_recorded_metrics

# A metric keeps its kind.
VALUES = st.dictionaries(st.sampled_from("ab"), st.integers(-9, 9)).map(
    lambda found: tuple(MetricValue(name, value, name == "a") for name, value in sorted(found.items()))
)
ROWS = MetricValue("rows", 3, is_total=True)
HERE = Location("orders.py", 3)


@given(VALUES, VALUES, VALUES)
def test_batches_can_be_added_in_any_groups(one, two, three):
    left, right = added_values(added_values(one, two), three), added_values(one, added_values(two, three))

    assert {*left} == {*right}


def test_what_a_function_records_is_collected_for_its_batch_alone():
    with recording() as outer:
        record_metric("rows", 1)
        with recording() as inner:
            record_metric("rate", 0.5, total=False)
        record_metric("rows", 2)

    assert [(one.name, one.value) for one in outer] == [("rows", 1), ("rows", 2)]
    assert inner == [MetricValue("rate", 0.5, is_total=False)]


def test_a_metric_outside_of_a_function_or_in_another_thread_is_refused():
    codes = []

    def record():
        try:
            record_metric("rows", 1)
        except PipelineError as error:
            codes.append(error.code)

    with recording():
        thread = threading.Thread(target=record)
        thread.start()
        thread.join()
    record()

    assert codes == ["METRICS.NO_BATCH"] * 2


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [("a b", 1, "NAME"), ("rows", float("nan"), "VALUE"), ("rows", True, "VALUE"), ("rows", "7", "VALUE")],
)
def test_a_name_or_value_that_a_time_series_cannot_have_is_refused(name, value, code):
    with recording(), pytest.raises(PipelineError) as raised:
        record_metric(name, value)

    assert raised.value.code == f"METRICS.INVALID_{code}"


def test_what_some_sinks_recorded_with_a_batch_is_kept_when_the_others_repeat_it(tmp_path):
    metrics = BatchMetrics(tmp_path, 0)
    metrics.start(7, may_be_repeat=False)
    metrics.set("first", [ROWS, ROWS])
    metrics.store(7)

    repeated = BatchMetrics(tmp_path, 0)
    repeated.start(7, may_be_repeat=True)
    repeated.set("second", [ROWS])
    assert repeated.values == (MetricValue("rows", 9, is_total=True),)

    repeated.start(8, may_be_repeat=True)
    assert repeated.values == ()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1, "batch": 7, "sinks": {"s": [1]}}'])
def test_recorded_metrics_in_a_damaged_file_are_none(tmp_path, text):
    store_recorded_metrics(tmp_path, 0, 7, {"s": [ROWS]})
    assert recorded_metrics(tmp_path, 0, 7) == {"s": (ROWS,)}

    (tmp_path / "metrics-0.json").write_text(text)

    assert recorded_metrics(tmp_path, 0, 7) == {}


@pytest.mark.parametrize(
    ("kind", "names", "expected"),
    [
        (Kind.SINK, "a", "METRICS.NO_TABLE"),
        (Kind.TEMPORARY_VIEW, "a", "METRICS.NO_TABLE"),
        (Kind.STREAMING_TABLE, "aa", "METRICS.DUPLICATE"),
    ],
)
def test_metrics_of_what_is_no_table_and_with_equal_names_are_problems(kind, names, expected):
    metrics = tuple(CustomMetric(name, "count(*)", HERE) for name in names)
    dataset = Dataset(QualifiedName("orders"), kind, HERE, metrics=metrics)

    problems = custom_metric_problems({dataset.name: dataset}, lambda _name: ())

    assert [problem.code for problem in problems][-1] == expected
