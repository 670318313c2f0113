"""Progress of streams: in the event log, and as the tables that documents query."""

from __future__ import annotations

import uuid
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.recorded_updates import heard

from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.types import BatchRunning, FlowStateChanged, StreamProgress, UpdateCreated
from headrace.model.outcome import FlowState, UpdateState
from headrace.runtime import long_batches
from headrace.spark.monitoring import task_reporter

pytestmark = pytest.mark.spark

TEXT = """
    from pathlib import Path

    @dp.table
    def orders():
        rows = spark.readStream.schema("id INT").option("maxFilesPerTrigger", 1)
        return rows.json(str(Path(__file__).parents[1] / "landing"))

    @dp.table
    @dp.expect_or_drop("positive", "id > 0")
    def checked():
        return spark.readStream.table("orders")
    """


# Each flow has a task that ends once its progress was reported.
LONG = """
    import time
    from pathlib import Path

    from pyspark.sql import functions as F

    FOLDER = Path(__file__).parents[1]

    def slow(flow):
        released = str(FOLDER / f"{flow}.released")

        @F.udf("INT")
        def wait(number):
            deadline = time.monotonic() + 40
            while not Path(released).exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            return number

        return wait

    def rows():
        return spark.readStream.schema("id INT").json(str(FOLDER / "landing"))

    @dp.table
    def plain():
        return rows().select(slow("plain")("id").alias("id"))

    @dp.table
    @dp.expect_or_drop("positive", "id > 0")
    def checked():
        return rows().select(slow("checked")("id").alias("id"))

    @dp.materialized_view
    def view():
        return spark.read.schema("id INT").json(str(FOLDER / "landing")).select(slow("view")("id").alias("id"))
    """


def now():
    return datetime.now(tz=UTC)


@pytest.fixture(scope="module")
def updated(shared_project):
    """A pipeline after an update with two batches of the first flow, and the progress that was reported."""
    pipeline = shared_project(TEXT)
    pipeline.land("landing/1.json", [{"id": 1}, {"id": 2}])
    pipeline.land("landing/2.json", [{"id": 3}])
    _, events = heard(pipeline)
    reported = defaultdict(list)
    for event in events:
        if isinstance(event, StreamProgress):
            reported[event.flow].append(event)
    return pipeline, reported


def test_each_batch_of_a_stream_is_reported_once(updated):
    _, reported = updated

    # A slow machine reports two batches one by one.
    found = {
        name: (sum(event.progress.batches for event in events), sum(event.progress.input_rows for event in events))
        for name, events in reported.items()
    }
    assert found == {"orders": (2, 3), "checked": (1, 3)}
    assert all(events[-1].progress.phases_ms["add_batch"] > 0 for events in reported.values())


def test_a_stream_of_a_table_reports_that_it_has_read_everything(updated):
    pipeline, _ = updated
    (flow,) = [flow for flow in pipeline.project.status().flows if flow.flow == "checked"]

    assert [(lag.source, lag.commits, lag.rows, lag.oldest_unread_at) for lag in flow.table_lag] == [
        ("orders", 0, 0, None)
    ]


def test_the_monitoring_queries_of_the_documents_have_answers(updated):
    pipeline, reported = updated

    queries = pipeline.sql("SELECT id, name, status FROM system.streaming.queries ORDER BY name").to_json()
    progress = pipeline.sql(
        "SELECT query_id, batch_id, input_rows, processed_rows_per_second, batch_duration_ms "
        f"FROM system.streaming.query_progress WHERE query_id = '{reported['orders'][-1].query_id}' "
        "ORDER BY batch_id DESC LIMIT 20"
    ).to_json()

    assert [(row["name"], row["status"]) for row in queries] == [("checked", "STOPPED"), ("orders", "STOPPED")]
    assert (progress[0]["batch_id"], sum(row["input_rows"] for row in progress)) == (1, 3)
    assert progress[0]["processed_rows_per_second"] > 0


def test_an_update_whose_process_is_gone_is_lost_for_every_reader(updated):
    pipeline, reported = updated
    path = str(pipeline.folder / "storage" / "system" / "events")
    with EventLog(path, origin=Origin("p", "p", "dead"), clock=now, new_id=lambda: str(uuid.uuid4())) as log:
        log.emit(UpdateCreated("USER_ACTION"))
        log.emit(FlowStateChanged("orders", "orders", FlowState.RUNNING))
        log.emit(replace(reported["orders"][-1], run_id="another"))

    states = {
        name: pipeline.sql(f"SELECT {column} AS state FROM {name} WHERE update_id = 'dead'").to_json()
        for name, column in (
            ("event_log_updates", "state"),
            ("event_log_flows", "state"),
            ("system.streaming.queries", "status"),
        )
    }

    assert list(states.values()) == [[{"state": "LOST"}]] * 3


def test_the_tasks_of_a_long_batch_are_reported_for_every_kind_of_flow(shared_project, monkeypatch):
    monkeypatch.setattr(long_batches, "LONG_BATCH_S", 0.0)
    monkeypatch.setattr(task_reporter, "POLL_INTERVAL_S", 0.1)
    pipeline = shared_project(LONG)
    pipeline.land("landing/1.json", [{"id": 1}])
    reported = {}

    def release(event):
        # A stream may also run jobs before its first batch.
        if isinstance(event, BatchRunning) and (event.flow == "view" or event.batch.batch_id is not None):
            reported.setdefault(event.flow, event.batch)
            (pipeline.folder / f"{event.flow}.released").touch()

    outcome = pipeline.run(on_event=release)

    assert outcome.state is UpdateState.COMPLETED
    assert {flow: batch.batch_id for flow, batch in reported.items()} == {"plain": 0, "checked": 0, "view": None}
    assert all(0 <= batch.done <= batch.tasks for batch in reported.values())
    assert [flow.batch for flow in pipeline.project.status().flows] == [None] * 3
