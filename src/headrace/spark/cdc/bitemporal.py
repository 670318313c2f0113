"""The way of tables with two times: what ``headrace.cdc.history.beliefs`` defines, for the keys that a batch touches.

All events are remembered, for what was believed at a time follows from the events that were known by then. A key takes
work by the square of the number of its events.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from headrace.model.outcome import ChangeCounts
from headrace.spark.cdc.difference import difference, merge_of, rows_of
from headrace.spark.cdc.fold import SYSTEM, comparable, digest, folded, parts_of, versions
from headrace.spark.cdc.merge_batch import Batch, Changes
from headrace.spark.cdc.sequence_conflicts import tie_groups


def believed(batch: Batch) -> Changes:
    """What was believed of the keys that a batch touches, from now on."""
    events = batch.kept.when_asked(batch.events)
    keys = events.select("key").distinct()
    remembered = batch.kept.when_asked(batch.remembered.join(keys, "key", "left_semi"))
    known = batch.kept.when_asked(events.unionByName(remembered).drop("truncates"))
    current = rows_of(batch.target, batch.feed.shape).join(keys, "key", "left_semi")
    changes = batch.kept.settled(difference(_beliefs(batch, known), current, batch.feed.shape))
    missing = batch.kept.when_asked(_not_remembered(batch, events, remembered))
    ties = tie_groups(events).agg(F.sum(F.when(F.col("differ"), F.col("events") - 1)).alias("tied"))
    counts = ChangeCounts(ties.collect()[0]["tied"] or 0, 0, None)
    return Changes(merge_of(changes, batch.feed.shape), None if missing.isEmpty() else missing, counts)


def _beliefs(batch: Batch, known: DataFrame) -> DataFrame:
    """The rows of the target: ``key``, ``state``, ``begun``, ``ended``, ``since``, ``until``."""
    times = known.select("key", F.col(SYSTEM).alias("at")).distinct()
    by_time = Window.partitionBy("key").orderBy("at")
    times = times.withColumn("number", F.row_number().over(by_time)).withColumn("next", F.lead("at").over(by_time))
    times = batch.kept.when_asked(times)
    then = known.join(times.select("key", "at"), "key").filter(F.col(SYSTEM) <= F.col("at"))
    # Of the events with one sequence those count that were known last.
    last = F.max(SYSTEM).over(Window.partitionBy("key", "at", "sequence"))
    then = then.withColumn("last", last).filter(F.col(SYSTEM) == F.col("last")).drop("last", SYSTEM)
    then = then.withColumn("key", F.struct("key", "at")).drop("at")
    found = versions(folded(then, batch.feed.shape), batch.feed.shape)
    found = found.select("key.*", "state", "begun", "ended").join(times, ["key", "at"])
    kind = found.schema["state"].dataType
    same = ["key", "same", "begun", "ended"]
    # What is believed at times that follow each other is one belief: their numbers grow as the rows are counted.
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
        .select("key", "state", "begun", "ended", "since", "until")
    )


def _not_remembered(batch: Batch, events: DataFrame, remembered: DataFrame) -> DataFrame:
    """The events that are not remembered yet, each once."""
    kind = events.schema["row"].dataType

    def told_apart(frame: DataFrame) -> DataFrame:
        said = digest([F.col("deleted"), *parts_of(F.col("row"), kind)])
        return frame.withColumn("said", said)

    by = ["key", "sequence", SYSTEM, "said"]
    fresh = told_apart(events).dropDuplicates(by)
    return fresh.join(told_apart(remembered).select(*by), by, "left_anti").select(*batch.events.columns)
