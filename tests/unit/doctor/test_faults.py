"""Each fault of a runbook, done to a storage: the doctor names it first, and its command or its edit ends it."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from tests.unit.doctor.conftest import DEFINED, PROGRAM, SETTINGS, START

from headrace.alerts.history import History
from headrace.alerts.store import StoredAlerts, write_alerts
from headrace.cli.main import call
from headrace.events.levels import Level
from headrace.events.types import (
    BatchDone,
    DatasetDefined,
    ExternalInput,
    FlowDefined,
    FlowLagMetrics,
    FlowStateChanged,
    StreamProgress,
    Warned,
)
from headrace.metrics import catalogue
from headrace.metrics.samples import Samples
from headrace.model.datasets import Kind
from headrace.model.outcome import FlowCounts, FlowState, PartitionLag, UpdateState
from headrace.model.stream_progress import OperatorProgress, StreamBatches
from headrace.settings.vendor_confs import STATE_PROVIDER
from headrace.storage.flow_record import read_record, write_record
from headrace.storage.spill_queue import BatchToSpill, spill_batch, spill_folders

LATER = START + timedelta(minutes=1)
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


def first(shop):
    """The first finding, and the names of all."""
    findings = shop.diagnosis().findings
    return findings[0], [finding.check.check_id for finding in findings]


def failed(code, message="it broke", **error):
    return FlowStateChanged("orders", "orders", FlowState.FAILED, error={"code": code, "message": message, **error})


def program(shop, text):
    shop.write(
        "transformations/orders.py",
        f"from headrace import pipelines as dp\nfrom pyspark.sql import functions as F\n{text}",
    )


def test_a_healthy_pipeline_has_no_finding(shop):
    diagnosis = shop.diagnosis()

    assert (diagnosis.findings, diagnosis.unread, diagnosis.next_step) == ((), (), None)


def torn(shop):
    (shop.flow_folder / "0" / "commits" / "1").write_text("")


def test_the_command_for_a_torn_checkpoint_repairs_it(shop):
    torn(shop)

    finding, names = first(shop)

    assert (names, finding.flow, finding.safe) == (["checkpoint-torn"], "orders", True)
    assert shop.run(finding.command) == 0
    assert shop.checks() == []


def damaged(shop):
    (shop.flow_folder / "0" / "metadata").write_text("{")


def missing(shop):
    shutil.rmtree(shop.flow_folder / "0")


def without_folder(shop):
    shutil.rmtree(shop.flow_folder)


def restored_from_a_copy(shop):
    for folder in ("offsets", "commits"):
        (shop.flow_folder / "0" / folder / "1").unlink()


def without_rows(shop):
    """The table as it was a batch before."""
    (Path(shop.orders) / "_delta_log" / f"{1:020}.json").unlink()


def torn_state(shop):
    store = shop.flow_folder / "0" / "state" / "0" / "0"
    store.mkdir(parents=True)
    for version in (1, 2):
        (store / f"{version}_ab.changelog").write_bytes(b"x" if version == 1 else b"")


def read_again(shop):
    """The flow has started over in another epoch, and its table kept the rows."""
    write_record(shop.flow_folder / "flow.json", record_of(shop, epoch=1, first_epoch=0))
    shop.plans(0, epoch=1)
    shop.commits(0, epoch=1)


def record_of(shop, **changes):
    return replace(read_record(shop.flow_folder / "flow.json"), **changes)


def recompute(shop, flow):
    """The flow has a record, and needs no checkpoint."""
    file = shop.flow_folder.parents[1] / flow / flow / "flow.json"
    write_record(file, record_of(shop, flow=flow, dataset=flow, mode="replace"))


def without_checkpoint(shop):
    recompute(shop, "orders")
    shutil.rmtree(shop.flow_folder / "0")


def slow_source(shop):
    shop.update(
        failed("KAFKA.UNREACHABLE", "no Kafka broker answers", hint="Check the network."),
        state=UpdateState.FAILED,
        at=LATER,
    )


def lost_offsets(shop):
    shop.update(Warned("KAFKA.OFFSETS_LOST", 'flow "orders": lost 5 records', "orders", "orders"), at=LATER)


@pytest.mark.parametrize(
    ("fault", "check", "command"),
    [
        (damaged, "checkpoint-torn", "headrace run --full-refresh orders"),
        (missing, "checkpoint-missing", "headrace run --full-refresh orders"),
        (without_folder, "checkpoint-missing", "headrace run --full-refresh orders"),
        (restored_from_a_copy, "checkpoint-behind-table", "headrace run --full-refresh orders"),
        (without_rows, "data-lost", "headrace run --full-refresh orders"),
        (torn_state, "state-torn", "headrace run --full-refresh orders"),
        (read_again, "duplicates", "headrace run --full-refresh orders"),
        (slow_source, "source-unavailable", "headrace run"),
        (lost_offsets, "data-lost", None),
    ],
)
def test_a_fault_of_the_storage_is_named_first_with_its_command(shop, fault, check, command):
    fault(shop)

    finding, names = first(shop)

    assert (names, finding.flow, finding.command) == ([check], "orders", command)
    assert finding.safe == (command == "headrace run")


def test_the_edit_for_missing_monitoring_names_a_channel(shop):
    shop.write("pipeline.yml", "name: shop\n")

    finding, names = first(shop)

    assert names == ["no-monitoring"]
    shop.apply(finding.edit)
    assert shop.checks() == []


def test_the_edit_for_two_pipelines_in_one_storage_gives_one_of_them_its_own(shop):
    for number, pipeline in enumerate(("q", "p")):
        shop.update(pipeline=pipeline, at=LATER + timedelta(minutes=number))

    finding, names = first(shop)

    assert names == ["checkpoint-shared"]
    shop.apply(finding.edit)
    assert shop.settings.storage == str(shop.folder / "storage-shop")
    assert shop.checks() == []


def test_a_folder_of_checkpoints_that_is_a_link_to_another_is_shared(shop):
    other = shop.flow_folder.parent / "copy"
    other.symlink_to(shop.flow_folder)

    assert first(shop)[1][0] == "checkpoint-shared"


def test_the_edit_for_a_storage_in_memory_moves_it_to_a_disk(shop):
    shop.write("pipeline.yml", f"{SETTINGS}storage: memory/storage\n")

    finding, names = first(shop)

    assert (names, finding.edit.text) == (["checkpoint-volatile"], "storage: storage")
    shop.apply(finding.edit)
    assert shop.checks() == []


OUT_OF_MEMORY = """\
{at} ERROR Executor: Exception in task 0.0 in stage 3.0 (TID 7)
java.lang.OutOfMemoryError: Java heap space
\tat java.base/java.util.Arrays.copyOf(Arrays.java:3537)
"""


def test_the_edit_for_java_that_ran_out_of_memory_gives_it_more(shop):
    logs = shop.storage / "system" / "logs"
    logs.mkdir()
    at = LATER.astimezone().strftime("%Y-%m-%d %H:%M:%S.123")
    (logs / "spark.log").write_text(OUT_OF_MEMORY.format(at=at))
    assert shop.checks() == ["memory-tight"]
    # The kernel kills the process, which records no end.
    shop.update(state=None, at=LATER, config={"driver_memory_bytes": 2 << 30})

    finding, names = first(shop)

    assert names == ["memory-tight"]
    assert ("Java heap space" in finding.evidence, "process of the update is gone" in finding.evidence) == (True, True)
    shop.apply(finding.edit)
    assert shop.settings.spark_conf == {"spark.driver.memory": "4g"}
    assert shop.checks() == []


def test_an_error_of_java_before_the_latest_update_is_no_finding(shop):
    logs = shop.storage / "system" / "logs"
    logs.mkdir()
    at = (START - timedelta(hours=1)).astimezone().strftime("%Y-%m-%d %H:%M:%S.123")
    (logs / "spark.log").write_text(OUT_OF_MEMORY.format(at=at))

    assert shop.checks() == []


def test_an_update_whose_process_is_gone_may_have_run_out_of_memory(shop):
    shop.update(state=None, at=LATER)

    finding, names = first(shop)

    assert (names, finding.command, finding.safe) == (["memory-tight"], "headrace run", True)


def test_records_that_fail_a_flow_get_dead_letters_by_an_edit(shop):
    shop.update(
        failed("FLOW.USER_CODE", 'user code of flow "orders" raised an error'), state=UpdateState.FAILED, at=LATER
    )

    finding, names = first(shop)

    assert (names, finding.severity.value, finding.command) == (["errors-unhandled"], "error", "headrace run")
    shop.apply(finding.edit)
    assert shop.settings.on_failing_rows.accepts_rows


def test_new_fields_that_a_reader_refuses_are_accepted_after_an_edit(shop):
    reader = '.option("cloudFiles.schemaEvolutionMode", "failOnNewColumns")'
    shop.write("transformations/orders.py", PROGRAM.replace(".load(", f"{reader}.load("))
    error = {"code": "AUTO_LOADER.NEW_FIELDS_REFUSED", "message": "new fields: note"}
    shop.update(FlowStateChanged("raw", "raw", FlowState.FAILED, error=error), state=UpdateState.FAILED, at=LATER)

    finding, names = first(shop)

    assert (names, finding.flow, finding.command) == (["schema-mismatch"], "raw", "headrace run")
    shop.apply(finding.edit)
    assert '"cloudFiles.schemaEvolutionMode", "addNewColumns"' in (shop.folder / finding.edit.file).read_text()


def test_values_that_the_schema_cannot_hold_are_a_mismatch(shop):
    rows = FlowCounts(100, rows_rescued=6)
    recompute(shop, "raw")
    shop.update(BatchDone("raw", "raw", 0, 7, rows), at=LATER)

    finding, names = first(shop)

    assert (names, finding.dataset, "6.0%" in finding.evidence, finding.safe) == (
        ["schema-mismatch"],
        "raw",
        True,
        True,
    )


WINDOWS = """
@dp.table
def raw():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("landing")


@dp.table
@dp.expect("counted", "count > 0")
def orders():
    return spark.readStream.table("raw").withWatermark("at", "10 seconds").groupBy(F.window("at", "1 hour")).count()
"""


def late(shop, code, level=Level.WARN):
    program(shop, WINDOWS)
    shop.update(Warned(code, f'flow "orders": {code}', "orders", "orders", level), at=LATER)


def test_the_edit_for_late_rows_has_the_delay_that_keeps_them(shop):
    shutil.rmtree(shop.raw)
    for seconds in ([0, 100], [40, 200], [130, 300]):
        times = pa.array([int((START.timestamp() + s) * 1e6) for s in seconds], pa.timestamp("us", "UTC"))
        write_deltalake(shop.raw, pa.table({"at": times}), mode="append")
    without_checkpoint(shop)
    late(shop, "FLOW.ROWS_TOO_LATE", Level.ERROR)

    finding, names = first(shop)

    assert (names, finding.severity.value, finding.command) == (
        ["late-dropped"],
        "error",
        "headrace run --full-refresh orders",
    )
    shop.apply(finding.edit)
    # 70 seconds behind 200, and a watermark drops rows that are exactly as late as its delay.
    assert 'withWatermark("at", "2 minutes")' in (shop.folder / finding.edit.file).read_text()


def test_late_rows_are_found_for_a_day_or_until_the_table_is_read_again(shop):
    late(shop, "FLOW.ROWS_TOO_LATE", Level.ERROR)
    shop.update(at=LATER + timedelta(minutes=1))
    assert shop.checks() == ["late-dropped"]
    shop.now += timedelta(days=1)
    assert shop.checks() == []
    shop.now -= timedelta(days=1)

    shop.update(Warned("TABLE.CLEARED", "full refresh", None, "orders"), at=LATER + timedelta(minutes=2))

    assert shop.checks() == []


def test_the_edit_for_times_in_the_future_leaves_such_rows_out(shop):
    late(shop, "FLOW.TIME_AHEAD")

    finding, names = first(shop)

    assert names == ["time-ahead"]
    shop.apply(finding.edit)
    changed = (shop.folder / finding.edit.file).read_text()
    assert '.table("raw").filter("`at` <= current_timestamp() + INTERVAL 1 HOUR").withWatermark(' in changed


def test_the_edit_for_a_stuck_watermark_lets_it_follow_the_fastest_input(shop):
    late(shop, "FLOW.WATERMARK_STUCK")

    finding, names = first(shop)

    assert names == ["watermark-stuck"]
    shop.apply(finding.edit)
    assert shop.settings.spark_conf == {"spark.sql.streaming.multipleWatermarkPolicy": "max"}


@pytest.mark.parametrize(
    ("query", "becomes"),
    [
        ('.groupBy(F.window("at", "1 hour")).count()', '.withWatermark("at", "10 minutes").groupBy(F.window("at"'),
        ('.dropDuplicates(["id"])', '.withWatermark("at", "1 hour").dropDuplicatesWithinWatermark(["id"])'),
    ],
)
def test_the_edit_for_state_without_a_bound_adds_a_watermark(shop, query, becomes):
    program(
        shop, WINDOWS.replace('.withWatermark("at", "10 seconds").groupBy(F.window("at", "1 hour")).count()', query)
    )
    schema = {"type": "struct", "fields": [{"name": "at", "type": "timestamp"}, {"name": "id", "type": "long"}]}
    shop.update(at=LATER, defined=(DatasetDefined("raw", Kind.STREAMING_TABLE, schema=schema), *DEFINED[1:]))

    finding, names = first(shop)

    assert (names, finding.dataset) == (["state-unbounded"], "orders")
    shop.apply(finding.edit)
    assert becomes in (shop.folder / finding.edit.file).read_text()
    assert shop.checks() == []


def test_a_table_that_each_batch_replaces_has_state_without_a_bound(shop):
    shop.update(Warned("FLOW.COMPLETE_MODE", "aggregates a stream without a watermark", "orders", "orders"), at=LATER)

    assert shop.checks() == ["state-unbounded"]


def test_the_edit_for_state_in_the_memory_of_java_removes_the_setting(shop):
    shop.write("pipeline.yml", f"{SETTINGS}spark_conf:\n  {STATE_PROVIDER}: {HDFS}\n")
    shop.plans(1, conf={STATE_PROVIDER: HDFS})
    (shop.flow_folder / "0" / "state" / "0").mkdir(parents=True)

    finding, names = first(shop)

    assert (names, finding.command) == (["state-not-rocksdb"], "headrace run --full-refresh orders")
    shop.apply(finding.edit)
    assert shop.settings.spark_conf == {}


def progress(batch, duration_ms=100, rows_total=None, phases=None):
    state = OperatorProgress("dedupe", "deduplication", rows_total, 5, 0, 0, 0, 1 << 20, 9)
    operators = (state,) if rows_total else ()
    done = StreamBatches(batch, 1, START, duration_ms, phases or {"add_batch": duration_ms}, 10, operators=operators)
    return StreamProgress("orders", "orders", 0, "q", "r", done)


def test_state_that_grows_while_nothing_is_removed_is_found(shop):
    shop.update(*(progress(n, rows_total=60_000 * (n + 1)) for n in range(5)), at=LATER)

    finding, names = first(shop)

    assert (names, "300,000 rows" in finding.evidence) == (["state-grows"], True)


def test_the_edit_for_batches_that_take_longer_than_their_interval_makes_it_longer(shop):
    shop.write("pipeline.yml", f"{SETTINGS}configuration: {{pipelines.trigger.interval: 10 seconds}}\n")
    every = (*DEFINED[:3], FlowDefined("orders", "orders", ("raw",), trigger="every 10 s"))
    slow = {"latest_offset": 1000, "add_batch": 29_000}
    shop.update(*(progress(n, 30_000, phases=slow) for n in range(2)), at=LATER, defined=every)
    # Two batches at the start say nothing.
    assert shop.checks() == []
    shop.update(*(progress(n, 30_000, phases=slow) for n in range(3)), at=LATER, defined=every)

    finding, names = first(shop)

    assert (names, "slowest phase: add_batch" in finding.evidence) == (["batch-slow"], True)
    shop.apply(finding.edit)
    assert shop.settings.trigger_interval_s == 45


def test_a_batch_that_takes_much_longer_than_usual_is_slow(shop):
    shop.update(*(progress(n, 4000) for n in range(5)), progress(5, 13_000), at=LATER)

    assert shop.checks() == ["batch-slow"]


KAFKA = """
@dp.table
@dp.expect("known", "value IS NOT NULL")
def orders():
    return (
        spark.readStream.format("kafka")
        .option("subscribe", "orders"){limit}
        .load()
    )
"""


def reads_topic(shop, *events, limit="", **update):
    without_checkpoint(shop)
    program(shop, KAFKA.format(limit=limit))
    topic = ExternalInput("stream", "orders")
    defined = (DEFINED[1], FlowDefined("orders", "orders", external_inputs=(topic,)))
    shop.update(*events, at=LATER, defined=defined, **update)


def test_the_edit_for_a_reader_without_a_limit_adds_one(shop):
    batches = [BatchDone("orders", "orders", 1, n, FlowCounts(20_000 if n == 0 else 30)) for n in range(4)]
    reads_topic(shop, *batches)

    finding, names = first(shop)

    assert (names, finding.flow) == (["no-rate-limit"], "orders")
    shop.apply(finding.edit)
    assert '.option("maxOffsetsPerTrigger", 300).load()' in (shop.folder / finding.edit.file).read_text()
    assert shop.checks() == []


def test_the_edit_for_a_backlog_that_grows_while_the_flow_waits_raises_its_limit(shop):
    behind = [FlowLagMetrics("orders", "orders", (PartitionLag("orders", 0, 0, n),)) for n in (10, 40, 90)]
    running = FlowStateChanged("orders", "orders", FlowState.RUNNING)
    shop.hold_lease()
    reads_topic(
        shop, running, progress(0), *behind, limit='.option("maxOffsetsPerTrigger", 100)', state=None, step_s=30
    )

    finding, names = first(shop)

    assert (names, "from 10 to 40 to 90" in finding.evidence) == (["backlog-grows"], True)
    assert "waiting for input" in finding.evidence
    shop.apply(finding.edit)
    assert '"maxOffsetsPerTrigger", 1000' in (shop.folder / finding.edit.file).read_text()


def test_a_source_that_hides_lost_records_is_advised_against(shop):
    reads_topic(shop, limit='.option("failOnDataLoss", "false")')

    finding, names = first(shop)

    assert (names, finding.severity.value, shop.diagnosis().is_healthy) == (["data-lost"], "advice", True)
    shop.apply(finding.edit)
    assert shop.checks() == []


def test_the_edit_for_ingestion_without_a_net_turns_on_dead_letters(shop):
    plain = DatasetDefined("orders", Kind.STREAMING_TABLE)
    program(shop, KAFKA.format(limit="").replace('@dp.expect("known", "value IS NOT NULL")\n', ""))
    topic = FlowDefined("orders", "orders", external_inputs=(ExternalInput("stream", "orders"),))
    shop.update(at=LATER, defined=(plain, topic))

    finding, names = first(shop)

    assert (names, finding.severity.value) == (["errors-unhandled"], "advice")
    shop.apply(finding.edit)
    assert shop.checks() == []


def checked_before(shop, **values):
    """An earlier check of alerts, ten minutes ago."""
    samples = Samples()
    for name, (labels, value) in values.items():
        samples.set(getattr(catalogue, name), value, *labels)
    before = (shop.now - timedelta(minutes=40)).timestamp()
    write_alerts(shop.storage / "system" / "alerts.json", StoredAlerts(history=History().with_current(samples, before)))


def test_rules_of_alerts_measure_increases_since_their_last_check(shop):
    checked_before(shop, STATE_BYTES=(("orders", "deduplication"), 0.5e9))
    state = OperatorProgress("dedupe", "deduplication", None, 5, 0, 0, 0, 2_000_000_000, 9)
    done = StreamBatches(0, 1, START, 100, {}, 10, operators=(state,))
    shop.update(StreamProgress("orders", "orders", 0, "q", "r", done), at=LATER)

    assert first(shop)[1] == ["state-grows"]


def test_many_small_files_are_found_with_the_limit_of_the_alert(shop):
    shop.write("pipeline.yml", f"{SETTINGS}  rules: {{small_files: {{threshold: 1}}}}\n")

    findings = shop.diagnosis().findings

    assert [(one.check.check_id, one.dataset, one.command) for one in findings] == [
        ("small-files", "raw", "headrace maintain raw"),
        ("small-files", "orders", "headrace maintain orders"),
    ]


def test_batches_that_wait_for_a_sink_are_found(shop):
    queue = spill_folders(shop.flow_folder, "orders")["orders"]
    write = partial(pq.write_table, pa.table({"id": [1, 2]}))
    spill_batch(queue, BatchToSpill("t", 2, 5), lambda folder: folder.mkdir() or write(folder / "a.parquet"), int)

    finding, names = first(shop)

    assert (names, finding.evidence) == (["sink-behind"], '1 batch with 2 rows wait for sink "orders" of flow "orders"')


def test_the_command_for_old_epochs_removes_them(shop):
    for epoch in (1, 2):
        shutil.copytree(shop.flow_folder / "0", shop.flow_folder / str(epoch))
        shop.commits(1, epoch=epoch)
    write_record(shop.flow_folder / "flow.json", record_of(shop, epoch=2, first_epoch=2))

    finding, names = first(shop)

    assert (names, finding.safe) == (["old-epochs"], True)
    assert shop.run(finding.command) == 0
    assert shop.checks() == []


def test_the_command_for_unused_files_removes_them(shop):
    write_deltalake(shop.raw, pa.table({"id": [7]}), mode="overwrite")
    recompute(shop, "raw")
    without_checkpoint(shop)
    for file in Path(shop.raw).rglob("*"):
        old = (shop.now - timedelta(days=40)).timestamp()
        os.utime(file, (old, old))

    finding, names = first(shop)

    assert (names, finding.dataset, finding.safe) == (["unvacuumed"], "raw", True)
    assert shop.run(finding.command) == 0
    assert shop.checks() == []


def test_what_cannot_be_read_is_not_healthy(shop):
    log = shop.storage / "system" / "events" / "_delta_log"
    max(log.glob("*.json")).write_text("{")

    diagnosis = shop.diagnosis()

    assert (diagnosis.findings, diagnosis.is_healthy) == ((), False)
    assert diagnosis.next_step.startswith("Check that the storage is readable")


@pytest.mark.parametrize("name", ["orders", "ORDERS", "default.`orders`", "new_table"])
def test_a_dataset_is_known_in_each_form_of_its_name_and_before_it_has_run(shop, name):
    torn(shop)
    shop.write("transformations/new.py", "@dp.table\ndef new_table():\n    return spark.table('raw')\n")

    assert len(shop.diagnosis(name).findings) == (name != "new_table")


def test_an_edit_of_a_line_with_a_secret_is_not_shown(shop, capsys):
    reads_topic(shop, limit='.option("kafka.ssl.key.password", "b4d-s3cret").option("failOnDataLoss", "false")')
    late = Warned("FLOW.WATERMARK_STUCK", "no input", "orders", "orders")
    shop.update(late, at=LATER + timedelta(minutes=1))
    shop.write("pipeline.yml", f"{SETTINGS}spark_conf: {{spark.hadoop.fs.s3a.secret.key: b4d-s3cret}}\n")

    findings = {finding.check.check_id: finding for finding in shop.diagnosis().findings}

    assert [findings[name].edit for name in ("data-lost", "watermark-stuck")] == [None, None]
    call(["--project", str(shop.folder), "doctor"])
    assert "b4d-s3cret" not in capsys.readouterr().out


def test_a_flow_that_is_retried_has_no_command_while_its_update_runs(shop):
    shop.hold_lease()
    error = {"code": "KAFKA.UNREACHABLE", "message": "no Kafka broker answers"}
    shop.update(FlowStateChanged("orders", "orders", FlowState.RETRYING, error=error), state=None, at=LATER)

    finding, names = first(shop)

    assert (names, finding.severity.value, finding.command) == (["source-unavailable"], "warning", None)


def test_a_notebook_with_magics_has_findings_without_edits(shop):
    text = "# Databricks notebook source\n%pip install x\n\n# COMMAND ----------\n\n"
    shop.write("transformations/orders.py", text + PROGRAM.replace('("raw")', '("raw").dropDuplicates(["event_time"])'))

    finding, names = first(shop)

    assert (names, finding.edit) == (["state-unbounded"], None)


def test_the_verb_exits_with_1_and_its_json_has_the_next_command(shop, capsys):
    torn(shop)

    code = call(["--project", str(shop.folder), "--output", "json", "doctor", "orders"])

    document = json.loads(capsys.readouterr().out)
    assert (code, document["next"]) == (1, "headrace checkpoints repair orders")
    assert document["findings"][0].keys() == {
        *("check", "severity", "flow", "dataset", "evidence", "remedy", "command", "edit", "safe", "document")
    }


def test_an_unknown_flow_is_refused_with_a_suggestion(shop, capsys):
    code = call(["--project", str(shop.folder), "doctor", "order"])

    shown = capsys.readouterr().err
    assert (code, "DOCTOR.UNKNOWN" in shown, '"orders"' in shown) == (2, True, True)
