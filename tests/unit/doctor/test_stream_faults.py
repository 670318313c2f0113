"""Faults that streams report, and that their program text shows: each is named first, and its edit ends it."""

from __future__ import annotations

import shutil
from datetime import timedelta

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.unit.doctor.conftest import DEFINED, LATER, PROGRAM, SETTINGS, START, first, program, without_checkpoint

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
from headrace.model.outcome import FlowCounts, FlowState, PartitionLag
from headrace.model.stream_progress import OperatorProgress, StreamBatches
from headrace.settings.vendor_confs import STATE_PROVIDER

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


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

    finding, names = first(shop)

    assert (names, finding.severity.value) == (["state-unbounded"], "advice")


def test_alerts_that_do_not_arrive_are_no_monitoring(shop):
    shop.update(Warned("ALERTS.NOT_DELIVERED", 'channel "ops" does not answer'), at=LATER)

    finding, names = first(shop)

    assert (names, finding.severity.value) == (["no-monitoring"], "warning")


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


def test_an_edit_of_a_line_with_a_secret_is_not_shown(shop, capsys):
    reads_topic(shop, limit='.option("kafka.ssl.key.password", "b4d-s3cret").option("failOnDataLoss", "false")')
    late = Warned("FLOW.WATERMARK_STUCK", "no input", "orders", "orders")
    shop.update(late, at=LATER + timedelta(minutes=1))
    shop.write("pipeline.yml", f"{SETTINGS}spark_conf: {{spark.hadoop.fs.s3a.secret.key: b4d-s3cret}}\n")

    findings = {finding.check.check_id: finding for finding in shop.diagnosis().findings}

    assert [findings[name].edit for name in ("data-lost", "watermark-stuck")] == [None, None]
    call(["--project", str(shop.folder), "doctor"])
    assert "b4d-s3cret" not in capsys.readouterr().out


def test_the_edit_for_a_notebook_with_magics_ends_its_finding(shop):
    text = "# Databricks notebook source\n%pip install x\n\n# COMMAND ----------\n\n"
    shop.write("transformations/orders.py", text + PROGRAM.replace('("raw")', '("raw").dropDuplicates(["event_time"])'))

    finding, names = first(shop)

    assert names == ["state-unbounded"]
    shop.apply(finding.edit)
    assert shop.checks() == []
