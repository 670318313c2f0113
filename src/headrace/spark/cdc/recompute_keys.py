"""The general merge algorithm: recomputes the rows of the keys in a batch from all known events.

Events derived from the target, retained events and the batch are folded into rows; the differences to the current rows
are merged. So the result is independent of order and batches, and a repeated batch changes nothing.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.model.names import quoted
from headrace.model.outcome import ChangeCounts
from headrace.spark.cdc.change_events import sequence_column
from headrace.spark.cdc.difference import build_merge, current_rows, difference
from headrace.spark.cdc.fold import RETAINED, TARGET, fold_events, target_versions
from headrace.spark.cdc.key_range import KeyRange, bounds_of, key_range
from headrace.spark.cdc.merge_batch import Batch, BatchResult, with_lateness


def recomputed_changes(batch: Batch) -> BatchResult:
    """The changes that bring the keys of a batch to their new rows."""
    events = batch.cache.lazy(batch.events)
    kind = batch.events.schema["key"].dataType
    facts = events.agg(F.count_if("truncates").alias("truncates"), *bounds_of(kind, "key")).collect()[0]
    truncates = facts["truncates"] > 0
    # A truncate affects all keys.
    keys = KeyRange() if truncates else key_range(kind, facts)
    known, current = _known(batch, events, keys, truncates=truncates)
    after = batch.cache.lazy(fold_events(known, batch.feed.spec))
    changes = batch.cache.eager(difference(target_versions(after, batch.feed.spec), current, batch.feed.spec))
    must_retain = _must_retain(batch)
    found = (
        with_lateness(batch, after)
        .agg(
            F.count_if(must_retain).alias("to_retain"),
            F.sum("tied").alias("tied"),
            F.sum(F.when(F.col("late"), F.col("events"))).alias("late"),
            F.count_if("blanks").alias("blanks"),
            F.count("lone").alias("lone"),
            F.mode("lone", deterministic=True).alias("lone_column"),
        )
        .collect()[0]
    )
    lone = (found["lone"], found["lone_column"]) if batch.feed.spec.keeps_versions else (None, None)
    counts = ChangeCounts(found["tied"] or 0, found["late"] or 0, found["blanks"], None, *lone)
    merge = build_merge(changes, batch.feed.spec, keys)
    if not found["to_retain"] and not truncates:
        return BatchResult(merge, None, counts)
    to_retain = after.filter(must_retain).withColumn("truncates", F.lit(False)).select(*batch.events.columns)
    to_retain = to_retain.unionByName(events.filter("truncates")) if truncates else to_retain
    return BatchResult(merge, to_retain, counts)


def _known(batch: Batch, events: DataFrame, keys: KeyRange, *, truncates: bool) -> tuple[DataFrame, DataFrame]:
    """All known events of the keys in a batch, without truncates, and the current rows of these keys."""
    retained, current = batch.retained, _current_rows(batch)
    if not truncates:
        batch_keys = events.select("key").distinct()
        in_range = keys.contains(lambda name: F.col(f"key.{quoted(name)}"))
        of_keys = retained.filter(in_range).join(batch_keys, "key", "left_semi")
        retained = of_keys.unionByName(retained.filter("truncates")) if batch.has_truncates else of_keys
        current = current.filter(in_range).join(batch_keys, "key", "left_semi")
    current = batch.cache.lazy(current)
    known = events.unionByName(retained).unionByName(_derived_events(batch, current))
    if batch.has_truncates:
        cut = known.filter("truncates").agg(F.max("sequence").alias("cut"))
        known = known.crossJoin(F.broadcast(cut)).filter("cut IS NULL OR sequence > cut").drop("cut")
    return known.filter("NOT truncates").drop("truncates"), current


def _current_rows(batch: Batch) -> DataFrame:
    """The rows of the target, with the sequences of their events if these are derivable."""
    spec = batch.feed.spec
    if spec.keeps_versions:
        return current_rows(batch.target, spec)
    kind = batch.events.schema["sequence"].dataType
    valid_from = sequence_column(batch.flow, batch.feed) if batch.feed.derivable_from_rows else F.lit(None)
    return current_rows(batch.target, spec, valid_from.cast(kind).alias("valid_from"))


def _derived_events(batch: Batch, current: DataFrame) -> DataFrame:
    """The earlier events that are derivable from the rows of the target."""
    row, sets = batch.events.schema["row"].dataType, batch.events.schema["sets"].dataType
    beginnings = current.filter("valid_from IS NOT NULL").select(
        "key",
        F.col("valid_from").alias("sequence"),
        F.lit(False).alias("deleted"),
        F.col("state").alias("row"),
        F.lit(None).cast(sets).alias("sets"),
        F.lit(TARGET).alias("origin"),
        F.lit(False).alias("truncates"),
    )
    if not batch.feed.spec.keeps_versions:
        return beginnings
    closed = current.filter("valid_to IS NOT NULL").select("key", F.col("valid_to").alias("sequence"))
    ends = closed.join(beginnings.select("key", "sequence"), ["key", "sequence"], "left_anti").select(
        "key",
        "sequence",
        F.lit(True).alias("deleted"),
        F.lit(None).cast(row).alias("row"),
        F.lit(None).cast(sets).alias("sets"),
        F.lit(TARGET).alias("origin"),
        F.lit(False).alias("truncates"),
    )
    return beginnings.unionByName(ends)


def _must_retain(batch: Batch) -> Column:
    """True for an event that will not be derivable from the target and is not retained yet."""
    spec = batch.feed.spec
    derivable = F.col("derivable") if spec.keeps_versions or batch.feed.derivable_from_rows else F.lit(False)
    found = ~derivable & (F.col("origin") != RETAINED)
    if not spec.keeps_versions and spec.events_are_full_rows:
        # Full rows that a later event has replaced are not needed.
        found = found & F.col("lasts") & F.col("valid_to").isNull()
    return found
