"""The fast path of SCD type 1: if the sequence is derivable from rows, the newest event of a key decides.

The target is not read here: the MERGE compares the sequences.
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
from headrace.spark.cdc.fold import BATCH, comparable, digest, digest_parts
from headrace.spark.cdc.key_range import bounds_of, key_range
from headrace.spark.cdc.merge_batch import Batch, BatchResult, key_columns, with_lateness
from headrace.spark.cdc.merge_plan import SOURCE_ALIAS, Merge, match_condition, target_column
from headrace.spark.cdc.sequence_conflicts import conflict_groups

# The most rows of a batch that is broadcast.
_BROADCAST_ROWS = 100_000


def latest_event_changes(batch: Batch) -> BatchResult:
    """The effect of the newest event of each key on its row, unless the row is newer.

    Leads to the same rows as ``recompute_keys`` if ``ChangeFeed.merge_path`` allows it and no event truncates.
    """
    spec = batch.feed.spec
    # One struct column, with a name that no column of the target has: expressions refer to the target's columns.
    name = "change"
    while name in {column.casefold() for column in batch.target.columns}:
        name += "_"
    cached = batch.cache.eager(_newest_events(batch).select(F.struct("*").alias(name)))
    counts, key = F.col(f"{name}.counts"), batch.events.schema["key"].dataType
    found = cached.filter(F.col(f"{name}.stands"))
    facts = cached.agg(
        F.count_if(F.col(f"{name}.stands")).alias("rows"),
        F.count_if(F.col(f"{name}.stands") & F.col(f"{name}.deleted")).alias("deleted"),
        F.count_if(counts.getField("tied")).alias("tied"),
        F.sum(counts.getField("late")).alias("late"),
        *bounds_of(key, f"{name}.key", F.col(f"{name}.stands")),
    ).collect()[0]
    identity, keys = key_columns(spec.keys, f"{name}.key"), key_range(key, facts)
    changes = F.col(f"{SOURCE_ALIAS}.{name}")
    current = sequence_column(batch.flow, batch.feed).cast(batch.events.schema["sequence"].dataType)
    tied = changes.getField("sequence") == current
    # A row without a sequence does not come from an event.
    later = F.coalesce(changes.getField("sequence") > current, F.lit(True))
    greater = changes.getField("weight") > _weight(batch, target_column)
    deleted = changes.getField("deleted")
    merge = Merge(
        source=found,
        matches=match_condition(identity, keys),
        deletes=deleted & (later if spec.upserts_win else later | tied) if facts["deleted"] else None,
        updates=~deleted & (later | (tied & greater)),
        inserts=~deleted,
        values={column: F.col(f"{SOURCE_ALIAS}.{name}.row.{quoted(column)}") for column in spec.columns},
        identity=identity,
        keys=keys,
        is_small=facts["rows"] <= _BROADCAST_ROWS and is_small(cached),
    )
    deletes = found.select(f"{name}.*").filter("deleted").select(*batch.events.columns)
    lost = _count_lost(batch.events) if facts["tied"] else 0
    return BatchResult(merge, deletes if facts["deleted"] else None, ChangeCounts(lost, facts["late"] or 0))


def _newest_events(batch: Batch) -> DataFrame:
    """The newest event of each key of a batch, and whether it ``stands``: no retained delete or truncate wins over it.

    ``counts`` contains whether another event of the batch ``tied`` with it, and how many events were ``late``.
    """
    deletes = batch.retained.filter("NOT truncates").join(batch.events.select("key"), "key", "left_semi")
    events = with_lateness(batch, batch.events.unionByName(deletes))
    of_batch = F.col("origin") == BATCH
    weight = _weight(batch, lambda column: F.col(f"row.{quoted(column)}"))
    event = F.struct(*batch.events.columns, weight.alias("weight"))
    first = (F.col("deleted") != F.lit(batch.feed.spec.upserts_win)).alias("first")
    rank = F.struct("sequence", first, weight.alias("weight"), (~of_batch).alias("retained"))
    value = digest([F.col("deleted"), *digest_parts(F.col("row"), batch.events.schema["row"].dataType)])
    most, least = (
        F.max(F.when(of_batch, F.struct("sequence", of.alias("of")))) for of in (value, F.bitwise_not(value))
    )
    counts = F.struct(
        (most.getField("of") != F.bitwise_not(least.getField("of"))).alias("tied"),
        F.count_if(of_batch & F.col("late")).alias("late"),
    )
    best = events.groupBy("key").agg(F.max_by(event, rank).alias("best"), counts.alias("counts"))
    best = best.select("best.*", "counts")
    stands = F.col("origin") == BATCH
    if batch.has_truncates:
        truncate = batch.retained.filter("truncates").agg(F.max("sequence").alias("cut"))
        best = best.crossJoin(F.broadcast(truncate))
        stands = stands & (F.col("cut").isNull() | (F.col("sequence") > F.col("cut")))
    return best.withColumn("stands", stands).drop("cut")


def _count_lost(events: DataFrame) -> int:
    """The number of events that lost to another event with the same sequence, the newest of their key."""
    group = F.struct("events", "differ")
    groups = conflict_groups(events).groupBy("key").agg(F.max_by(group, "sequence").alias("ties")).filter("ties.differ")
    return int(groups.agg(F.sum(F.col("ties.events") - 1)).collect()[0][0] or 0)


def _weight(batch: Batch, column: Callable[[str], Column]) -> Column:
    """The value by which rows are ordered, as in ``fold.resolve_sequence_conflicts``."""
    row = batch.events.schema["row"].dataType
    assert isinstance(row, StructType)  # noqa: S101 - the row of an event
    return F.struct(
        *[comparable(column(field.name), field.dataType).alias(f"c{n}") for n, field in enumerate(row.fields)]
    )
