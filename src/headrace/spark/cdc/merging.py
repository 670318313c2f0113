"""Merges the events of a batch into their target.

The rows of a key are computed anew from all that is known of it: what the target says, what is remembered, and the
batch. That makes the result independent of order and batches, and a repeated batch one that changes nothing. What is to
be remembered is stored first; the commit of the target is the one that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from headrace.cdc.feed import Feed
from headrace.cdc.shape import END_AT, START_AT, ScdType
from headrace.model.datasets import Flow
from headrace.model.names import quoted
from headrace.runtime.seam import Point, Seam
from headrace.spark.cdc.feed import events_of, sequence_column
from headrace.spark.cdc.folding import REMEMBERED, TARGET, comparable, folded, versions
from headrace.spark.cdc.memory import Memory, delta_table

_CONFLICT_TRIES = 5
_TRANSACTION_CONFS = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")


@dataclass(frozen=True)
class Merging:
    """The sink of a flow that applies changes.

    Args:
        flow: declares what events do.
        feed: what that means for the columns of its source.
        table: where the target lies.
        memory: where events are remembered.
        transaction: under which the flow's batches are committed.
        at: is told each point that a crash could part from the next.
        fence: returns while this update may commit.
        lock: is held while a batch is merged; flows into one target share it.
    """

    flow: Flow
    feed: Feed
    table: str
    memory: str
    transaction: str
    at: Seam
    fence: Callable[[], None]
    lock: Lock

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Merge the events of a batch, whose keys and sequences are there."""
        with self.lock, _kept() as keep:
            memory = Memory(self.memory, self.table)
            memory.forget_unfinished(rows.sparkSession)
            events = keep(events_of(self.flow, self.feed, rows))
            known, current = self._known(memory, events)
            after = keep(folded(known, self.feed.shape))
            missing = self._to_remember(after, events)
            if not missing.isEmpty():
                self.fence()
                memory.add(missing, self.transaction, batch_id)
                self.at(Point.REMEMBERED)
            self.at(Point.TO_WRITE)
            self.fence()
            self._merge(keep(self._changes(versions(after, self.feed.shape), current)), batch_id)
            self.at(Point.WRITTEN)

    def _known(self, memory: Memory, events: DataFrame) -> tuple[DataFrame, DataFrame]:
        """All that is known of the keys that a batch touches, without truncates, and their rows in the target."""
        remembered = memory.read(events)
        current = self._rows(events)
        truncates = self.flow.changes is not None and self.flow.changes.truncates is not None
        if not truncates or events.filter("truncates").isEmpty():
            keys = events.select("key").distinct()
            remembered = remembered.join(keys, "key", "left_semi").unionByName(remembered.filter("truncates"))
            current = current.join(keys, "key", "left_semi")
        known = events.unionByName(remembered).unionByName(self._told(current, events))
        if truncates:
            cut = known.filter("truncates").agg(F.max("sequence").alias("cut"))
            known = known.crossJoin(F.broadcast(cut)).filter("cut IS NULL OR sequence > cut").drop("cut")
        return known.filter("NOT truncates").drop("truncates"), current

    def _rows(self, events: DataFrame) -> DataFrame:
        """The rows of the target: ``key``, ``state``, ``begun``, ``ended``."""
        shape = self.feed.shape
        target = events.sparkSession.read.format("delta").load(self.table)
        key = F.struct(*[F.col(quoted(name)).alias(name) for name in shape.keys])
        state = F.struct(*[F.col(quoted(name)).alias(name) for name in shape.columns])
        if shape.scd_type is ScdType.TWO:
            begun, ended = F.col(START_AT), F.col(END_AT)
        else:
            kind = events.schema["sequence"].dataType
            begun = sequence_column(self.flow) if self.feed.told_by_rows else F.lit(None)
            begun, ended = begun.cast(kind), F.lit(None).cast(kind)
        return target.select(key.alias("key"), state.alias("state"), begun.alias("begun"), ended.alias("ended"))

    def _told(self, current: DataFrame, like: DataFrame) -> DataFrame:
        """What the rows of the target say of events that were."""
        row, sets = like.schema["row"].dataType, like.schema["sets"].dataType
        beginnings = current.filter("begun IS NOT NULL").select(
            "key",
            F.col("begun").alias("sequence"),
            F.lit(False).alias("deleted"),
            F.col("state").alias("row"),
            F.lit(None).cast(sets).alias("sets"),
            F.lit(TARGET).alias("origin"),
            F.lit(False).alias("truncates"),
        )
        if self.feed.shape.scd_type is ScdType.ONE:
            return beginnings
        gone = current.filter("ended IS NOT NULL").select("key", F.col("ended").alias("sequence"))
        ends = gone.join(beginnings.select("key", "sequence"), ["key", "sequence"], "left_anti").select(
            "key",
            "sequence",
            F.lit(True).alias("deleted"),
            F.lit(None).cast(row).alias("row"),
            F.lit(None).cast(sets).alias("sets"),
            F.lit(TARGET).alias("origin"),
            F.lit(False).alias("truncates"),
        )
        return beginnings.unionByName(ends)

    def _to_remember(self, after: DataFrame, events: DataFrame) -> DataFrame:
        """What the target will not tell, and is not remembered yet."""
        shape = self.feed.shape
        told = F.col("told") if shape.scd_type is ScdType.TWO or self.feed.told_by_rows else F.lit(False)
        missing = after.filter(~told & (F.col("origin") != REMEMBERED))
        if shape.scd_type is ScdType.ONE and shape.whole_rows:
            # Whole rows that were followed by others say nothing any more.
            missing = missing.filter(F.col("lasts") & F.col("ended").isNull())
        missing = missing.withColumn("truncates", F.lit(False)).select(*events.columns)
        return missing.unionByName(events.filter("truncates"))

    def _changes(self, after: DataFrame, current: DataFrame) -> DataFrame:
        """What differs between the rows that should be and those that are: ``action`` and the row."""
        same = F.col("n.key") == F.col("c.key")
        if self.feed.shape.scd_type is ScdType.TWO:
            same = same & (F.col("n.begun") == F.col("c.begun"))
        kind = after.schema["state"].dataType
        unchanged = comparable(F.col("n.state"), kind).eqNullSafe(comparable(F.col("c.state"), kind))
        if self.feed.shape.scd_type is ScdType.TWO:
            unchanged = unchanged & F.col("n.ended").eqNullSafe(F.col("c.ended"))
        action = F.when(F.col("c.key").isNull(), "insert").when(F.col("n.key").isNull(), "delete")
        action = action.when(~unchanged, "update")
        found = after.alias("n").join(current.alias("c"), same, "full_outer")
        return found.select(
            action.alias("action"),
            F.coalesce("n.key", "c.key").alias("key"),
            F.coalesce("n.begun", "c.begun").alias("begun"),
            F.col("n.ended").alias("ended"),
            F.col("n.state").alias("state"),
        ).filter("action IS NOT NULL")

    def _merge(self, changes: DataFrame, batch_id: int) -> None:
        shape = self.feed.shape
        session = changes.sparkSession
        matches: Column = F.lit(True)
        for name in shape.keys:
            matches = matches & (F.col(f"t.{quoted(name)}") == F.col(f"s.key.{quoted(name)}"))
        values = {quoted(name): F.col(f"s.state.{quoted(name)}") for name in shape.columns}
        if shape.scd_type is ScdType.TWO:
            matches = matches & (F.col(f"t.{START_AT}") == F.col("s.begun"))
            values |= {START_AT: F.col("s.begun"), END_AT: F.col("s.ended")}
        java = session._jvm.java.util.HashMap()  # type: ignore[union-attr]  # noqa: SLF001 - Delta's API is Java's
        for name, value in values.items():
            java.put(name, value._jc)  # noqa: SLF001 - the same
        for attempt in range(1, _CONFLICT_TRIES + 1):
            target = getattr(delta_table(session, self.table), "as")("t")
            merge = target.merge(changes.alias("s")._jdf, matches._jc)  # noqa: SLF001 - the same
            merge = merge.whenMatched(F.expr("s.action = 'delete'")._jc).delete()  # noqa: SLF001 - the same
            merge = merge.whenMatched(F.expr("s.action = 'update'")._jc).update(java)  # noqa: SLF001 - the same
            merge = merge.whenNotMatched(F.expr("s.action = 'insert'")._jc).insert(java)  # noqa: SLF001 - the same
            try:
                with _committed_as(session, self.transaction, batch_id):
                    merge.execute()
            except PySparkException as error:
                # Small files of the table may have been put together meanwhile; its rows are the same.
                conflict = (error.getCondition() or "").startswith("DELTA_CONCURRENT")
                if not conflict or attempt == _CONFLICT_TRIES:
                    raise
            else:
                return


@contextmanager
def _committed_as(session: SparkSession, transaction: str, batch_id: int) -> Iterator[None]:
    """Commits inside of the block carry a transaction; one that is in the table already is not done again."""
    for key, value in zip(_TRANSACTION_CONFS, (transaction, str(batch_id)), strict=True):
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key in _TRANSACTION_CONFS:
            session.conf.unset(key)


@contextmanager
def _kept() -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Gives a function that keeps a frame's rows until the block ends."""
    frames: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        frames.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frames[-1]

    try:
        yield keep
    finally:
        for frame in frames:
            frame.unpersist()
