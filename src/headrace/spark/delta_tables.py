"""Makes Delta tables and empty frames from declared schemas; through Delta's builder, so nothing is pasted into SQL."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headrace.graph.resolved import ResolvedDataset
from headrace.model.schema import Schema


def build_table(session: SparkSession, how: str, name: str, dataset: ResolvedDataset, path: str) -> None:
    """Make a dataset's table as declared.

    Args:
        session: whose catalog gets the name.
        how: a method of Delta's ``DeltaTable``: ``createIfNotExists`` or ``createOrReplace``.
        name: the quoted name in the session's catalog.
        dataset: columns, comment, properties and layout.
        path: where the table lies.
    """
    jvm: Any = session._jvm  # noqa: SLF001 - Delta's builder; its Python wheel would add nothing
    java_session: Any = session._jsparkSession  # noqa: SLF001
    declared = dataset.dataset
    builder = getattr(jvm.io.delta.tables.DeltaTable, how)(java_session).tableName(name).location(path)
    builder = builder.addColumns(java_session.parseDataType(dataset.schema.to_json()))
    if declared.comment:
        builder = builder.comment(declared.comment)
    for key, value in declared.properties.items():
        builder = builder.property(key, value)
    if declared.partition_by:
        builder = builder.partitionedBy(_texts(session, declared.partition_by))
    if declared.cluster_by:
        builder = builder.clusterBy(_texts(session, declared.cluster_by))
    builder.execute()


def empty_frame(session: SparkSession, schema: Schema) -> DataFrame:
    """No rows of a schema."""
    java_session: Any = session._jsparkSession  # noqa: SLF001 - Python's own way starts a Python worker
    jvm: Any = session._jvm  # noqa: SLF001
    rows = jvm.java.util.ArrayList()
    return DataFrame(java_session.createDataFrame(rows, java_session.parseDataType(schema.to_json())), session)


def struct_type(schema: Schema) -> StructType:
    """A schema as Spark's own."""
    return StructType.fromJson(json.loads(schema.to_json()))


def _texts(session: SparkSession, values: Iterable[str]) -> Any:
    texts = tuple(values)
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - varargs of Java
    array = gateway.new_array(gateway.jvm.java.lang.String, len(texts))
    for place, text in enumerate(texts):
        array[place] = text
    return array
