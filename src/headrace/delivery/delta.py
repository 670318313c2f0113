"""Writes batches to Delta tables, each exactly once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headrace.delivery.identity import in_pipeline, writer_of
from headrace.errors import PipelineError
from headrace.model.names import quoted

# Source: Delta's ``DeltaSQLConf``; a MERGE takes its transaction only from these.
_APP_ID, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
# Reserved column names.
_RANK, _DELETED = "headrace_rank", "headrace_gone"


def append_once(
    batch: DataFrame,
    batch_id: int,
    target: str,
    *,
    name: str | None = None,
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> None:
    """Append a batch to a Delta table, unless the table has it already.

    Args:
        batch: the rows.
        batch_id: the batch number that the function got.
        target: the table's path or name. It is created if it does not exist.
        name: identifies this write. Two writes of a batch to one table need different names; a call outside of a
            streaming query needs one.
        partition_by: partition columns of a new table.
        options: of Delta's writer, such as ``mergeSchema``.
    """
    _check_target(batch, target)
    writer = batch.write.format("delta").mode("append").options(**(options or {}))
    writer = writer.option("txnAppId", writer_of(batch, target, name)).option("txnVersion", str(batch_id))
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    if _is_path(target):
        writer.save(target)
    else:
        writer.saveAsTable(target)


def upsert(
    batch: DataFrame,
    batch_id: int,
    target: str,
    keys: Sequence[str],
    *,
    sequence_by: str | None = None,
    delete_when: Column | str | None = None,
    name: str | None = None,
) -> None:
    """Upsert a batch into a Delta table by key, exactly once.

    If several rows of a batch have the same key, the one with the greatest *sequence_by* counts; without *sequence_by*,
    the greatest row.

    Args:
        batch: the rows, with the columns of the table.
        batch_id: the batch number that the function got.
        target: the table's path or name. An empty table is created if it does not exist.
        keys: the key columns.
        sequence_by: a row replaces another one only if its value in this column is not smaller.
        delete_when: a row for which this is true deletes the row with its key; its columns need not be in the table.
        name: identifies this write of the batch; a call outside of a streaming query needs one.
    """
    _check_target(batch, target)
    deletes = F.expr(delete_when) if isinstance(delete_when, str) else delete_when
    _make(batch, target)
    rows = _newest(batch, keys, sequence_by)
    deleted = F.lit(False)  # noqa: FBT003 - a constant of SQL
    if deletes is not None:
        rows, deleted = rows.withColumn(_DELETED, F.coalesce(deletes, deleted)), F.col(f"source.{quoted(_DELETED)}")
    newer = F.lit(True)  # noqa: FBT003 - the same
    if sequence_by is not None:
        column = quoted(sequence_by)
        before, after = F.col(f"target.{column}"), F.col(f"source.{column}")
        newer = before.isNull() | F.coalesce(after >= before, F.lit(False))  # noqa: FBT003 - the same
    same = (F.col(f"target.{quoted(key)}").eqNullSafe(F.col(f"source.{quoted(key)}")) for key in keys)
    # The columns of the delete condition need not be in the table.
    extra = frozenset() if deletes is None else _columns_of(batch, deletes) | {_DELETED}
    merge = _Merge(rows, target, reduce(Column.__and__, same), name, extra)
    merge.clauses(deletes=newer & deleted if deletes is not None else None, updates=newer & ~deleted, inserts=~deleted)
    merge.once(batch_id)


def merge_into(
    batch: DataFrame,
    batch_id: int,
    target: str,
    on: Column | str,
    *,
    name: str | None = None,
) -> None:
    """Merge a batch into a Delta table, exactly once: update rows that match, insert the others, by column name.

    Args:
        batch: the rows. *on* refers to them as ``source``, and to the table as ``target``.
        batch_id: the batch number that the function got.
        target: the table's path or name.
        on: the merge condition, such as ``"target.id = source.id"``.
        name: identifies this write of the batch; a call outside of a streaming query needs one.
    """
    merge = _Merge(batch, target, F.expr(on) if isinstance(on, str) else on, name)
    merge.clauses()
    merge.once(batch_id)


class _Merge:
    """A MERGE in its own session, so that no other write of the batch sees its settings.

    Args:
        rows: of the batch.
        target: the table.
        on: the merge condition.
        name: of the write.
        extra: columns of the rows that the table may lack.
    """

    def __init__(self, rows: DataFrame, target: str, on: Column, name: str | None, extra: Collection[str] = ()) -> None:
        _check_target(rows, target)
        jvm: Any = rows.sparkSession._jvm  # noqa: SLF001 - Delta's API is Java's
        # Delta takes the transaction of a MERGE from the session (delta-io/delta#1421), which threads share.
        self._session: Any = rows.sparkSession._jsparkSession.cloneSession()  # noqa: SLF001 - the same
        own = jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._session, rows._jdf.logicalPlan())  # noqa: SLF001
        self._rows = rows
        self._writer = writer_of(rows, target, name)
        tables = jvm.io.delta.tables.DeltaTable
        table = (tables.forPath if _is_path(target) else tables.forName)(self._session, target)
        known = {column.casefold() for column in table.toDF().columns()}
        self._columns = [column for column in rows.columns if column.casefold() in known]
        more = [column for column in rows.columns if column.casefold() not in known and column not in extra]
        if more:
            raise PipelineError("DELIVERY.COLUMNS", target=target, columns=", ".join(f'"{one}"' for one in more))
        self._merge = getattr(table, "as")("target").merge(getattr(own, "as")("source"), on._jc)  # noqa: SLF001

    def clauses(
        self, deletes: Column | None = None, updates: Column | None = None, inserts: Column | None = None
    ) -> None:
        """Add the clauses: which rows to delete, which other matching rows to update, and which rows to insert."""
        values = self._rows.sparkSession._jvm.java.util.HashMap()  # type: ignore[union-attr]  # noqa: SLF001
        for column in self._columns:
            values.put(quoted(column), F.col(f"source.{quoted(column)}")._jc)  # noqa: SLF001
        if deletes is not None:
            self._merge = self._merge.whenMatched(deletes._jc).delete()  # noqa: SLF001
        matched = self._merge.whenMatched() if updates is None else self._merge.whenMatched(updates._jc)  # noqa: SLF001
        merge = matched.update(values)
        new = merge.whenNotMatched() if inserts is None else merge.whenNotMatched(inserts._jc)  # noqa: SLF001
        self._merge = new.insert(values)

    def once(self, batch_id: int) -> None:
        """Execute the MERGE, unless the table has the batch already."""
        self._session.conf().set(_APP_ID, self._writer)
        self._session.conf().set(_VERSION, str(batch_id))
        self._merge.execute()


def _columns_of(rows: DataFrame, condition: Column) -> frozenset[str]:
    """The columns in a condition."""
    found = rows.where(condition)._jdf.queryExecution().analyzed().references().toSeq()  # noqa: SLF001 - no public form
    return frozenset(str(found.apply(number).name()) for number in range(found.size()))


def _newest(rows: DataFrame, keys: Sequence[str], sequence_by: str | None) -> DataFrame:
    """The last row of each key: by *sequence_by*, then the greatest row."""
    whole = [_orderable(field.name, field.dataType).desc_nulls_last() for field in rows.schema.fields]
    order = [F.col(quoted(sequence_by)).desc_nulls_last()] if sequence_by is not None else []
    window = Window.partitionBy(*(quoted(key) for key in keys)).orderBy(*order, *whole)
    return rows.withColumn(_RANK, F.row_number().over(window)).where(F.col(_RANK) == 1).drop(_RANK)


def _orderable(name: str, data_type: DataType) -> Column:
    """A column, or its JSON if its type may have no order, such as a map."""
    value = F.col(quoted(name))
    return F.to_json(value) if isinstance(data_type, StructType | ArrayType | MapType) else value


def _make(rows: DataFrame, target: str) -> None:
    """Create a table with the columns of *rows* if it does not exist."""
    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001 - Delta's API is Java's
    builder = jvm.io.delta.tables.DeltaTable.createIfNotExists(rows.sparkSession._jsparkSession)  # noqa: SLF001
    builder = builder.location(target) if _is_path(target) else builder.tableName(target)
    builder.addColumns(rows._jdf.schema()).execute()  # noqa: SLF001


def _is_path(target: str) -> bool:
    return "/" in target or ":" in target


def _check_target(rows: DataFrame, target: str) -> None:
    """Refuse table names in a pipeline, because the catalog of its session ends with it.

    Raises:
        PipelineError: DELIVERY.NAME.
    """
    if in_pipeline(rows) and not _is_path(target):
        raise PipelineError("DELIVERY.NAME", target=target)
