"""Checkpoints keep the format of their state: those made elsewhere, and those of flows that ask for another one."""

from __future__ import annotations

import json
import shutil

import pytest
from pyspark.sql import functions as F

from headrace.model.outcome import UpdateState
from headrace.model.state_rows import StateRequest
from headrace.spark.session.scoped_confs import with_confs

pytestmark = pytest.mark.spark

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
VERSION = "spark.sql.streaming.stateStore.checkpointFormatVersion"
PACKAGE = "org.apache.spark.sql.execution.streaming.state"
HDFS, ROCKSDB = f"{PACKAGE}.HDFSBackedStateStoreProvider", f"{PACKAGE}.RocksDBStateStoreProvider"
FORMATS = {
    "HDFS, 1": {PROVIDER: HDFS, VERSION: "1"},
    "RocksDB, 1": {PROVIDER: ROCKSDB, VERSION: "1"},
    "RocksDB, 2": {PROVIDER: ROCKSDB, VERSION: "2"},
}
KINDS = [
    "HDFS, 1",
    pytest.param("RocksDB, 1", marks=pytest.mark.long(guard="its other cases")),
    pytest.param("RocksDB, 2", marks=pytest.mark.long(guard="its other cases")),
]
TOTALS = """
    @dp.table
    def totals():
        rows = spark.readStream.schema("k STRING, n INT").json(spark.conf.get("landing"))
        return rows.groupBy("k").agg(F.sum("n").alias("n"))
    """


def land(folder, name, n):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({"k": "a", "n": n}))


def in_use(checkpoint):
    """The provider and the version that the newest batch of a checkpoint was written with."""
    newest = max(checkpoint.joinpath("commits").glob("[0-9]*"), key=lambda file: int(file.name))
    planned = (checkpoint / "offsets" / newest.name).read_text().split("\n")
    return {PROVIDER: json.loads(planned[1])["conf"][PROVIDER], VERSION: newest.read_text()[1:2]}


@pytest.fixture
def elsewhere(headrace_session, tmp_path):
    """Makes a checkpoint of a sum as plain Spark does, under some settings."""

    def make(confs):
        rows = headrace_session.readStream.schema("k STRING, n INT").json(str(tmp_path / "in"))
        with with_confs(headrace_session, confs):
            writer = rows.groupBy("k").agg(F.sum("n").alias("n")).writeStream.outputMode("complete")
            writer = writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True)
            writer.foreachBatch(lambda rows, _number: rows.collect()).start().awaitTermination()

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_a_script_continues_from_a_checkpoint_created_by_plain_spark(scripts, elsewhere, tmp_path, kind):
    land(tmp_path / "in", "a.json", 1)
    elsewhere(FORMATS[kind])
    assert in_use(tmp_path / "ck") == FORMATS[kind]
    land(tmp_path / "in", "b.json", 2)

    names = scripts.run(f"""
        from pyspark.sql import functions as F
        found = []
        rows = spark.readStream.schema("k STRING, n INT").json({str(tmp_path / "in")!r})
        (rows.groupBy("k").agg(F.sum("n").alias("n")).writeStream.outputMode("complete").trigger(availableNow=True)
            .option("checkpointLocation", {str(tmp_path / "ck")!r})
            .foreachBatch(lambda batch, number: found.extend(batch.collect())).start().awaitTermination())
    """)

    assert [tuple(row) for row in names["found"]] == [("a", 3)]
    assert in_use(tmp_path / "ck") == FORMATS[kind]


@pytest.mark.long(
    guard=(
        "tests/spark/test_state_formats.py::test_a_script_continues_from_a_checkpoint_created_by_plain_spark",
        "tests/spark/test_state_formats.py::test_a_flow_keeps_the_state_store_provider_that_it_started_with",
    )
)
def test_a_script_can_select_another_state_store_provider(scripts, tmp_path):
    land(tmp_path / "in", "a.json", 1)

    scripts.run(f"""
        spark.conf.set("{PROVIDER}", "{HDFS}")
        rows = spark.readStream.schema("k STRING, n INT").json({str(tmp_path / "in")!r})
        (rows.groupBy("k").count().writeStream.outputMode("complete").trigger(availableNow=True)
            .option("checkpointLocation", {str(tmp_path / "ck")!r}).toTable("totals").awaitTermination())
    """)

    assert in_use(tmp_path / "ck") == FORMATS["HDFS, 1"]


@pytest.fixture
def totals(project):
    """A pipeline that keeps a sum, with some settings of its flow."""

    def make(**confs):
        text = TOTALS.replace("@dp.table", f"@dp.table(spark_conf={confs!r})") if confs else TOTALS
        pipeline = project(text)
        land(pipeline.folder / "landing", "a.json", 1)
        settings = pipeline.folder / "pipeline.yml"
        settings.write_text(settings.read_text() + f"\nconfiguration:\n  landing: {pipeline.folder / 'landing'}\n")
        return type(pipeline)(pipeline.folder, pipeline.folder / "storage", {})

    return make


def checkpoint_of(pipeline):
    return pipeline.folder / "storage" / "checkpoints" / "default" / "totals" / "totals" / "0"


def explained_size(pipeline):
    """About how many bytes of state there are, as it is explained."""
    explained = pipeline.project.explain("totals")
    assert "keeps state  aggregate by k: sum(n) (about " in explained.describe()
    (size,) = explained.flows[0].state_bytes
    return size


def test_a_flow_uses_the_newest_state_format_and_explain_shows_the_state_size(totals):
    pipeline = totals()
    assert pipeline.project.explain("totals").flows[0].state_bytes == ()

    assert pipeline.run().state is UpdateState.COMPLETED

    assert in_use(checkpoint_of(pipeline)) == FORMATS["RocksDB, 2"]
    assert 20 < explained_size(pipeline) < 10_000


def test_a_flow_keeps_the_state_store_provider_that_it_started_with(totals):
    pipeline = totals(**{PROVIDER: HDFS})
    pipeline.run()
    assert 20 < explained_size(pipeline) < 10_000
    file = pipeline.folder / "transformations" / "project.py"
    file.write_text(file.read_text().replace(f"spark_conf={{'{PROVIDER}': '{HDFS}'}}", ""))
    land(pipeline.folder / "landing", "b.json", 2)

    result = pipeline.run()

    assert result.rows("totals") == [{"k": "a", "n": 3}]
    assert in_use(checkpoint_of(pipeline)) == FORMATS["HDFS, 1"]
    shown = pipeline.project.checkpoints().state(StateRequest("totals"), pipeline.project.session)
    assert shown.rows.to_json() == [{"k": "a", "sum": 3}]


@pytest.mark.long(
    guard=(
        "tests/spark/test_notebook_session.py::test_vendor_settings_are_translated_to_spark_settings",
        "tests/spark/test_state_formats.py::test_a_flow_uses_the_newest_state_format_and_explain_shows_the_state_size",
    )
)
def test_the_vendor_state_store_provider_is_replaced_by_that_of_spark(totals):
    pipeline = totals(**{PROVIDER: "com.databricks.sql.streaming.state.RocksDBStateStoreProvider"})

    assert pipeline.run().state is UpdateState.COMPLETED
    assert in_use(checkpoint_of(pipeline)) == FORMATS["RocksDB, 2"]


@pytest.mark.long(
    guard=(
        "tests/spark/test_state_formats.py::test_a_script_continues_from_a_checkpoint_created_by_plain_spark",
        "tests/spark/test_state_formats.py::test_a_flow_keeps_the_state_store_provider_that_it_started_with",
    )
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_flow_without_a_recorded_state_format_detects_it_from_the_checkpoint(totals, elsewhere, tmp_path, kind):
    pipeline = totals()
    pipeline.run()
    land(tmp_path / "in", "a.json", 1)
    elsewhere(FORMATS[kind])
    checkpoint = checkpoint_of(pipeline)
    record = checkpoint.parent / "flow.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "confs": {}}))
    for name in ("state", "commits", "offsets", "metadata"):
        shutil.rmtree(checkpoint / name, ignore_errors=True)
    for name in ("state", "commits", "offsets"):
        shutil.copytree(tmp_path / "ck" / name, checkpoint / name)
    land(pipeline.folder / "landing", "b.json", 2)

    result = pipeline.run()

    assert result.rows("totals") == [{"k": "a", "n": 3}]
    assert in_use(checkpoint) == FORMATS[kind]
