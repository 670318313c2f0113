"""Batches into tables of Delta, once each."""

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

# Source: Delta's ``DeltaSQLConf``; a MERGE takes its transaction from these alone.
_APP_ID, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
# No column should be called so.
_RANK, _GONE = "headrace_rank", "headrace_gone"


def append_once(
    batch: DataFrame,
    batch_id: int,
    target: str,
    *,
    name: str | None = None,
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> None:
    """Append a batch to a table of Delta, unless it is there.

    Args:
        batch: the rows.
        batch_id: the number that the function got.
        target: the table: its path, or its name. It is made if it is not there.
        name: tells this write from others: two of one batch into one table need two, and a call that no streaming query
            makes needs one.
        partition_by: columns that a new table is partitioned by.
        options: of Delta's writer, such as ``mergeSchema``.
    """
    _check_place(batch, target)
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
    """Let the rows of a batch take the place of those with their key in a table of Delta, once.

    Of several rows of a batch with one key the one with the greatest *sequence_by* counts, or else the greatest row.

    Args:
        batch: the rows, with the columns of the table.
        batch_id: the number that the function got.
        target: the table: its path, or its name. It is made, empty, if it is not there.
        keys: columns that tell rows apart.
        sequence_by: a row takes the place of one only that has no greater value of this column.
        delete_when: is true for rows that take theirs away; the columns it speaks of need not be in the table.
        name: tells this write of the batch from others; a call that no streaming query makes needs one.
    """
    _check_place(batch, target)
    deletes = F.expr(delete_when) if isinstance(delete_when, str) else delete_when
    _make(batch, target)
    rows = _newest(batch, keys, sequence_by)
    gone = F.lit(False)  # noqa: FBT003 - a constant of SQL
    if deletes is not None:
        rows, gone = rows.withColumn(_GONE, F.coalesce(deletes, gone)), F.col(f"source.{quoted(_GONE)}")
    newer = F.lit(True)  # noqa: FBT003 - the same
    if sequence_by is not None:
        column = quoted(sequence_by)
        before, after = F.col(f"target.{column}"), F.col(f"source.{column}")
        newer = before.isNull() | F.coalesce(after >= before, F.lit(False))  # noqa: FBT003 - the same
    same = (F.col(f"target.{quoted(key)}").eqNullSafe(F.col(f"source.{quoted(key)}")) for key in keys)
    # What tells that a row is taken away need not be in the table.
    extra = frozenset() if deletes is None else _columns_of(batch, deletes) | {_GONE}
    merge = _Merge(rows, target, reduce(Column.__and__, same), name, extra)
    merge.clauses(deletes=newer & gone if deletes is not None else None, updates=newer & ~gone, inserts=~gone)
    merge.once(batch_id)


def merge_into(
    batch: DataFrame,
    batch_id: int,
    target: str,
    on: Column | str,
    *,
    name: str | None = None,
) -> None:
    """Merge a batch into a table of Delta, once: rows that match are updated, others inserted, by column names.

    Args:
        batch: the rows; in *on* they are ``source``, and those of the table are ``target``.
        batch_id: the number that the function got.
        target: the table: its path, or its name.
        on: which rows match, such as ``"target.id = source.id"``.
        name: tells this write of the batch from others; a call that no streaming query makes needs one.
    """
    merge = _Merge(batch, target, F.expr(on) if isinstance(on, str) else on, name)
    merge.clauses()
    merge.once(batch_id)


class _Merge:
    """A MERGE in a session of its own, whose settings no other write of the batch sees.

    Args:
        rows: of the batch.
        target: the table.
        on: which rows match.
        name: of the writer.
        extra: columns that the rows may have and the table not.
    """

    def __init__(self, rows: DataFrame, target: str, on: Column, name: str | None, extra: Collection[str] = ()) -> None:
        _check_place(rows, target)
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
        """What becomes of rows: those that are deleted, and others that match, and those that match none."""
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
        """Do it, unless the table has the batch."""
        self._session.conf().set(_APP_ID, self._writer)
        self._session.conf().set(_VERSION, str(batch_id))
        self._merge.execute()


def _columns_of(rows: DataFrame, condition: Column) -> frozenset[str]:
    """The columns that a condition speaks of."""
    found = rows.where(condition)._jdf.queryExecution().analyzed().references().toSeq()  # noqa: SLF001 - no public form
    return frozenset(str(found.apply(number).name()) for number in range(found.size()))


def _newest(rows: DataFrame, keys: Sequence[str], sequence_by: str | None) -> DataFrame:
    """Of several rows with one key the one that comes last, which is the greatest where nothing says."""
    whole = [_orderable(field.name, field.dataType).desc_nulls_last() for field in rows.schema.fields]
    order = [F.col(quoted(sequence_by)).desc_nulls_last()] if sequence_by is not None else []
    window = Window.partitionBy(*(quoted(key) for key in keys)).orderBy(*order, *whole)
    return rows.withColumn(_RANK, F.row_number().over(window)).where(F.col(_RANK) == 1).drop(_RANK)


def _orderable(name: str, data_type: DataType) -> Column:
    """A column, or its JSON where it may hold what has no order, such as a map."""
    value = F.col(quoted(name))
    return F.to_json(value) if isinstance(data_type, StructType | ArrayType | MapType) else value


def _make(rows: DataFrame, target: str) -> None:
    """Make a table with the columns of rows where there is none."""
    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001 - Delta's API is Java's
    builder = jvm.io.delta.tables.DeltaTable.createIfNotExists(rows.sparkSession._jsparkSession)  # noqa: SLF001
    builder = builder.location(target) if _is_path(target) else builder.tableName(target)
    builder.addColumns(rows._jdf.schema()).execute()  # noqa: SLF001


def _is_path(target: str) -> bool:
    return "/" in target or ":" in target


def _check_place(rows: DataFrame, target: str) -> None:
    """Refuse names in a pipeline, whose session has a catalog that ends with it.

    Raises:
        PipelineError: DELIVERY.NAME.
    """
    if in_pipeline(rows) and not _is_path(target):
        raise PipelineError("DELIVERY.NAME", target=target)
