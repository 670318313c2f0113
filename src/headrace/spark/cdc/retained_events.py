"""Retains events that are not derivable from the rows of a target, for events that arrive late.

The events of a batch count once the batch is committed to the target, as its transactions show. If an update dies in
between, the next one deletes the uncommitted events before it repeats the batch. Expired events are deleted too
(``tombstone_retention``); a row without a key, whose ``deleted`` is NULL, then marks their greatest sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.delta_log.tables import committed_transaction, table_exists, table_state
from headrace.graph.new_tables import MAPPING, has_special_names, maps_names
from headrace.model.names import quoted
from headrace.model.schema import Schema
from headrace.plan.schema_evolution import WIDENING_PROPERTY
from headrace.spark.cdc.fold import RETAINED, SYSTEM
from headrace.spark.delta.alter import describe_table
from headrace.spark.delta.conflicts import retry_commit
from headrace.spark.delta.conform import cast_nested
from headrace.spark.delta.fencing import fencing_options
from headrace.spark.delta.tables import delta_table

_EVENT = ("key", "sequence", "deleted", "row", "sets", "truncates")
# Rows are events, or marks of expired events.
IS_EVENT, IS_MARK = "deleted IS NOT NULL", "deleted IS NULL"


class RetainedEvents:
    """The events that are retained for one target.

    Args:
        path: path of the table that holds them.
        target: path of the target, whose transactions determine which of them count.
        now: the current time, in seconds since 1970.
    """

    def __init__(self, path: str, target: str, now: Callable[[], float]) -> None:
        self.path = path
        self._target = target
        self._now = now

    def rows(self, session: SparkSession) -> DataFrame | None:
        """All rows of the table; None if no event was ever retained."""
        if not table_exists(self.path):
            return None
        found = session.read.format("delta").load(self.path)
        return found if "key" in found.columns else None

    def read(self, like: DataFrame) -> DataFrame:
        """The retained events, in the form of the frame *like*."""
        found = self.rows(like.sparkSession)
        if found is None:
            return like.limit(0).withColumn("origin", F.lit(RETAINED))
        types = {field.name: field.dataType for field in found.schema.fields}
        names = [name for name in (*_EVENT, SYSTEM) if name in like.columns]
        columns = [cast_nested(F.col(name), types[name], like.schema[name].dataType).alias(name) for name in names]
        return found.filter(IS_EVENT).select(*columns, F.lit(RETAINED).alias("origin"))

    def expired(self, like: DataFrame) -> DataFrame:
        """One row, whose ``expired`` is the greatest sequence of the events that are no longer retained."""
        found = self.rows(like.sparkSession)
        if found is None:
            return like.limit(0).agg(F.max("sequence").alias("expired"))
        value = cast_nested(F.col("sequence"), found.schema["sequence"].dataType, like.schema["sequence"].dataType)
        return found.filter(IS_MARK).agg(F.max(value).alias("expired"))

    def add(self, events: DataFrame, transaction: str, batch_id: int) -> None:
        """Retain events of a batch, before the batch is committed."""
        names = [name for name in (*_EVENT, SYSTEM) if name in events.columns]
        rows = events.select(*names, F.lit(transaction).alias("transaction"), F.lit(batch_id).alias("batch_id"))
        rows = rows.withColumn("remembered_at", F.lit(self._now()).cast("timestamp"))
        writer = rows.write.format("delta").mode("append").option("mergeSchema", "true")
        special = has_special_names(Schema.from_json(rows.schema.json()))
        if table_exists(self.path):
            self._allow_wider_types(rows)
            if special:
                self._map_names(rows.sparkSession)
        elif special:
            writer = writer.options(**MAPPING)
        writer.save(self.path)

    def _map_names(self, session: SparkSession) -> None:
        """Enable column mapping, if it is not enabled yet."""
        state = table_state(self.path)
        if state is not None and not maps_names(state.properties):
            describe_table(session, f"delta.{quoted(self.path)}", MAPPING.items())

    def _allow_wider_types(self, rows: DataFrame) -> None:
        """Enable type widening if a column of *rows* has another type than in the table."""
        before = rows.sparkSession.read.format("delta").load(self.path).schema
        known = {field.name: field.dataType.simpleString() for field in before.fields}
        given = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
        if any(known.get(name, kind) != kind for name, kind in given.items()):
            table = f"delta.{quoted(self.path)}"
            rows.sparkSession.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{WIDENING_PROPERTY}' = 'true')")

    def delete_uncommitted(self, session: SparkSession, fence: Callable[[], None]) -> None:
        """Delete events of batches that are not in the target.

        Args:
            session: the session.
            fence: raises once another process holds the lease; called before each attempt.
        """
        # Each attempt searches again: another update may have finished a batch meanwhile.
        retry_commit(lambda: self._delete_uncommitted(session, fence))

    def _delete_uncommitted(self, session: SparkSession, fence: Callable[[], None]) -> None:
        fence()
        rows = self.rows(session)
        if rows is None:
            return
        found = rows.filter(IS_EVENT)
        uncommitted: list[Column] = []
        for transaction, last in found.groupBy("transaction").agg(F.max("batch_id")).collect():
            newest = committed_transaction(self._target, transaction)
            if newest is None or last > newest:
                later = F.lit(True) if newest is None else F.col("batch_id") > newest
                uncommitted.append((F.col("transaction") == transaction) & later)
        if uncommitted:
            condition: Any = reduce(Column.__or__, uncommitted)._jc  # noqa: SLF001 - Delta's own are Java's
            delta_table(session, self.path).delete(condition)


def clear_retained_events(session: SparkSession, path: str, fencing_token: int | None) -> None:
    """Delete all retained events; does nothing if a holder with a greater fencing token has done it."""
    # Keys and rows may have other types from now on.
    empty = session.read.format("delta").load(path).limit(0).select("transaction", "batch_id")
    writer = empty.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.options(**fencing_options(fencing_token, "clearing")).save(path)
