"""Creates Delta tables and empty frames from declared schemas, through Delta's builder instead of SQL text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from headrace.delta_log.tables import table_exists
from headrace.graph.resolved import ResolvedDataset
from headrace.model.names import sql_text
from headrace.model.schema import Schema
from headrace.stores.paths import StoragePath, storage_path


def delta_table(session: SparkSession, path: str) -> Any:
    """Delta's own handle of a table, which accepts conditions as columns."""
    jvm: Any = session._jvm  # noqa: SLF001 - the same as below
    return jvm.io.delta.tables.DeltaTable.forPath(session._jsparkSession, path)  # noqa: SLF001


def build_table(session: SparkSession, how: str, name: str | None, dataset: ResolvedDataset, path: str) -> None:
    """Create a dataset's table as declared.

    Args:
        session: the session whose catalog gets the name.
        how: a method of Delta's ``DeltaTable``: ``create``, ``createIfNotExists`` or ``createOrReplace``.
        name: the quoted name in the session's catalog; None for a table without one.
        dataset: columns, comment, properties and layout.
        path: the path of the table.
    """
    jvm: Any = session._jvm  # noqa: SLF001 - Delta's builder; its Python wheel would add nothing
    java_session: Any = session._jsparkSession  # noqa: SLF001
    declared = dataset.dataset
    builder = getattr(jvm.io.delta.tables.DeltaTable, how)(java_session).location(path)
    builder = builder if name is None else builder.tableName(name)
    builder = builder.addColumns(java_session.parseDataType(dataset.schema.to_json()))
    if declared.comment:
        builder = builder.comment(declared.comment)
    for key, value in declared.properties.items():
        builder = builder.property(key, value)
    if declared.partition_by:
        builder = builder.partitionedBy(java_strings(session, declared.partition_by))
    if declared.cluster_by:
        builder = builder.clusterBy(java_strings(session, declared.cluster_by))
    builder.execute()


def clear_drafts(path: str) -> None:
    """Remove what a crashed table creation left: Delta creates no table if there is a log directory.

    Removes only drafts of the log, which hold no rows; Delta reports anything else that is in its way.
    """
    log = storage_path(path) / "_delta_log"
    if table_exists(path) or not log.is_dir():
        return
    for draft in log.glob(".*"):
        draft.unlink()
    if isinstance(log, Path):
        with suppress(OSError):
            (log / "_staged_commits").rmdir()
        with suppress(OSError):
            log.rmdir()


def empty_frame(session: SparkSession, schema: Schema) -> DataFrame:
    """An empty frame with a schema."""
    java_session: Any = session._jsparkSession  # noqa: SLF001 - PySpark's own API starts a Python worker
    jvm: Any = session._jvm  # noqa: SLF001
    rows = jvm.java.util.ArrayList()
    return DataFrame(java_session.createDataFrame(rows, java_session.parseDataType(schema.to_json())), session)


def data_type(json_type: str) -> DataType:
    """The Spark type with this JSON."""
    field = {"name": "type", "type": json.loads(json_type), "nullable": True, "metadata": {}}
    return StructType.fromJson({"fields": [field]})["type"].dataType


def struct_type(schema: Schema) -> StructType:
    """A schema as Spark's type."""
    return StructType.fromJson(json.loads(schema.to_json()))


def java_strings(session: SparkSession, values: Iterable[str]) -> Any:
    """An array of Java strings, for methods with varargs."""
    texts = tuple(values)
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - varargs of Java
    array = gateway.new_array(gateway.jvm.java.lang.String, len(texts))
    for index, text in enumerate(texts):
        array[index] = text
    return array


def make_stub(session: SparkSession, name: str, columns: StructType, folder: StoragePath) -> None:
    """Create an empty Parquet table in the session's catalog.

    SQL takes half the time of ``catalog.createTable``, which also opens the table, but cannot express the metadata of
    columns.

    Args:
        session: the session.
        name: the name as quoted SQL.
        columns: the table's columns.
        folder: its folder, which does not exist yet.
    """
    text = columns.json()
    if text.count('"metadata":') != text.count('"metadata":{}'):
        session.catalog.createTable(name, path=str(folder), source="parquet", schema=columns)
        return
    jvm: Any = session._jvm  # noqa: SLF001 - Python's own types have no DDL
    java_session: Any = session._jsparkSession  # noqa: SLF001 - the same
    ddl = jvm.org.apache.spark.sql.types.DataType.fromJson(text).toDDL()
    java_session.sql(f"CREATE TABLE {name} ({ddl}) USING parquet LOCATION {sql_text(str(folder))}")
