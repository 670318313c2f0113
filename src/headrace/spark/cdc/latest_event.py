"""The short way of type 1: where rows tell the sequence of the event that made them, the newest event of a key decides.

The target is not read here: who writes the changes compares the sequences.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.model.names import quoted
from headrace.model.outcome import ChangeCounts
from headrace.spark.cdc.batch_cache import is_small
from headrace.spark.cdc.change_events import sequence_column
from headrace.spark.cdc.fold import BATCH, comparable, digest, parts_of
from headrace.spark.cdc.key_range import bounds_of, key_range
from headrace.spark.cdc.merge_batch import Batch, Changes, key_in, with_lateness
from headrace.spark.cdc.merge_plan import SOURCE_ALIAS, Merge, same, target_column
from headrace.spark.cdc.sequence_conflicts import tie_groups

# Of a batch that is sent to every task which compares.
_BROADCAST_ROWS = 100_000


def newest(batch: Batch) -> Changes:
    """What the newest event of each key does to its row, if the row is not newer.

    It leads to the same rows as the other way where ``ChangeFeed.path`` says so, and no event takes all rows away.
    """
    shape = batch.feed.shape
    # One column, of a name that no column of the target has: the rows' own names mean the target's.
    name = "change"
    while name in {column.casefold() for column in batch.target.columns}:
        name += "_"
    settled = batch.kept.settled(_newest(batch).select(F.struct("*").alias(name)))
    counts, key = F.col(f"{name}.counts"), batch.events.schema["key"].dataType
    found = settled.filter(F.col(f"{name}.stands"))
    facts = settled.agg(
        F.count_if(F.col(f"{name}.stands")).alias("rows"),
        F.count_if(F.col(f"{name}.stands") & F.col(f"{name}.deleted")).alias("deleted"),
        F.count_if(counts.getField("tied")).alias("tied"),
        F.sum(counts.getField("late")).alias("late"),
        *bounds_of(key, f"{name}.key", F.col(f"{name}.stands")),
    ).collect()[0]
    identity, keys = key_in(shape.keys, f"{name}.key"), key_range(key, facts)
    changes = F.col(f"{SOURCE_ALIAS}.{name}")
    begun = sequence_column(batch.flow, batch.feed).cast(batch.events.schema["sequence"].dataType)
    tied = changes.getField("sequence") == begun
    # A row without a sequence was not made by an event.
    later = F.coalesce(changes.getField("sequence") > begun, F.lit(True))
    greater = changes.getField("weight") > _weight(batch, target_column)
    deleted = changes.getField("deleted")
    merge = Merge(
        source=found,
        matches=same(identity, keys),
        deletes=deleted & (later if shape.upserts_win else later | tied) if facts["deleted"] else None,
        updates=~deleted & (later | (tied & greater)),
        inserts=~deleted,
        values={column: F.col(f"{SOURCE_ALIAS}.{name}.row.{quoted(column)}") for column in shape.columns},
        identity=identity,
        keys=keys,
        small=facts["rows"] <= _BROADCAST_ROWS and is_small(settled),
    )
    missing = found.select(f"{name}.*").filter("deleted").select(*batch.events.columns)
    lost = _tied(batch.events) if facts["tied"] else 0
    return Changes(merge, missing if facts["deleted"] else None, ChangeCounts(lost, facts["late"] or 0))


def _newest(batch: Batch) -> DataFrame:
    """The newest event of each key of a batch, and whether it ``stands``: what is remembered may be as new.

    That was a delete, or a truncate. ``counts`` has whether another event of the batch ``tied`` with it, and how many
    were ``late``.
    """
    gone = batch.remembered.filter("NOT truncates").join(batch.events.select("key"), "key", "left_semi")
    events = with_lateness(batch, batch.events.unionByName(gone))
    of_batch = F.col("origin") == BATCH
    weight = _weight(batch, lambda column: F.col(f"row.{quoted(column)}"))
    event = F.struct(*batch.events.columns, weight.alias("weight"))
    first = (F.col("deleted") != F.lit(batch.feed.shape.upserts_win)).alias("first")
    rank = F.struct("sequence", first, weight.alias("weight"), (~of_batch).alias("remembered"))
    said = digest([F.col("deleted"), *parts_of(F.col("row"), batch.events.schema["row"].dataType)])
    most, least = (F.max(F.when(of_batch, F.struct("sequence", of.alias("of")))) for of in (said, F.bitwise_not(said)))
    counts = F.struct(
        (most.getField("of") != F.bitwise_not(least.getField("of"))).alias("tied"),
        F.count_if(of_batch & F.col("late")).alias("late"),
    )
    best = events.groupBy("key").agg(F.max_by(event, rank).alias("best"), counts.alias("counts"))
    best = best.select("best.*", "counts")
    stands = F.col("origin") == BATCH
    if batch.truncated:
        cut = batch.remembered.filter("truncates").agg(F.max("sequence").alias("cut"))
        best = best.crossJoin(F.broadcast(cut))
        stands = stands & (F.col("cut").isNull() | (F.col("sequence") > F.col("cut")))
    return best.withColumn("stands", stands).drop("cut")


def _tied(events: DataFrame) -> int:
    """How many events of a batch lost to another one with the sequence that is the newest of their key."""
    group = F.struct("events", "differ")
    groups = tie_groups(events).groupBy("key").agg(F.max_by(group, "sequence").alias("ties")).filter("ties.differ")
    return int(groups.agg(F.sum(F.col("ties.events") - 1)).collect()[0][0] or 0)


def _weight(batch: Batch, column: Callable[[str], Column]) -> Column:
    """What the greater of two rows is told by, as ``folding.without_ties`` tells it."""
    row = batch.events.schema["row"].dataType
    assert isinstance(row, StructType)  # noqa: S101 - what a frame of events is
    return F.struct(
        *[comparable(column(field.name), field.dataType).alias(f"c{n}") for n, field in enumerate(row.fields)]
    )
