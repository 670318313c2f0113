"""Rewrites the files of Delta tables without changing rows, and deletes rows and writes log checkpoints on request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from pyspark.sql import SparkSession

from headrace.model.names import quoted, sql_text
from headrace.plan.maintenance import CUBE_BYTES, DELETED_SHARE, SMALL_FILE_BYTES, TARGET_FILE_BYTES
from headrace.spark.delta.tables import java_strings

Partition = Sequence[tuple[str, str | None]]
# A condition with thousands of partitions overflows the stack of Spark's parser.
_PARTITIONS_AT_ONCE = 100
_CUBES = "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize"


def compact(session: SparkSession, path: str) -> None:
    """Compact the small files of a table, and files with many deleted rows; clusters a table with liquid clustering.

    Streams that read the table see no new data.
    """
    _optimizer(session, path).executeCompaction()


def z_order(session: SparkSession, path: str, columns: Sequence[str], partitions: Iterable[Partition] = ()) -> None:
    """Z-order a table by columns; rewrites all files of the given partitions, or of the table if none is given.

    Streams that read the table see no new data.
    """
    names = java_strings(session, columns)
    remaining = iter(partitions)
    found = tuple(islice(remaining, _PARTITIONS_AT_ONCE))
    if not found:
        _optimizer(session, path).executeZOrderBy(names)
    while found:
        _optimizer(session, path).where(partition_condition(found)).executeZOrderBy(names)
        found = tuple(islice(remaining, _PARTITIONS_AT_ONCE))


def partition_condition(partitions: Iterable[Partition]) -> str:
    """The SQL condition of some partitions."""
    return " OR ".join(f"({' AND '.join(_equals(*value) for value in partition)})" for partition in partitions)


def write_log_checkpoint(session: SparkSession, path: str) -> None:
    """Write a checkpoint of a table's log. Delta then removes commits past the retention of the log."""
    jvm: Any = session._jvm  # noqa: SLF001 - Delta has no Python API for it
    jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path).checkpoint()  # noqa: SLF001


def _equals(column: str, value: str | None) -> str:
    return f"{quoted(column)} IS NULL" if value is None else f"{quoted(column)} = {sql_text(value)}"


def _optimizer(session: SparkSession, path: str) -> Any:
    java_session: Any = session._jsparkSession.cloneSession()  # noqa: SLF001 - settings for this job alone
    java_session.conf().set("spark.databricks.delta.optimize.minFileSize", str(SMALL_FILE_BYTES))
    java_session.conf().set("spark.databricks.delta.optimize.maxFileSize", str(TARGET_FILE_BYTES))
    java_session.conf().set("spark.databricks.delta.optimize.maxDeletedRowsRatio", str(DELETED_SHARE))
    # Delta's defaults are 100 and 150 GB: it would rewrite any smaller table as a whole.
    java_session.conf().set(f"{_CUBES}.threshold", str(CUBE_BYTES))
    java_session.conf().set(f"{_CUBES}.targetCubeSize", str(CUBE_BYTES * 3 // 2))
    jvm: Any = session._jvm  # noqa: SLF001 - Delta's builder; its Python wheel would add nothing
    return jvm.io.delta.tables.DeltaTable.forPath(java_session, path).optimize()
