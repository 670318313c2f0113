"""Tables that are cleared: each by one commit, which a holder of the lease that was taken over does not make."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.graph.resolved import ResolvedDataset
from headrace.model.names import quoted
from headrace.spark.delta.tables import build_table, empty_frame
from headrace.spark.delta.transaction import delta_transaction, is_known


def clear_table(
    session: SparkSession, name: str, dataset: ResolvedDataset, path: str, options: Mapping[str, str]
) -> None:
    """Replace a dataset's table by an empty one as declared but for its clustering, in one commit.

    Args:
        session: whose catalog has the name.
        name: the quoted name in the session's catalog.
        dataset: columns, comment, properties and partitions.
        path: where the table lies.
        options: of the write, with a transaction and its number. Columns that may not be NULL have no place in a write
            that takes options (``CreateDeltaTableCommand``): their table is replaced by another way.
    """
    declared = dataset.dataset
    if dataset.schema != dataset.schema.nullable and options and is_known(session):
        _clear_not_null(session, dataset, path, options)
        return
    if dataset.schema != dataset.schema.nullable:
        build_table(session, "createOrReplace", name, dataset, path)
        return
    writer = empty_frame(session, dataset.schema).writeTo(name).using("delta").options(**options)
    for key, value in declared.properties.items():
        writer = writer.tableProperty(key, value)
    if declared.comment:
        writer = writer.tableProperty("comment", declared.comment)
    if declared.partition_by:
        writer = writer.partitionedBy(*(F.col(quoted(column)) for column in declared.partition_by))
    writer.createOrReplace()


def _clear_not_null(session: SparkSession, dataset: ResolvedDataset, path: str, options: Mapping[str, str]) -> None:
    """Replace a table that has columns which may not be NULL, in one commit that carries a transaction.

    Delta itself makes such a table beside it, from which the commit takes what a table declares.
    """
    model = Path(path).with_name(f".{Path(path).name}.{uuid4().hex}")
    try:
        build_table(session, "create", None, dataset, str(model))
        delta_transaction(session, path).become_empty_like(str(model), options["txnAppId"], int(options["txnVersion"]))
    finally:
        shutil.rmtree(model, ignore_errors=True)
