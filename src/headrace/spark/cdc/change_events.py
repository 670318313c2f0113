"""Converts the rows of a source to change events."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from headrace.cdc.delta_change_feed import COMMIT_VERSION
from headrace.cdc.envelope import DELETE, ENVELOPE, OP
from headrace.cdc.feed import ChangeFeed
from headrace.cdc.scd_spec import START_AT, SYSTEM_START_AT
from headrace.model.cdc import ApplyChanges
from headrace.model.datasets import Flow
from headrace.model.names import quoted
from headrace.spark.cdc.delta_change_feed import is_preimage
from headrace.spark.cdc.fold import BATCH, SYSTEM
from headrace.spark.delta.conform import cast_nested
from headrace.spark.delta.tables import data_type


def events_of(flow: Flow, feed: ChangeFeed, rows: DataFrame) -> DataFrame:
    """Rows of the source as a frame of events: the columns that ``fold`` documents, and ``truncates``."""
    return rows.select(*event_columns(flow, feed))


def event_columns(flow: Flow, feed: ChangeFeed) -> list[Column]:
    """The columns of an event, computed from a row of the source."""
    changes = changes_of(flow)
    truncates = truncate_condition(changes, feed)
    deletes = delete_condition(changes, feed) & ~truncates
    nulls = {name: F.lit(None).cast(data_type(kind)) for name, kind in feed.missing_columns.items()}
    row = F.struct(*[nulls.get(name, F.col(quoted(name))).alias(name) for name in feed.spec.columns])
    key = F.struct(*[F.col(quoted(name)).alias(name) for name in feed.spec.keys])
    return [
        key.alias("key"),
        sequence_column(flow, feed).alias("sequence"),
        deletes.alias("deleted"),
        F.when(~deletes & ~truncates, row).alias("row"),
        set_columns(changes).alias("sets"),
        F.lit(BATCH).alias("origin"),
        truncates.alias("truncates"),
        *([system_column(flow).alias(SYSTEM)] if feed.spec.bitemporal else []),
    ]


def cast_to_target(events: DataFrame, feed: ChangeFeed, target: DataFrame) -> DataFrame:
    """The events cast to the target's types, which may be wider than those of the source."""
    types = {field.name.casefold(): field.dataType for field in target.schema.fields}
    given = {field.name: field.dataType for field in events.schema.fields}
    wanted: dict[str, DataType] = {
        name: StructType([StructField(column, types[column.casefold()]) for column in columns])
        for name, columns in (("key", feed.spec.keys), ("row", feed.spec.columns))
    }
    if feed.spec.keeps_versions:
        wanted["sequence"] = types[START_AT.casefold()]
    if feed.spec.bitemporal:
        wanted[SYSTEM] = types[SYSTEM_START_AT.casefold()]
    changed = {name: kind for name, kind in wanted.items() if kind.simpleString() != given[name].simpleString()}
    return events.withColumns({name: cast_nested(F.col(name), given[name], kind) for name, kind in changed.items()})


def sequence_column(flow: Flow, feed: ChangeFeed) -> Column:
    """The column that orders the events of a flow."""
    return sequence_expression(changes_of(flow), by_commit=feed.by_commit)


def system_column(flow: Flow) -> Column:
    """The time when an event became known, for bitemporal tables."""
    return as_column(changes_of(flow).system_sequence_by)


def changes_of(flow: Flow) -> ApplyChanges:
    """The declaration of a flow that applies changes; never called for other flows."""
    assert flow.changes is not None  # noqa: S101 - see above
    return flow.changes


def as_column(value: Any) -> Column:
    """The column for a value that is a Column or SQL text."""
    return F.expr(value) if isinstance(value, str) else value


def delete_condition(changes: ApplyChanges, feed: ChangeFeed) -> Column:
    """True for an event that deletes its row; never NULL."""
    found = _condition(changes.deletes)
    if feed.is_debezium:
        found = found | envelope_field(OP).eqNullSafe(DELETE)
    return found | is_preimage() if feed.is_delta_change_feed else found


def truncate_condition(changes: ApplyChanges, feed: ChangeFeed) -> Column:
    """True for an event that deletes all rows; never NULL."""
    found = _condition(changes.truncates)
    # Deleting an event from a table of events does not apply the event again.
    return found & ~is_preimage() if feed.is_delta_change_feed else found


def set_columns(changes: ApplyChanges) -> Column:
    """The columns that an event sets, in lower case; NULL for all."""
    if changes.sets is None:
        return F.lit(None).cast(ArrayType(StringType()))
    return F.transform(as_column(changes.sets), F.lower)


def envelope_field(field: str) -> Column:
    """A field that a parsed Debezium message has besides its row."""
    return F.col(ENVELOPE).getField(field)


def sequence_expression(changes: ApplyChanges, *, by_commit: bool) -> Column:
    """The expression that orders events: as declared, then by commit if *by_commit*."""
    own = as_column(changes.sequence_by)
    return F.struct(own.alias("sequence"), F.col(COMMIT_VERSION).alias("commit")) if by_commit else own


def _condition(value: Any) -> Column:
    """A condition that is false if it is NULL or was not declared."""
    return F.lit(False) if value is None else F.coalesce(as_column(value), F.lit(False))
