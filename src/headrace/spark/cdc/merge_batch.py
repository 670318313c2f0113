"""The input and output of the merge algorithms."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.cdc.feed import ChangeFeed
from headrace.model.datasets import Flow
from headrace.model.names import quoted
from headrace.model.outcome import ChangeCounts
from headrace.spark.cdc.batch_cache import BatchCache
from headrace.spark.cdc.merge_plan import SOURCE_ALIAS, Merge


@dataclass(frozen=True)
class Batch:
    """The events of a batch and the current state.

    Args:
        flow: declares what events do.
        feed: the declaration, applied to the columns of the source.
        events: events of the batch, from ``change_events.events_of``.
        retained: events of earlier batches, in the same form.
        target: the current rows.
        has_truncates: a truncate is retained, or may be among the events.
        expired: one row with the greatest sequence of the events that are no longer retained; None if none expired.
        cache: caches frames of the batch.
    """

    flow: Flow
    feed: ChangeFeed
    events: DataFrame
    retained: DataFrame
    target: DataFrame
    has_truncates: bool
    expired: DataFrame | None
    cache: BatchCache


@dataclass(frozen=True)
class BatchResult:
    """The result of a batch.

    Args:
        merge: the changes of the target.
        to_retain: events to store first, because they will not be derivable from the target; None for none.
        counts: counts of the events.
    """

    merge: Merge
    to_retain: DataFrame | None
    counts: ChangeCounts


def with_lateness(batch: Batch, events: DataFrame) -> DataFrame:
    """The events with ``late``: true if the event is not newer than one that is no longer retained."""
    if batch.expired is None:
        return events.withColumn("late", F.lit(False))
    late = F.coalesce(F.col("sequence") <= F.col("expired"), F.lit(False))
    return events.crossJoin(F.broadcast(batch.expired)).withColumn("late", late).drop("expired")


def key_columns(keys: tuple[str, ...], struct: str) -> dict[str, Column]:
    """The key columns, read from a struct of the source."""
    return {name: F.col(f"{SOURCE_ALIAS}.{struct}.{quoted(name)}") for name in keys}
