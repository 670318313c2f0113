"""Progress of streams: in the event log, and as the tables that documents query."""

from __future__ import annotations

import json
import re
import uuid
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.recorded_updates import heard

from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.system_tables import SYSTEM_TABLES
from headrace.events.types import (
    BatchDone,
    BatchRunning,
    FlowStateChanged,
    FlowTotal,
    StreamProgress,
    UpdateCreated,
    UpdateTotals,
)
from headrace.metrics import cost_metrics
from headrace.model.outcome import FlowCounts, FlowState, UpdateState
from headrace.runtime import long_batches
from headrace.spark.monitoring import task_reporter

pytestmark = pytest.mark.spark

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "system-tables.md"

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
    timings = [one for event in reported["orders"] for one in event.progress.each]
    assert [one.batch_id for one in timings] == [0, 1]
    assert sum(one.input_rows for one in timings) == 3


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


def test_every_batch_names_the_version_of_the_table_that_it_made_and_its_files(updated):
    pipeline, _ = updated
    body = "from_json(details, 'flow_progress struct<table_version: int, output_files: int, output_bytes: int>')"
    found = pipeline.sql(
        "SELECT flow, body.table_version AS version, body.output_files AS files, body.output_bytes AS size FROM "
        f"(SELECT origin.flow_name AS flow, {body}.flow_progress AS body FROM event_log "
        "WHERE origin.batch_id IS NOT NULL) ORDER BY 1, 2"
    ).to_json()

    # A flow with expectations is written by Headrace, the other one by Delta.
    assert [(row["flow"], row["version"]) for row in found] == [("checked", 1), ("orders", 1), ("orders", 2)]
    for row in found:
        commit = pipeline.folder / f"storage/tables/default/{row['flow']}/_delta_log/{row['version']:020}.json"
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        sizes = [action["add"]["size"] for action in actions if "add" in action]
        assert (row["files"], row["size"]) == (len(sizes), sum(sizes))


def test_system_tables_have_the_documented_columns(updated):
    pipeline, _ = updated
    found = {
        table.name: [
            (row["col_name"], row["data_type"].replace(" ", ""))
            for row in pipeline.sql(f"DESCRIBE SELECT * FROM {table.name}").to_json()
        ]
        for table in SYSTEM_TABLES
    }

    for table in SYSTEM_TABLES:
        documented = [(column.name, column.type) for column in table.columns]
        # The structs of an event are described with the event log.
        shown = [
            (name, "struct" if kind[:7] == "struct<" and kind not in dict(documented).values() else kind)
            for name, kind in found[table.name]
        ]
        assert shown == documented


@pytest.mark.parametrize("query", re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
def test_queries_of_the_reference_page_run(updated, query):
    pipeline, _ = updated

    assert pipeline.sql(query.strip().rstrip(";")).columns


def test_several_pipelines_are_queried_together_also_if_one_cannot_be_read(updated, tmp_path):
    pipeline, _ = updated
    (other := tmp_path / "other").mkdir()
    (other / "pipeline.yml").write_text("name: other\n")
    path = str(other / "storage" / "system" / "events")
    with EventLog(path, origin=Origin("p2", "other", "dead"), clock=now, new_id=lambda: str(uuid.uuid4())) as log:
        log.emit(UpdateCreated("USER_ACTION", user="ops"))
    (tmp_path / "never_run").mkdir()
    (tmp_path / "never_run" / "pipeline.yml").write_text("name: never_run\n")
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "pipeline.yml").write_text("nme: wrong\n")

    def ask(query):
        return [tuple(row) for row in pipeline.project.sql(query, also=[str(tmp_path), str(tmp_path / "gone")]).rows]

    pipelines = ask("SELECT name, problem IS NULL FROM system.lakeflow.pipelines")
    updates = ask(
        "SELECT pipeline_name, run_as_user_name, result_state FROM system.lakeflow.pipeline_update_timeline "
        "WHERE update_id = 'dead' AND pipeline_name = 'other'"
    )
    events = ask("SELECT DISTINCT pipeline_name FROM system.lakeflow.pipeline_events ORDER BY 1")

    assert sorted(pipelines, key=str) == sorted(
        [(pipeline.project.settings.name, True), ("other", True), ("never_run", True), (None, False), (None, False)],
        key=str,
    )
    assert updates == [("other", "ops", "LOST")]
    assert events == sorted([("other",), (pipeline.project.settings.name,)])


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


def test_rows_and_batches_of_a_flow_are_those_of_the_totals_and_of_batches_after_them(updated):
    """Version 0.1 recorded totals without the number of batches."""
    pipeline, _ = updated
    path = str(pipeline.folder / "storage" / "system" / "events")
    for update_id, batches in (("0.1", None), ("now", 2)):
        origin = Origin("p", "p", update_id)
        with EventLog(path, origin=origin, clock=now, new_id=lambda: str(uuid.uuid4())) as log:
            log.emit(UpdateCreated("USER_ACTION"))
            log.emit(FlowStateChanged("orders", "orders", FlowState.RUNNING))
            for number in (0, 1):
                log.emit(BatchDone("orders", "orders", 0, number, FlowCounts(rows_written=8)))
            log.emit(UpdateTotals((FlowTotal("orders", "orders", 0, 1, FlowCounts(16, 1, 2), batches),)))
            for number in (1, 2, 2):
                log.emit(BatchDone("orders", "orders", 0, number, FlowCounts(rows_written=4, rows_dropped=3)))

    found = pipeline.sql(
        "SELECT update_id, rows_written, rows_dropped, rows_quarantined, batches FROM event_log_flows "
        "WHERE update_id IN ('0.1', 'now') ORDER BY 1"
    ).to_json()

    assert [list(row.values()) for row in found] == [["0.1", 20, 4, 2, 3], ["now", 20, 4, 2, 3]]


def test_the_tasks_of_a_long_batch_are_reported_for_every_kind_of_flow(shared_project, monkeypatch):
    monkeypatch.setattr(long_batches, "LONG_BATCH_S", 0.0)
    monkeypatch.setattr(task_reporter, "POLL_INTERVAL_S", 0.1)
    pipeline = shared_project(LONG)
    pipeline.land("landing/1.json", [{"id": 1}])
    reported, times = {}, {}

    def release(event):
        match event:
            case StreamProgress(flow=flow, progress=progress):
                times[flow] = progress.executor_time
            case BatchDone(flow="view", executor_time=found):
                times["view"] = found
        # A stream may also run jobs before its first batch.
        if isinstance(event, BatchRunning) and (event.flow == "view" or event.batch.batch_id is not None):
            reported.setdefault(event.flow, event.batch)
            (pipeline.folder / f"{event.flow}.released").touch()

    outcome = pipeline.run(on_event=release)

    assert outcome.state is UpdateState.COMPLETED
    assert {flow: batch.batch_id for flow, batch in reported.items()} == {"plain": 0, "checked": 0, "view": None}
    assert all(0 <= batch.done <= batch.tasks for batch in reported.values())
    # Each has a task that waits for its release, in a process of Python.
    assert {flow for flow, found in times.items() if 0 <= found.cpu_ms <= found.run_ms > 0} == reported.keys()
    assert set(pipeline.project.metrics(tables=False).of(cost_metrics.EXECUTOR_RUN)) == {(flow,) for flow in reported}
    assert [flow.batch for flow in pipeline.project.status().flows] == [None] * 3
