"""What a way to merge is given, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.cdc.feed import ChangeFeed
from headrace.model.datasets import Flow
from headrace.model.names import quoted
from headrace.model.outcome import ChangeCounts
from headrace.spark.cdc.batch_cache import Kept
from headrace.spark.cdc.merge_plan import SOURCE_ALIAS, Merge


@dataclass(frozen=True)
class Batch:
    """The events of a batch and what they meet.

    Args:
        flow: declares what events do.
        feed: what that means for the columns of its source.
        events: of the batch, as ``feed.events_of`` gives them.
        remembered: events of batches before, in the same form.
        target: the rows that are there.
        truncated: a truncate is remembered, or may be among the events.
        forgotten: one row with the greatest sequence that is not remembered any more; None where nothing is forgotten.
        kept: rows that are computed once.
    """

    flow: Flow
    feed: ChangeFeed
    events: DataFrame
    remembered: DataFrame
    target: DataFrame
    truncated: bool
    forgotten: DataFrame | None
    kept: Kept


@dataclass(frozen=True)
class Changes:
    """What a batch comes to.

    Args:
        merge: what it does to the target.
        missing: events that are to be remembered first, because the target will not tell of them; None for none.
        counts: what became of its events.
    """

    merge: Merge
    missing: DataFrame | None
    counts: ChangeCounts


def with_lateness(batch: Batch, events: DataFrame) -> DataFrame:
    """The events with ``late``: they are not newer than one that is not remembered any more."""
    if batch.forgotten is None:
        return events.withColumn("late", F.lit(False))
    late = F.coalesce(F.col("sequence") <= F.col("forgotten"), F.lit(False))
    return events.crossJoin(F.broadcast(batch.forgotten)).withColumn("late", late).drop("forgotten")


def key_in(keys: tuple[str, ...], struct: str) -> dict[str, Column]:
    """The columns of a key as they lie in a struct of the source."""
    return {name: F.col(f"{SOURCE_ALIAS}.{struct}.{quoted(name)}") for name in keys}
