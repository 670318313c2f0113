"""Delta's log on a local disk: one of several writers of a version succeeds; a commit without content is named."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
REPLACES = False
FAST = pytest.param(50)
LONG = pytest.param(1000, marks=pytest.mark.long(guard="its other cases"))


@pytest.fixture
def spark(headrace_session: SparkSession) -> SparkSession:
    return headrace_session


def log_of(spark: SparkSession, table: str) -> Any:
    """Delta's view of a table's log."""
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, table)


def test_tables_are_written_without_processes_however_their_path_is_spelled(
    spark: SparkSession, tmp_path: Path
) -> None:
    for place in (f"{tmp_path}/bare", f"file:{tmp_path}/scheme", f"file://{tmp_path}/slashes"):
        spark.range(2).write.format("delta").save(place)

        log = log_of(spark, place)
        files = log.logPath().getFileSystem(spark._jsc.hadoopConfiguration())
        assert log.store().getDelegate(log.logPath()).logStoreImpl().getClass().getSimpleName() == "LocalLogStore"
        assert files.getClass().getSimpleName() == "ProcessFreeLocalFileSystem"
        assert not list((tmp_path / Path(place).name / "_delta_log").glob(".*.json*")), "a draft is left"


@pytest.mark.parametrize("versions", [FAST, LONG])
def test_one_of_two_writers_of_a_version_succeeds_and_its_commit_is_the_one_that_stays(
    spark: SparkSession, tmp_path: Path, versions: int
) -> None:
    jvm: Any = spark._jvm
    conf: Any = spark._jsc.hadoopConfiguration()
    store = jvm.io.headrace.storage.LocalLogStore(conf)
    begin = Barrier(2)

    def commits_of(writer: str) -> list[int]:
        made = []
        for version in range(versions):
            path = jvm.org.apache.hadoop.fs.Path(f"file:{tmp_path}/{version:020}.json")
            lines = jvm.java.util.List.of(writer).iterator()
            begin.wait()
            try:
                store.write(path, lines, REPLACES, conf)
            except Py4JJavaError as error:
                if error.java_exception.getClass().getSimpleName() != "FileAlreadyExistsException":
                    raise
            else:
                made.append(version)
        return made

    with ThreadPoolExecutor(2) as writers:
        by_one, by_two = writers.map(commits_of, ("one", "two"))

    assert sorted(by_one + by_two) == list(range(versions))
    stored = {int(file.stem): file.read_text() for file in tmp_path.iterdir()}
    assert stored == dict.fromkeys(by_one, "one\n") | dict.fromkeys(by_two, "two\n")


def test_a_commit_without_content_is_named(spark: SparkSession, tmp_path: Path) -> None:
    table, log = str(tmp_path), tmp_path / "_delta_log"
    for first in range(3):
        spark.range(first, first + 1).write.format("delta").mode("append").save(table)
    last = log / f"{2:020}.json"
    last.write_text("")
    log_of(spark, table).clearCache()

    with pytest.raises(Py4JJavaError, match=f'the Delta commit "{last}" has 0 bytes'):
        spark.read.format("delta").load(table)
    with pytest.raises(Py4JJavaError, match=f'the Delta commit "{last}" has 0 bytes'):
        spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(table).collect()

    last.unlink()
    (log / f"{2:020}.crc").unlink(missing_ok=True)
    assert spark.read.format("delta").load(table).count() == 2
