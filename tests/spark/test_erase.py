"""Rows of a person are erased from everything that a storage keeps, and streams over the tables continue."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from headrace.delta_log.erased_values import remove_old_values, remove_unused_files
from headrace.errors import PipelineError
from headrace.model.erasure import Criterion, ErasureRequest, PlaceKind
from headrace.model.schema import Schema
from headrace.spark.delta.erase_conditions import condition_of
from headrace.spark.delta.erase_rows import FoundRows, erase_rows, forget_log, write_checkpoint
from headrace.spark.sinks.spilled_rows import erase_spilled_rows, find_spilled_rows
from headrace.storage.spill_queue import BatchToSpill, spill_batch, spilled_batches

pytestmark = pytest.mark.spark

ANN = "ann@x.example"
PIPELINE = """
    from pathlib import Path
    LANDING = str(Path(__file__).parents[1] / "landing")

    @dp.table
    @dp.expect("large", "amount > 5")
    @dp.expect_or_quarantine("paid", "amount > 0")
    def orders():
        return spark.readStream.schema("email STRING, city STRING, amount INT, n INT").json(LANDING)

    @dp.table
    def copies():
        return spark.readStream.table("orders").where("email <> 'x'")

    @dp.table
    def buyers():
        return spark.readStream.table("orders").select("email").dropDuplicates(["email"])

    @dp.table(spark_conf={"headrace.failing_rows": "quarantine"})
    def shares():
        rows = spark.readStream.schema("email STRING, city STRING, amount INT, n INT").json(LANDING)
        return rows.select("email", (F.lit(100) / F.col("amount")).alias("share"))

    @dp.temporary_view
    def changes():
        return spark.readStream.schema("email STRING, city STRING, amount INT, n INT").json(LANDING)

    dp.create_streaming_table("customers")
    dp.create_auto_cdc_flow(
        target="customers", source="changes", keys=["email"], sequence_by="n", stored_as_scd_type=2,
        apply_as_deletes=F.expr("amount = 7"), except_column_list=["n"],
    )

    @dp.materialized_view
    def revenue():
        return spark.read.table("orders").groupBy("city").agg(F.sum("amount").alias("amount"))
    """


def land(pipeline, name, *rows):
    landing = pipeline.folder / "landing"
    landing.mkdir(exist_ok=True)
    names = ("email", "city", "amount", "n")
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    (landing / f"{name}.json").write_text("\n".join(lines))


def by_email(value=ANN, **more):
    return ErasureRequest((Criterion(("email",), value),), **more)


def stored_texts(folder):
    """The content of all files of rows and logs below a folder, by path; of Parquet files, the decoded rows."""
    for file in sorted(Path(folder).rglob("*")):
        if file.is_file() and file.suffix == ".parquet":
            yield file, str(pq.read_table(file).to_pylist())
        elif file.is_file() and file.suffix in (".json", ".crc"):
            yield file, file.read_text("utf-8", "replace")


def emails(pipeline, name):
    return sorted(row["email"] for row in pipeline.rows(name))


@pytest.mark.long(
    guard="tests/spark/test_erase.py::test_an_erasing_commit_is_passed_over_by_streams_and_leaves_no_trace"
)
def test_a_persons_rows_are_erased_everywhere_and_streams_continue(project):
    pipeline = project(PIPELINE)
    land(pipeline, "1", (ANN, "Rome", 10, 1), ("bob@x.example", "Rome", 20, 1), (ANN, "Rome", 0, 2))
    pipeline.run()
    land(pipeline, "2", (ANN, "Oslo", 3, 3), ("cai@x.example", "Oslo", 0, 1), (ANN, "Oslo", 7, 4))
    pipeline.run()

    found = pipeline.project.erasures.find(by_email())
    erased = pipeline.project.erasures.erase(by_email())

    storage = pipeline.folder / "storage"
    rows = {(place.kind, place.name): place.rows for place in erased.places if place.rows}
    assert rows == {(place.kind, place.name): place.rows for place in found.places if place.rows}
    assert rows[PlaceKind.TABLE, "orders"] == 3
    assert rows[PlaceKind.QUARANTINE, "orders"] == 1
    assert rows[PlaceKind.DEAD_LETTERS, "shares"] == 1
    assert rows[PlaceKind.TABLE, "customers"] > 0
    assert (erased.recomputed, erased.state, dict(erased.not_searched)) == (
        ("revenue",),
        ("buyers",),
        {"revenue": "has no column email"},
    )
    places = [storage / "tables", storage / "system" / "cdc", storage / "system" / "events"]
    places.append(storage / "checkpoints" / "default" / "shares" / "shares" / "failing_rows")
    assert [file for place in places for file, text in stored_texts(place) if ANN in text] == []

    land(pipeline, "3", ("dan@x.example", "Rome", 30, 1))
    assert pipeline.run().outcome.state.value == "COMPLETED"
    assert emails(pipeline, "copies") == ["bob@x.example", "dan@x.example"]
    assert {row["city"]: row["amount"] for row in pipeline.rows("revenue")} == {"Rome": 50}
    assert pipeline.project.erasures.find(by_email()).rows == 0
    assert pipeline.plan().to_json()["empty"]


@pytest.mark.long(guard="tests/unit/storage/test_erasable.py::test_a_stream_is_behind_until_it_has_read_every_change")
def test_rows_that_a_stream_has_not_read_are_not_erased(project):
    pipeline = project(PIPELINE)
    land(pipeline, "1", (ANN, "Rome", 10, 1))
    pipeline.run()
    land(pipeline, "2", (ANN, "Rome", 20, 2))
    pipeline.run("orders")

    with pytest.raises(PipelineError, match="have not read") as refused:
        pipeline.project.erasures.erase(by_email())

    assert 'flow "copies": it has not read all of "orders"' in refused.value.detail
    assert emails(pipeline, "orders") == [ANN, ANN]


@pytest.fixture
def table(headrace_session, tmp_path):
    """A table that only allows appends, with a change feed and a vector that hides a row of Ann."""
    path = str(tmp_path / "a table")
    rows = [(1, ANN, "a b"), (2, "bob@x.example", "a b"), (3, ANN, "a b"), (4, "cai@x.example", "c")]
    written = headrace_session.createDataFrame(rows, "id INT, email STRING, city STRING").coalesce(1)
    options = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    written.write.format("delta").partitionBy("city").options(**options).save(path)
    headrace_session.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    headrace_session.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    return path


def test_an_erasing_commit_is_passed_over_by_streams_and_leaves_no_trace(table, headrace_session, tmp_path):
    session = headrace_session

    def read():
        stream = session.readStream.format("delta").load(table)
        writer = stream.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(str(tmp_path / "copy")).awaitTermination()
        return sorted(row["id"] for row in session.read.format("delta").load(str(tmp_path / "copy")).collect())

    schema = Schema.from_json(session.read.format("delta").load(table).schema.json())
    condition = condition_of(by_email().criteria, schema)
    assert read() == [1, 2, 4]
    # Past the retention of the log, in which a stream that starts again still reads.
    commits = sorted(Path(table, "_delta_log").glob("*.json"))
    for number, commit in enumerate(commits):
        os.utime(commit, (time.time() - 40 * 86_400 + number,) * 2)

    erased = erase_rows(session, table, condition, lambda: None)
    write_checkpoint(session, table)
    remove_unused_files(table, time.time())
    remove_old_values(table, [ANN])
    forget_log(session, table)

    assert erased == FoundRows(rows=1, files=1)
    assert [file for file, text in stored_texts(table) if ANN in text] == []
    assert all(commit.is_file() for commit in commits)
    again = erase_rows(session, table, condition, lambda: None)
    new = session.createDataFrame([(5, "dan@x.example", "c")], "id INT, email STRING, city STRING")
    new.write.format("delta").mode("append").save(table)
    assert (again, read()) == (FoundRows(), [1, 2, 4, 5])
    assert sorted(row["id"] for row in session.read.format("delta").load(table).collect()) == [2, 4, 5]
    changes = session.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 3).load(table)
    assert [row["id"] for row in changes.select(F.col("id")).collect()] == [5]


@pytest.mark.long(
    guard="tests/unit/storage/test_spill_queue.py::test_a_file_of_a_waiting_batch_is_replaced_with_the_number_of_rows"
)
def test_rows_of_a_batch_that_waits_behind_another_are_erased(headrace_session, tmp_path):
    def write(folder):
        rows = headrace_session.createDataFrame([(1, ANN), (2, "bob@x.example")], "id INT, email STRING")
        rows.repartition(2).withColumn("at", F.lit("2026-01-01").cast("timestamp")).write.parquet(str(folder))

    for number in range(2):
        spill_batch(tmp_path / "sink", BatchToSpill("flow", 0, number), write, lambda: None)
    first, last = spilled_batches(tmp_path / "sink")

    def condition(schema):
        return condition_of(by_email().criteria, schema)

    rows = erase_spilled_rows(headrace_session, last, condition, lambda: None)

    (kept,) = headrace_session.read.parquet(str(last.data)).collect()
    assert (rows, last.rows(), kept["id"], kept["at"].year) == (1, 1, 2, 2026)
    assert erase_spilled_rows(headrace_session, last, condition, lambda: None) == 0
    assert sum(find_spilled_rows(headrace_session, first, condition).values()) == 1
