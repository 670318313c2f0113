"""The rows of a source as change events."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from headrace.cdc.change_feed import COMMIT_VERSION
from headrace.cdc.envelope import DELETE, ENVELOPE, OP
from headrace.cdc.feed import ChangeFeed
from headrace.cdc.scd_spec import START_AT, SYSTEM_START_AT, ScdType
from headrace.model.cdc import ApplyChanges
from headrace.model.datasets import Flow
from headrace.model.names import quoted
from headrace.spark.cdc.change_feed import takes_away
from headrace.spark.cdc.fold import BATCH, SYSTEM
from headrace.spark.delta.conform import cast_nested
from headrace.spark.delta.tables import data_type


def events_of(flow: Flow, feed: ChangeFeed, rows: DataFrame) -> DataFrame:
    """Rows of the source as a frame of events, with ``truncates`` beside what ``folding`` speaks of."""
    return rows.select(*event_columns(flow, feed))


def event_columns(flow: Flow, feed: ChangeFeed) -> list[Column]:
    """What a row of the source says as an event."""
    changes = changes_of(flow)
    everything = truncates(changes, feed)
    gone = deletes(changes, feed) & ~everything
    none = {name: F.lit(None).cast(data_type(kind)) for name, kind in feed.gone.items()}
    row = F.struct(*[none.get(name, F.col(quoted(name))).alias(name) for name in feed.shape.columns])
    key = F.struct(*[F.col(quoted(name)).alias(name) for name in feed.shape.keys])
    return [
        key.alias("key"),
        sequence_column(flow, feed).alias("sequence"),
        gone.alias("deleted"),
        F.when(~gone & ~everything, row).alias("row"),
        names_set(changes).alias("sets"),
        F.lit(BATCH).alias("origin"),
        everything.alias("truncates"),
        *([system_column(flow).alias(SYSTEM)] if feed.shape.bitemporal else []),
    ]


def fitted(events: DataFrame, feed: ChangeFeed, target: DataFrame) -> DataFrame:
    """The events with values of the target's types, which may be wider than those of the source."""
    types = {field.name.casefold(): field.dataType for field in target.schema.fields}
    given = {field.name: field.dataType for field in events.schema.fields}
    wanted: dict[str, DataType] = {
        name: StructType([StructField(column, types[column.casefold()]) for column in columns])
        for name, columns in (("key", feed.shape.keys), ("row", feed.shape.columns))
    }
    if feed.shape.scd_type is ScdType.TWO:
        wanted["sequence"] = types[START_AT.casefold()]
    if feed.shape.bitemporal:
        wanted[SYSTEM] = types[SYSTEM_START_AT.casefold()]
    changed = {name: kind for name, kind in wanted.items() if kind.simpleString() != given[name].simpleString()}
    return events.withColumns({name: cast_nested(F.col(name), given[name], kind) for name, kind in changed.items()})


def sequence_column(flow: Flow, feed: ChangeFeed) -> Column:
    """What the events of a flow are ordered by."""
    return ordering(changes_of(flow), by_commit=feed.by_commit)


def system_column(flow: Flow) -> Column:
    """Since when the events of a flow are known, for a table with two times."""
    return expression(changes_of(flow).system_sequence_by)


def changes_of(flow: Flow) -> ApplyChanges:
    """What a flow that applies changes declares; other flows are not asked."""
    assert flow.changes is not None  # noqa: S101 - see above
    return flow.changes


def expression(value: Any) -> Column:
    """A column that was given as such, or as text of SQL."""
    return F.expr(value) if isinstance(value, str) else value


def deletes(changes: ApplyChanges, feed: ChangeFeed) -> Column:
    """That an event takes its row away; never NULL."""
    found = _condition(changes.deletes)
    if feed.of_envelopes:
        found = found | of_envelope(OP).eqNullSafe(DELETE)
    return found | takes_away() if feed.of_commits else found


def truncates(changes: ApplyChanges, feed: ChangeFeed) -> Column:
    """That an event takes all rows away; never NULL."""
    found = _condition(changes.truncates)
    # An event that is taken out of a table of events does not happen once more.
    return found & ~takes_away() if feed.of_commits else found


def names_set(changes: ApplyChanges) -> Column:
    """The columns that an event sets, in small letters; NULL for all."""
    if changes.sets is None:
        return F.lit(None).cast(ArrayType(StringType()))
    return F.transform(expression(changes.sets), F.lower)


def of_envelope(field: str) -> Column:
    """What an opened message of Debezium says beside its row."""
    return F.col(ENVELOPE).getField(field)


def ordering(changes: ApplyChanges, *, by_commit: bool) -> Column:
    """What events are ordered by: as declared, and by their commit where that is asked for."""
    own = expression(changes.sequence_by)
    return F.struct(own.alias("sequence"), F.col(COMMIT_VERSION).alias("commit")) if by_commit else own


def _condition(value: Any) -> Column:
    """A condition that is false where it is NULL, or was not given."""
    return F.lit(False) if value is None else F.coalesce(expression(value), F.lit(False))
