"""Synthetic events in pipelines and scripts: a crash between batches, as a batch, errors where they arise."""

from __future__ import annotations

import pytest

from headrace.errors import Problems
from headrace.model.outcome import UpdateState
from headrace.spark.session.active_session import while_active
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

EVENTS = """
    @dp.table
    @dp.expect("keyed", "key IS NOT NULL")
    def events():
        return (
            spark.readStream.format("synthetic")
            .options(seed=7, numRows=100, rowsPerBatch=50, duplicateShare=0.2, nullShare=0.1)
            .load()
        )

    @dp.materialized_view
    def at_once():
        return spark.read.format("synthetic").options(seed=7, numRows=100, duplicateShare=0.2, nullShare=0.1).load()
"""


def test_a_stream_has_the_same_rows_as_a_batch_despite_a_crash(project):
    pipeline = project(EVENTS)

    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.WRITTEN, skip=1).run("events")
    result = pipeline.restart().run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert result.rows("events") == result.rows("at_once")
    assert len(result.rows("events")) == 100


@pytest.mark.long(
    guard="tests/unit/sources/test_synthetic.py::test_available_now_reads_rows_available_at_start_or_all_rows_of_a_bounded_stream"
)
def test_a_triggered_update_reads_a_finite_stream_to_its_end_at_any_rate(project):
    pipeline = project(EVENTS.replace("seed=7,", "seed=7, rowsPerSecond=1,"))

    assert [pipeline.run("events").written for _ in range(2)] == [100, 0]


def test_an_unknown_option_is_reported_with_its_location(project):
    pipeline = project(EVENTS.replace("duplicateShare", "duplicatesShare"))

    with pytest.raises(Problems) as raised:
        pipeline.plan()

    first = raised.value.errors[0]
    assert (first.code, first.location.file) == ("SOURCE.OPTION_UNKNOWN", "transformations/project.py")
    assert first.detail == "Similar option: duplicateShare."


def test_a_batch_read_generates_the_columns_of_a_custom_schema(headrace_session):
    frame = (
        headrace_session.read.format("Synthetic")
        .schema("event_id STRING, note STRUCT<text: STRING, at: TIMESTAMP NOT NULL> NOT NULL")
        .load(numRows=30_000, numPartitions=3)
    )

    assert frame.count() == 30_000
    assert frame.select("event_id").distinct().count() == 30_000
    assert frame.where("note.text IS NULL").isEmpty()


def test_a_session_reads_events_while_another_session_is_active(headrace_session):
    one, other = headrace_session.newSession(), headrace_session.newSession()
    with while_active(one):
        one.read.format("synthetic").load(numRows=1)

        frame = other.read.format("synthetic").load(numRows=10)

    assert frame.count() == 10
