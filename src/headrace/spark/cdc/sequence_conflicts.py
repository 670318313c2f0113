"""Sequence conflicts: different events of a batch with the same key and sequence, whose order is undefined."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.cdc.feed import ChangeFeed
from headrace.errors import PipelineError
from headrace.model.datasets import Flow
from headrace.model.expectations import Action, Expectation
from headrace.model.names import quoted
from headrace.spark.cdc.change_events import event_columns
from headrace.spark.cdc.fold import SYSTEM, digest, digest_parts

# The expectation that quarantined conflicts violate, and the column that it reads.
CONFLICT_RULE = "cdc.tie"
CONFLICT_COLUMN = "__headrace_tied"
_EVENT = "__headrace_event"
_NAMED = 3


def conflict_rule(flow: Flow) -> Expectation:
    """Quarantines rows that :func:`mark_conflicts` has marked."""
    return Expectation(CONFLICT_RULE, Action.QUARANTINE, ~F.col(CONFLICT_COLUMN), flow.location)


def mark_conflicts(flow: Flow, feed: ChangeFeed, rows: DataFrame) -> DataFrame:
    """The rows with ``CONFLICT_COLUMN``: true for an event that conflicts with another one of the batch."""
    marked = rows.withColumn(_EVENT, F.struct(*event_columns(flow, feed)))
    event = marked.schema[_EVENT].dataType
    assert isinstance(event, StructType)  # noqa: S101 - a struct, one line above
    truncates = F.col(f"{_EVENT}.truncates")
    content = F.when(~truncates, _digest(f"{_EVENT}.", event))
    same = Window.partitionBy(F.col(f"{_EVENT}.key"), *[F.col(f"{_EVENT}.{name}") for name in _order(event)])
    keys = [F.col(f"{_EVENT}.key.{quoted(name)}").isNotNull() for name in feed.spec.keys]
    ordered = reduce(Column.__and__, keys, F.col(f"{_EVENT}.sequence").isNotNull()) & ~truncates
    conflicts = ordered & (F.max(content).over(same) != F.min(content).over(same))
    return marked.withColumn(CONFLICT_COLUMN, F.coalesce(conflicts, F.lit(False))).drop(_EVENT)


def conflict_groups(events: DataFrame) -> DataFrame:
    """By key and sequence the number of ``events``, and whether they ``differ``; truncates are excluded."""
    order = _order(events.schema)
    digests = events.filter("NOT truncates").select("key", *order, _digest("", events.schema).alias("digest"))
    return digests.groupBy("key", *order).agg(
        F.count("*").alias("events"), (F.max("digest") != F.min("digest")).alias("differ")
    )


def fail_on_conflicts(flow: Flow, events: DataFrame, batch_id: int) -> None:
    """Fail the batch if events conflict.

    Raises:
        PipelineError: CDC.TIED, with up to three of the keys.
    """
    groups = conflict_groups(events).filter("differ").orderBy("key", "sequence").limit(_NAMED)
    found = groups.select(F.col("key").cast("string"), F.col("sequence").cast("string")).collect()
    if found:
        text = ", ".join(f"{key} at {sequence}" for key, sequence in found)
        raise PipelineError("CDC.TIED", location=flow.location, flow=flow.name, batch=batch_id, events=text)


def _order(event: StructType) -> list[str]:
    """The columns that order the events of a key."""
    return [name for name in ("sequence", SYSTEM) if name in event.names]


def _digest(prefix: str, event: StructType) -> Column:
    """A digest of the content of an event."""
    row = digest_parts(F.col(f"{prefix}row"), event["row"].dataType)
    return digest([F.col(f"{prefix}deleted"), *row, F.array_sort(F.col(f"{prefix}sets"))])
