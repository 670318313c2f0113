"""The short way of type 1: where rows tell the sequence of the event that made them, the newest event of a key decides.

The target is read by the MERGE alone, which compares sequences itself.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.cdc.feed import Feed
from headrace.cdc.shape import ScdType
from headrace.model.names import quoted
from headrace.spark.cdc.batch import Batch, Changes, same_key
from headrace.spark.cdc.feed import sequence_column
from headrace.spark.cdc.folding import BATCH, comparable
from headrace.spark.cdc.kept import stored_bytes
from headrace.spark.cdc.merge import SOURCE_ALIAS, TARGET_ALIAS, Merge

# A batch that is sent to every task of the MERGE, so that the target is not sorted for it. Stored rows are compressed.
_BROADCAST_BYTES, _BROADCAST_ROWS = 16 << 20, 100_000
# Of texts and dates Python knows others than Spark.
_BOUNDED = ("tinyint", "smallint", "int", "bigint")


def newest_decides(feed: Feed) -> bool:
    """Whether the short way leads to the same rows, as long as no event takes all rows away."""
    return feed.shape.scd_type is ScdType.ONE and feed.shape.whole_rows and feed.told_in_merge


def newest(batch: Batch) -> Changes:
    """What the newest event of each key does to its row, if the row is not newer."""
    shape = batch.feed.shape
    # One column, of a name that no column of the target has: the rows' own names mean the target's.
    name = "change"
    while name in {column.casefold() for column in batch.target.columns}:
        name += "_"
    found = batch.kept.settled(_newest(batch).select(F.struct("*").alias(name)))
    facts = found.agg(
        F.count("*").alias("rows"),
        F.count_if(F.col(f"{name}.deleted")).alias("deleted"),
        *_bounds(batch, name),
    ).collect()[0]
    small = facts["rows"] <= _BROADCAST_ROWS and stored_bytes(found) <= _BROADCAST_BYTES
    source = F.broadcast(found) if small else found
    matches = same_key(shape.keys, f"{name}.key")
    for number, key in enumerate(shape.keys):
        if facts.asDict().get(f"least{number}") is not None:
            # Files of the target that hold no such keys are passed over.
            of_target = F.col(f"{TARGET_ALIAS}.{quoted(key)}")
            matches = matches & of_target.between(F.lit(facts[f"least{number}"]), F.lit(facts[f"greatest{number}"]))
    changes = F.col(f"{SOURCE_ALIAS}.{name}")
    begun = sequence_column(batch.flow).cast(batch.events.schema["sequence"].dataType)
    tied = changes.getField("sequence") == begun
    # A row without a sequence was not made by an event.
    later = F.coalesce(changes.getField("sequence") > begun, F.lit(True))
    greater = changes.getField("weight") > _weight(batch, lambda column: F.col(f"{TARGET_ALIAS}.{quoted(column)}"))
    deleted = changes.getField("deleted")
    merge = Merge(
        source=source,
        matches=matches,
        deletes=deleted & (later | tied) if facts["deleted"] else None,
        updates=~deleted & (later | (tied & greater)),
        inserts=~deleted,
        values={column: F.col(f"{SOURCE_ALIAS}.{name}.row.{quoted(column)}") for column in shape.columns},
    )
    missing = found.select(f"{name}.*").filter("deleted").select(*batch.events.columns)
    return Changes(merge, missing if facts["deleted"] else None)


def _newest(batch: Batch) -> DataFrame:
    """The newest event of each key of a batch, unless one that is remembered is as new: that was a delete."""
    gone = batch.remembered.filter("NOT truncates").join(batch.events.select("key"), "key", "left_semi")
    events = batch.events.unionByName(gone)
    weight = _weight(batch, lambda column: F.col(f"row.{quoted(column)}"))
    event = F.struct("*", weight.alias("weight"))
    rank = F.struct("sequence", "deleted", weight.alias("weight"), (F.col("origin") != BATCH).alias("remembered"))
    best = events.groupBy("key").agg(F.max_by(event, rank).alias("best")).select("best.*")
    if batch.truncated:
        cut = batch.remembered.filter("truncates").agg(F.max("sequence").alias("cut"))
        best = best.crossJoin(F.broadcast(cut)).filter("cut IS NULL OR sequence > cut").drop("cut")
    return best.filter(F.col("origin") == BATCH)


def _weight(batch: Batch, column: Callable[[str], Column]) -> Column:
    """What the greater of two rows is told by, as ``folding.without_ties`` tells it."""
    row = batch.events.schema["row"].dataType
    assert isinstance(row, StructType)  # noqa: S101 - what a frame of events is
    return F.struct(
        *[comparable(column(field.name), field.dataType).alias(f"c{n}") for n, field in enumerate(row.fields)]
    )


def _bounds(batch: Batch, name: str) -> list[Column]:
    """The least and the greatest value of each key column that has an order which files know, too."""
    key = batch.events.schema["key"].dataType
    assert isinstance(key, StructType)  # noqa: S101 - the same
    found = []
    for number, field in enumerate(key.fields):
        if field.dataType.simpleString() in _BOUNDED:
            value = F.col(f"{name}.key.{quoted(field.name)}")
            found += [F.min(value).alias(f"least{number}"), F.max(value).alias(f"greatest{number}")]
    return found
