"""Merges into bitemporal tables: ``headrace.cdc.history.bitemporal_history`` for the keys of a batch.

All events are retained, because the versions known at a time follow from the events known by then. The work per key
grows with the square of the number of its events.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from headrace.model.outcome import ChangeCounts
from headrace.spark.cdc.difference import build_merge, current_rows, difference
from headrace.spark.cdc.fold import SYSTEM, comparable, digest, digest_parts, fold_events, target_versions
from headrace.spark.cdc.merge_batch import Batch, BatchResult
from headrace.spark.cdc.sequence_conflicts import conflict_groups


def bitemporal_changes(batch: Batch) -> BatchResult:
    """The changes that bring the keys of a batch to their new bitemporal versions."""
    events = batch.cache.lazy(batch.events)
    keys = events.select("key").distinct()
    retained = batch.cache.lazy(batch.retained.join(keys, "key", "left_semi"))
    known = batch.cache.lazy(events.unionByName(retained).drop("truncates"))
    current = current_rows(batch.target, batch.feed.spec).join(keys, "key", "left_semi")
    changes = batch.cache.eager(difference(_bitemporal_rows(batch, known), current, batch.feed.spec))
    missing = batch.cache.lazy(_not_retained(batch, events, retained))
    ties = conflict_groups(events).agg(F.sum(F.when(F.col("differ"), F.col("events") - 1)).alias("tied"))
    counts = ChangeCounts(ties.collect()[0]["tied"] or 0, 0, None)
    return BatchResult(build_merge(changes, batch.feed.spec), None if missing.isEmpty() else missing, counts)


def _bitemporal_rows(batch: Batch, known: DataFrame) -> DataFrame:
    """The rows of the target: ``key``, ``state``, ``valid_from``, ``valid_to``, ``since``, ``until``."""
    times = known.select("key", F.col(SYSTEM).alias("at")).distinct()
    by_time = Window.partitionBy("key").orderBy("at")
    times = times.withColumn("number", F.row_number().over(by_time)).withColumn("next", F.lead("at").over(by_time))
    times = batch.cache.lazy(times)
    then = known.join(times.select("key", "at"), "key").filter(F.col(SYSTEM) <= F.col("at"))
    # Of the events with the same sequence, those that became known last count.
    last = F.max(SYSTEM).over(Window.partitionBy("key", "at", "sequence"))
    then = then.withColumn("last", last).filter(F.col(SYSTEM) == F.col("last")).drop("last", SYSTEM)
    then = then.withColumn("key", F.struct("key", "at")).drop("at")
    found = target_versions(fold_events(then, batch.feed.spec), batch.feed.spec)
    found = found.select("key.*", "state", "valid_from", "valid_to").join(times, ["key", "at"])
    kind = found.schema["state"].dataType
    same = ["key", "same", "valid_from", "valid_to"]
    # A version that is known at consecutive times is one row: number and row count then grow together (an island).
    found = found.withColumn("same", comparable(F.col("state"), kind))
    counted = F.row_number().over(Window.partitionBy(*same).orderBy("number"))
    found = found.withColumn("island", F.col("number") - counted)
    return (
        found.groupBy(*same, "island")
        .agg(
            F.max_by("state", "number").alias("state"),
            F.min("at").alias("since"),
            F.max_by("next", "number").alias("until"),
        )
        .select("key", "state", "valid_from", "valid_to", "since", "until")
    )


def _not_retained(batch: Batch, events: DataFrame, retained: DataFrame) -> DataFrame:
    """The events that are not retained yet, without duplicates."""
    kind = events.schema["row"].dataType

    def with_digest(frame: DataFrame) -> DataFrame:
        return frame.withColumn("digest", digest([F.col("deleted"), *digest_parts(F.col("row"), kind)]))

    by = ["key", "sequence", SYSTEM, "digest"]
    distinct = with_digest(events).dropDuplicates(by)
    return distinct.join(with_digest(retained).select(*by), by, "left_anti").select(*batch.events.columns)
