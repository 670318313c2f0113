"""The way of every shape: the rows of the keys that a batch touches are computed anew from all that is known of them.

What the target says, what is remembered, and the batch lead to rows; what differs from those that are there is merged.
That makes the result independent of order and batches, and a repeated batch one that changes nothing.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.cdc.scd_spec import ScdType
from headrace.model.names import quoted
from headrace.model.outcome import ChangeCounts
from headrace.spark.cdc.change_events import sequence_column
from headrace.spark.cdc.difference import difference, merge_of, rows_of
from headrace.spark.cdc.fold import REMEMBERED, TARGET, folded, versions
from headrace.spark.cdc.key_range import KeyRange, bounds_of, key_range
from headrace.spark.cdc.merge_batch import Batch, Changes, with_lateness


def rebuilt(batch: Batch) -> Changes:
    """What the rows of the keys that a batch touches are from now on."""
    events = batch.kept.when_asked(batch.events)
    kind = batch.events.schema["key"].dataType
    facts = events.agg(F.count_if("truncates").alias("truncates"), *bounds_of(kind, "key")).collect()[0]
    truncates = facts["truncates"] > 0
    # A truncate is about the keys that no event names, too.
    keys = KeyRange() if truncates else key_range(kind, facts)
    known, current = _known(batch, events, keys, truncates=truncates)
    after = batch.kept.when_asked(folded(known, batch.feed.shape))
    changes = batch.kept.settled(difference(versions(after, batch.feed.shape), current, batch.feed.shape))
    missing = _to_remember(batch)
    found = (
        with_lateness(batch, after)
        .agg(
            F.count_if(missing).alias("missing"),
            F.sum("tied").alias("tied"),
            F.sum(F.when(F.col("late"), F.col("events"))).alias("late"),
            F.count_if("blanks").alias("blanks"),
            F.count("lone").alias("lone"),
            F.mode("lone", deterministic=True).alias("lone_column"),
        )
        .collect()[0]
    )
    lone = (found["lone"], found["lone_column"]) if batch.feed.shape.scd_type is ScdType.TWO else (None, None)
    counts = ChangeCounts(found["tied"] or 0, found["late"] or 0, found["blanks"], None, *lone)
    merge = merge_of(changes, batch.feed.shape, keys)
    if not found["missing"] and not truncates:
        return Changes(merge, None, counts)
    kept = after.filter(missing).withColumn("truncates", F.lit(False)).select(*batch.events.columns)
    kept = kept.unionByName(events.filter("truncates")) if truncates else kept
    return Changes(merge, kept, counts)


def _known(batch: Batch, events: DataFrame, keys: KeyRange, *, truncates: bool) -> tuple[DataFrame, DataFrame]:
    """All that is known of the keys that a batch touches, without truncates, and their rows in the target."""
    remembered, current = batch.remembered, _rows(batch)
    if not truncates:
        among = events.select("key").distinct()
        in_range = keys.holds(lambda name: F.col(f"key.{quoted(name)}"))
        of_keys = remembered.filter(in_range).join(among, "key", "left_semi")
        remembered = of_keys.unionByName(remembered.filter("truncates")) if batch.truncated else of_keys
        current = current.filter(in_range).join(among, "key", "left_semi")
    current = batch.kept.when_asked(current)
    known = events.unionByName(remembered).unionByName(_told(batch, current))
    if batch.truncated:
        cut = known.filter("truncates").agg(F.max("sequence").alias("cut"))
        known = known.crossJoin(F.broadcast(cut)).filter("cut IS NULL OR sequence > cut").drop("cut")
    return known.filter("NOT truncates").drop("truncates"), current


def _rows(batch: Batch) -> DataFrame:
    """The rows of the target, with the sequences of the events that made them as far as they tell."""
    shape = batch.feed.shape
    if shape.scd_type is ScdType.TWO:
        return rows_of(batch.target, shape)
    kind = batch.events.schema["sequence"].dataType
    begun = sequence_column(batch.flow, batch.feed) if batch.feed.told_by_rows else F.lit(None)
    return rows_of(batch.target, shape, begun.cast(kind).alias("begun"))


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


def _to_remember(batch: Batch) -> Column:
    """True for an event that the target will not tell of, and that is not remembered yet."""
    shape = batch.feed.shape
    told = F.col("told") if shape.scd_type is ScdType.TWO or batch.feed.told_by_rows else F.lit(False)
    missing = ~told & (F.col("origin") != REMEMBERED)
    if shape.scd_type is ScdType.ONE and shape.whole_rows:
        # Whole rows that were followed by others say nothing any more.
        missing = missing & F.col("lasts") & F.col("ended").isNull()
    return missing
