"""Every locked connector does its work in a session that has the locked jars and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.functions import col

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark


@pytest.fixture
def spark(headrace_session: SparkSession) -> SparkSession:
    return headrace_session


def test_a_machine_with_few_cores_uses_the_parallel_garbage_collector(spark: SparkSession) -> None:
    beans = spark._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()

    assert {bean.getName() for bean in beans} == {"PS Scavenge", "PS MarkSweep"}


def test_python_workers_import_compiled_modules(spark: SparkSession) -> None:
    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys  # noqa: PLC0415 - of the worker

        import pyspark.worker  # noqa: PLC0415 - the same

        # Python may be told not to write what it compiles; of an archive, neither is a file.
        place = pyspark.worker.__file__ if sys.dont_write_bytecode else pyspark.worker.__cached__
        yield from (pa.RecordBatch.from_pydict({"place": [str(place)]}) for _ in batches)

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(where, "place STRING").collect()
    assert Path(row.place).is_file()


def numbers(spark: SparkSession, first: int, end: int, word: str) -> DataFrame:
    return spark.range(first, end).selectExpr("id", f"'{word}' AS word")


@pytest.mark.long(
    guard=(
        "tests/spark/test_notebook_session.py::test_delta_tables_are_found_by_name_from_python",
        "tests/spark/test_connectors.py::test_the_history_and_the_change_data_feed_of_a_delta_table_are_read",
    )
)
def test_a_delta_table_is_written_streamed_and_merged(spark: SparkSession, tmp_path: Path) -> None:
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    numbers(spark, 0, 3, "old").write.format("delta").save(source)

    query = (
        spark.readStream.format("delta")
        .load(source)
        .writeStream.format("delta")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(target)
    )
    query.awaitTermination()
    numbers(spark, 2, 4, "new").createOrReplaceTempView("changes")
    spark.sql(
        f"MERGE INTO delta.`{target}` AS t USING changes AS c ON t.id = c.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )

    rows = spark.read.format("delta").load(target).orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(0, "old"), (1, "old"), (2, "new"), (3, "new")]


def test_the_history_and_the_change_data_feed_of_a_delta_table_are_read(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path / 'table'}`"
    spark.sql(f"CREATE TABLE {table} (id INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql(f"INSERT INTO {table} VALUES (1), (2)")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")

    operations = [row.operation for row in spark.sql(f"DESCRIBE HISTORY {table}").orderBy("version").collect()]
    feed = spark.read.option("readChangeFeed", "true").option("startingVersion", 2).format("delta")
    changes = [(row.id, row._change_type) for row in feed.load(str(tmp_path / "table")).collect()]

    # Small files may be put together in between.
    assert [operation for operation in operations if operation != "OPTIMIZE"] == ["CREATE TABLE", "WRITE", "DELETE"]
    assert changes == [(1, "delete")]


def test_a_kafka_stream_has_its_columns_without_a_broker(spark: SparkSession) -> None:
    topic = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "127.0.0.1:1")
        .option("subscribe", "topic")
        .load()
    )

    assert topic.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def test_from_avro_parses_the_output_of_to_avro(spark: SparkSession) -> None:
    written = spark.range(2).select(to_avro(col("id")).alias("bytes"))

    read = written.select(from_avro("bytes", '"long"').alias("id"))

    assert [row.id for row in read.collect()] == [0, 1]


def test_an_avro_file_is_read_back(spark: SparkSession, tmp_path: Path) -> None:
    numbers(spark, 0, 2, "a").write.format("avro").save(str(tmp_path / "file"))

    assert spark.read.format("avro").load(str(tmp_path / "file")).count() == 2
