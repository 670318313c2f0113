"""Events that the rows of a target cannot tell of, kept beside it for those that come late.

What a batch adds counts once the batch is in the target, whose transactions tell: an update that dies in between leaves
events behind, which the next one takes out before it does the batch again. What nobody should need any more is taken
out as well (``forgetting``); a row without a key, in which ``deleted`` is NULL, then has the greatest sequence of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.delta_log.tables import committed_transaction, is_made, table_state
from headrace.graph.new_tables import MAPPING, has_special_names, maps_names
from headrace.model.names import quoted
from headrace.model.schema import Schema
from headrace.plan.schema_evolution import WIDENING_PROPERTY
from headrace.spark.cdc.fold import REMEMBERED, SYSTEM
from headrace.spark.delta.alter import describe_table
from headrace.spark.delta.conflicts import tried_again
from headrace.spark.delta.conform import cast_nested
from headrace.spark.delta.fencing import of_term
from headrace.spark.delta.tables import delta_table

_EVENT = ("key", "sequence", "deleted", "row", "sets", "truncates")
# Of the rows that lie there; the others tell of what is forgotten.
IS_EVENT, IS_MARK = "deleted IS NOT NULL", "deleted IS NULL"


class RetainedEvents:
    """The events that are remembered for one target.

    Args:
        path: where they lie.
        target: the table whose transactions say which of them count.
        now: the time of day, in seconds since 1970.
    """

    def __init__(self, path: str, target: str, now: Callable[[], float]) -> None:
        self.path = path
        self._target = target
        self._now = now

    def rows(self, session: SparkSession) -> DataFrame | None:
        """All that lies there; None where nothing was ever remembered."""
        if not is_made(self.path):
            return None
        found = session.read.format("delta").load(self.path)
        return found if "key" in found.columns else None

    def read(self, like: DataFrame) -> DataFrame:
        """What is remembered, in the form of other events."""
        found = self.rows(like.sparkSession)
        if found is None:
            return like.limit(0).withColumn("origin", F.lit(REMEMBERED))
        types = {field.name: field.dataType for field in found.schema.fields}
        names = [name for name in (*_EVENT, SYSTEM) if name in like.columns]
        columns = [cast_nested(F.col(name), types[name], like.schema[name].dataType).alias(name) for name in names]
        return found.filter(IS_EVENT).select(*columns, F.lit(REMEMBERED).alias("origin"))

    def forgotten(self, like: DataFrame) -> DataFrame:
        """One row, whose ``forgotten`` is the greatest sequence among events that are not remembered any more."""
        found = self.rows(like.sparkSession)
        if found is None:
            return like.limit(0).agg(F.max("sequence").alias("forgotten"))
        value = cast_nested(F.col("sequence"), found.schema["sequence"].dataType, like.schema["sequence"].dataType)
        return found.filter(IS_MARK).agg(F.max(value).alias("forgotten"))

    def add(self, events: DataFrame, transaction: str, batch_id: int) -> None:
        """Remember events of a batch, before the batch is committed."""
        names = [name for name in (*_EVENT, SYSTEM) if name in events.columns]
        rows = events.select(*names, F.lit(transaction).alias("transaction"), F.lit(batch_id).alias("batch_id"))
        rows = rows.withColumn("remembered_at", F.lit(self._now()).cast("timestamp"))
        writer = rows.write.format("delta").mode("append").option("mergeSchema", "true")
        special = has_special_names(Schema.from_json(rows.schema.json()))
        if is_made(self.path):
            self._allow_wider_types(rows)
            if special:
                self._map_names(rows.sparkSession)
        elif special:
            writer = writer.options(**MAPPING)
        writer.save(self.path)

    def _map_names(self, session: SparkSession) -> None:
        """Let the table have names of columns that need it, once there are such."""
        state = table_state(self.path)
        if state is not None and not maps_names(state.properties):
            describe_table(session, f"delta.{quoted(self.path)}", MAPPING.items())

    def _allow_wider_types(self, rows: DataFrame) -> None:
        """Let the table take values of types that are wider than they were, once there are such."""
        before = rows.sparkSession.read.format("delta").load(self.path).schema
        known = {field.name: field.dataType.simpleString() for field in before.fields}
        given = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
        if any(known.get(name, kind) != kind for name, kind in given.items()):
            table = f"delta.{quoted(self.path)}"
            rows.sparkSession.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{WIDENING_PROPERTY}' = 'true')")

    def forget_unfinished(self, session: SparkSession, fence: Callable[[], None]) -> None:
        """Take out what batches have added that did not get into the target.

        Args:
            session: in which it is done.
            fence: returns while this update may commit; asked before each try.
        """
        # What is unfinished is found anew at each: another update may have finished it meanwhile.
        tried_again(lambda: self._forget_unfinished(session, fence))

    def _forget_unfinished(self, session: SparkSession, fence: Callable[[], None]) -> None:
        fence()
        rows = self.rows(session)
        if rows is None:
            return
        found = rows.filter(IS_EVENT)
        unfinished: list[Column] = []
        for transaction, last in found.groupBy("transaction").agg(F.max("batch_id")).collect():
            newest = committed_transaction(self._target, transaction)
            if newest is None or last > newest:
                later = F.lit(True) if newest is None else F.col("batch_id") > newest
                unfinished.append((F.col("transaction") == transaction) & later)
        if unfinished:
            condition: Any = reduce(Column.__or__, unfinished)._jc  # noqa: SLF001 - Delta's own are Java's
            delta_table(session, self.path).delete(condition)


def clear_memory(session: SparkSession, path: str, term: int | None) -> None:
    """Forget everything, once for a holder of the lease with the number *term* and all before it."""
    # Keys and rows may be of other types from now on.
    kept = session.read.format("delta").load(path).limit(0).select("transaction", "batch_id")
    writer = kept.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.options(**of_term(term, "clearing")).save(path)
