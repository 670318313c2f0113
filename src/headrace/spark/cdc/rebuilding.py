"""The way of every shape: the rows of the keys that a batch touches are computed anew from all that is known of them.

What the target says, what is remembered, and the batch lead to rows; what differs from those that are there is merged.
That makes the result independent of order and batches, and a repeated batch one that changes nothing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.cdc.shape import END_AT, START_AT, ScdType
from headrace.model.names import quoted
from headrace.spark.cdc.batch import Batch, Changes, same_key
from headrace.spark.cdc.feed import sequence_column
from headrace.spark.cdc.folding import REMEMBERED, TARGET, comparable, folded, versions
from headrace.spark.cdc.merge import SOURCE_ALIAS, TARGET_ALIAS, Merge


def rebuilt(batch: Batch) -> Changes:
    """What the rows of the keys that a batch touches are from now on."""
    known, current = _known(batch)
    after = batch.kept.cached(folded(known, batch.feed.shape))
    changes = batch.kept.settled(_changes(batch, versions(after, batch.feed.shape), current))
    missing = batch.kept.cached(_to_remember(batch, after))
    return Changes(_merge(batch, changes), None if missing.isEmpty() else missing)


def _known(batch: Batch) -> tuple[DataFrame, DataFrame]:
    """All that is known of the keys that a batch touches, without truncates, and their rows in the target."""
    events = batch.kept.cached(batch.events)
    remembered, current = batch.remembered, _rows(batch)
    if not batch.truncated or events.filter("truncates").isEmpty():
        keys = events.select("key").distinct()
        remembered = remembered.join(keys, "key", "left_semi").unionByName(remembered.filter("truncates"))
        current = current.join(keys, "key", "left_semi")
    current = batch.kept.cached(current)
    known = events.unionByName(remembered).unionByName(_told(batch, current))
    if batch.truncated:
        cut = known.filter("truncates").agg(F.max("sequence").alias("cut"))
        known = known.crossJoin(F.broadcast(cut)).filter("cut IS NULL OR sequence > cut").drop("cut")
    return known.filter("NOT truncates").drop("truncates"), current


def _rows(batch: Batch) -> DataFrame:
    """The rows of the target: ``key``, ``state``, ``begun``, ``ended``."""
    shape = batch.feed.shape
    key = F.struct(*[F.col(quoted(name)).alias(name) for name in shape.keys])
    state = F.struct(*[F.col(quoted(name)).alias(name) for name in shape.columns])
    if shape.scd_type is ScdType.TWO:
        begun, ended = F.col(START_AT), F.col(END_AT)
    else:
        kind = batch.events.schema["sequence"].dataType
        begun = sequence_column(batch.flow) if batch.feed.told_by_rows else F.lit(None)
        begun, ended = begun.cast(kind), F.lit(None).cast(kind)
    return batch.target.select(key.alias("key"), state.alias("state"), begun.alias("begun"), ended.alias("ended"))


def _told(batch: Batch, current: DataFrame) -> DataFrame:
    """What the rows of the target say of events that were."""
    row, sets = batch.events.schema["row"].dataType, batch.events.schema["sets"].dataType
    beginnings = current.filter("begun IS NOT NULL").select(
        "key",
        F.col("begun").alias("sequence"),
        F.lit(False).alias("deleted"),
        F.col("state").alias("row"),
        F.lit(None).cast(sets).alias("sets"),
        F.lit(TARGET).alias("origin"),
        F.lit(False).alias("truncates"),
    )
    if batch.feed.shape.scd_type is ScdType.ONE:
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


def _to_remember(batch: Batch, after: DataFrame) -> DataFrame:
    """What the target will not tell, and is not remembered yet."""
    shape = batch.feed.shape
    told = F.col("told") if shape.scd_type is ScdType.TWO or batch.feed.told_by_rows else F.lit(False)
    missing = after.filter(~told & (F.col("origin") != REMEMBERED))
    if shape.scd_type is ScdType.ONE and shape.whole_rows:
        # Whole rows that were followed by others say nothing any more.
        missing = missing.filter(F.col("lasts") & F.col("ended").isNull())
    missing = missing.withColumn("truncates", F.lit(False)).select(*batch.events.columns)
    return missing.unionByName(batch.events.filter("truncates"))


def _changes(batch: Batch, after: DataFrame, current: DataFrame) -> DataFrame:
    """What differs between the rows that should be and those that are: ``action`` and the row."""
    same = F.col("n.key") == F.col("c.key")
    if batch.feed.shape.scd_type is ScdType.TWO:
        same = same & (F.col("n.begun") == F.col("c.begun"))
    kind = after.schema["state"].dataType
    unchanged = comparable(F.col("n.state"), kind).eqNullSafe(comparable(F.col("c.state"), kind))
    if batch.feed.shape.scd_type is ScdType.TWO:
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


def _merge(batch: Batch, changes: DataFrame) -> Merge:
    shape = batch.feed.shape
    action, begun = F.col(f"{SOURCE_ALIAS}.action"), F.col(f"{SOURCE_ALIAS}.begun")
    matches = same_key(shape.keys, "key")
    values = {name: F.col(f"{SOURCE_ALIAS}.state.{quoted(name)}") for name in shape.columns}
    if shape.scd_type is ScdType.TWO:
        matches = matches & (F.col(f"{TARGET_ALIAS}.{START_AT}") == begun)
        values |= {START_AT: begun, END_AT: F.col(f"{SOURCE_ALIAS}.ended")}
    return Merge(
        source=changes,
        matches=matches,
        deletes=action == "delete",
        updates=action == "update",
        inserts=action == "insert",
        values=values,
    )
