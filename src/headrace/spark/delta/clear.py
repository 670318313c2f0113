"""Clears tables, each in one fenced commit, which has no effect once another holder has taken over the lease."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.delta_log.table_layout import table_layout
from headrace.graph.resolved import ResolvedDataset
from headrace.model.names import quoted
from headrace.spark.delta.tables import build_table, empty_frame
from headrace.spark.delta.transaction import delta_transaction, is_supported
from headrace.stores.paths import remove_tree, storage_path


def clear_table(
    session: SparkSession, name: str, dataset: ResolvedDataset, path: str, options: Mapping[str, str]
) -> None:
    """Replace a dataset's table by an empty one in one commit, as declared except for its clustering.

    Args:
        session: the session whose catalog has the name.
        name: the quoted name in the session's catalog.
        dataset: columns, comment, properties and partitions.
        path: the path of the table.
        options: write options with a transaction id and version. A write with options does not support NOT NULL
            columns (``CreateDeltaTableCommand``), so that their table is replaced in another way.
    """
    declared = dataset.dataset
    # Delta's own command makes no partitioned table of one that was ever clustered.
    is_refused = bool(declared.partition_by) and "clustering" in table_layout(path).features
    if (is_refused or dataset.schema != dataset.schema.nullable) and options and is_supported(session):
        _clear_by_model(session, dataset, path, options)
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


def _clear_by_model(session: SparkSession, dataset: ResolvedDataset, path: str, options: Mapping[str, str]) -> None:
    """Replace a table in one commit that carries a transaction, whatever columns and layout it had and gets.

    Delta creates an empty table next to it, from which the commit takes the declaration.
    """
    model = storage_path(path).with_name(f".{storage_path(path).name}.{uuid4().hex}")
    try:
        build_table(session, "create", None, dataset, str(model))
        delta_transaction(session, path).replace_with_empty(str(model), options["txnAppId"], int(options["txnVersion"]))
    finally:
        with suppress(OSError):
            remove_tree(model)
