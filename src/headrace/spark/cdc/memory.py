"""Events that the rows of a target cannot tell of, kept beside it for those that come late.

The table is only added to. What a batch adds counts once the batch is in the target, whose transactions tell: an update
that dies in between leaves events behind, which the next one takes out before it does the batch again.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.checkpoints.delta_log import committed_transaction, is_made
from headrace.model.names import quoted
from headrace.plan.evolution import WIDENING_PROPERTY
from headrace.spark.cdc.folding import REMEMBERED
from headrace.spark.frames import brought
from headrace.spark.term_guard import of_term

_EVENT = ("key", "sequence", "deleted", "row", "sets", "truncates")


class Memory:
    """The events that are remembered for one target.

    Args:
        path: where they lie.
        target: the table whose transactions say which of them count.
    """

    def __init__(self, path: str, target: str) -> None:
        self._path = path
        self._target = target

    def read(self, like: DataFrame) -> DataFrame:
        """What is remembered, in the form of other events."""
        if not is_made(self._path):
            return like.limit(0).withColumn("origin", F.lit(REMEMBERED))
        found = like.sparkSession.read.format("delta").load(self._path)
        types = {field.name: field.dataType for field in found.schema.fields}
        if "key" not in types:
            return like.limit(0).withColumn("origin", F.lit(REMEMBERED))
        columns = [brought(F.col(name), types[name], like.schema[name].dataType).alias(name) for name in _EVENT]
        return found.select(*columns, F.lit(REMEMBERED).alias("origin"))

    def has_truncates(self, session: SparkSession) -> bool:
        """Whether an event that takes all rows away is remembered."""
        if not is_made(self._path):
            return False
        found = session.read.format("delta").load(self._path)
        return "truncates" in found.columns and not found.filter("truncates").isEmpty()

    def add(self, events: DataFrame, transaction: str, batch_id: int) -> None:
        """Remember events of a batch, before the batch is committed."""
        rows = events.select(*_EVENT, F.lit(transaction).alias("transaction"), F.lit(batch_id).alias("batch_id"))
        rows = rows.withColumn("remembered_at", F.current_timestamp())
        if is_made(self._path):
            self._allow_wider_types(rows)
        rows.write.format("delta").mode("append").option("mergeSchema", "true").save(self._path)

    def _allow_wider_types(self, rows: DataFrame) -> None:
        """Let the table take values of types that are wider than they were, once there are such."""
        before = rows.sparkSession.read.format("delta").load(self._path).schema
        known = {field.name: field.dataType.simpleString() for field in before.fields}
        given = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
        if any(known.get(name, kind) != kind for name, kind in given.items()):
            table = f"delta.{quoted(self._path)}"
            rows.sparkSession.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{WIDENING_PROPERTY}' = 'true')")

    def forget_unfinished(self, session: SparkSession) -> None:
        """Take out what batches have added that did not get into the target."""
        if not is_made(self._path):
            return
        found = session.read.format("delta").load(self._path)
        unfinished: list[Column] = []
        for (transaction,) in found.select("transaction").distinct().collect():
            newest = committed_transaction(self._target, transaction)
            later = F.lit(True) if newest is None else F.col("batch_id") > newest
            unfinished.append((F.col("transaction") == transaction) & later)
        if unfinished and not found.filter(reduce(Column.__or__, unfinished)).isEmpty():
            delete_from(session, self._path, reduce(Column.__or__, unfinished))


def clear_memory(session: SparkSession, path: str, term: int | None) -> None:
    """Forget everything, once for a holder of the lease with the number *term* and all before it."""
    # Keys and rows may be of other types from now on.
    kept = session.read.format("delta").load(path).limit(0).select("transaction", "batch_id")
    writer = kept.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.options(**of_term(term, "clearing")).save(path)


def delete_from(session: SparkSession, path: str, condition: Column) -> None:
    """Take rows out of a table."""
    delta_table(session, path).delete(condition._jc)  # noqa: SLF001 - Delta's own classes are Java's


def delta_table(session: SparkSession, path: str):  # type: ignore[no-untyped-def]  # noqa: ANN201 - a Java object
    """Delta's own handle of a table, which takes conditions as columns and not as text."""
    java = session._jvm.io.delta.tables.DeltaTable  # type: ignore[union-attr]  # noqa: SLF001
    return java.forPath(session._jsparkSession, path)  # noqa: SLF001
