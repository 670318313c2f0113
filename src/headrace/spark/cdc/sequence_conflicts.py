"""Events of a batch that have the same key and sequence, and are not the same: none of them follows the other."""

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
from headrace.spark.cdc.fold import SYSTEM, digest, parts_of

# The rule that tied events break where they are set aside, and the column that it looks at.
TIE = "cdc.tie"
TIED_COLUMN = "__headrace_tied"
_EVENT = "__headrace_event"
_NAMED = 3


def tie_rule(flow: Flow) -> Expectation:
    """Sets aside rows that :func:`with_ties` has marked."""
    return Expectation(TIE, Action.QUARANTINE, ~F.col(TIED_COLUMN), flow.location)


def with_ties(flow: Flow, feed: ChangeFeed, rows: DataFrame) -> DataFrame:
    """Rows of the source, with one more column that is true for an event that ties with another row of the batch."""
    marked = rows.withColumn(_EVENT, F.struct(*event_columns(flow, feed)))
    event = marked.schema[_EVENT].dataType
    assert isinstance(event, StructType)  # noqa: S101 - made one line above
    truncates = F.col(f"{_EVENT}.truncates")
    said = F.when(~truncates, _said(f"{_EVENT}.", event))
    same = Window.partitionBy(F.col(f"{_EVENT}.key"), *[F.col(f"{_EVENT}.{name}") for name in _order(event)])
    keys = [F.col(f"{_EVENT}.key.{quoted(name)}").isNotNull() for name in feed.shape.keys]
    ordered = reduce(Column.__and__, keys, F.col(f"{_EVENT}.sequence").isNotNull()) & ~truncates
    tied = ordered & (F.max(said).over(same) != F.min(said).over(same))
    return marked.withColumn(TIED_COLUMN, F.coalesce(tied, F.lit(False))).drop(_EVENT)


def tie_groups(events: DataFrame) -> DataFrame:
    """By key and sequence how many ``events`` there are, and whether they ``differ``; truncates are left out."""
    order = _order(events.schema)
    said = events.filter("NOT truncates").select("key", *order, _said("", events.schema).alias("said"))
    return said.groupBy("key", *order).agg(
        F.count("*").alias("events"), (F.max("said") != F.min("said")).alias("differ")
    )


def refuse_ties(flow: Flow, events: DataFrame, batch_id: int) -> None:
    """Let a batch fail in which events tie.

    Raises:
        PipelineError: CDC.TIED, with up to three of the keys.
    """
    groups = tie_groups(events).filter("differ").orderBy("key", "sequence").limit(_NAMED)
    found = groups.select(F.col("key").cast("string"), F.col("sequence").cast("string")).collect()
    if found:
        said = ", ".join(f"{key} at {sequence}" for key, sequence in found)
        raise PipelineError("CDC.TIED", location=flow.location, flow=flow.name, batch=batch_id, events=said)


def _order(event: StructType) -> list[str]:
    """What events of a key are told apart by."""
    return [name for name in ("sequence", SYSTEM) if name in event.names]


def _said(of: str, event: StructType) -> Column:
    """A digest of all that an event says."""
    row = parts_of(F.col(f"{of}row"), event["row"].dataType)
    return digest([F.col(f"{of}deleted"), *row, F.array_sort(F.col(f"{of}sets"))])
