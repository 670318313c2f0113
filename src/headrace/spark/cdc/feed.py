"""What a declaration means for the columns that its source has, and the source's rows as events."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from headrace.cdc.feed import Feed
from headrace.cdc.shape import END_AT, START_AT, ScdType, Shape
from headrace.errors import PipelineError
from headrace.model.cdc import ApplyChanges, Columns
from headrace.model.datasets import Flow
from headrace.model.expectations import Action, Expectation
from headrace.model.names import quoted
from headrace.model.schema import Schema
from headrace.spark.cdc.folding import BATCH
from headrace.spark.failures import first_line
from headrace.spark.frames import brought
from headrace.spark.plans import Reading, read_plan

NULL_KEY, NULL_SEQUENCE = "cdc.null_key", "cdc.null_sequence"


def feed_of(flow: Flow, source: DataFrame) -> Feed:
    """How the events of a source become rows.

    Args:
        flow: declares it.
        source: the rows of its source, or an empty frame with the same columns.

    Raises:
        PipelineError: CDC.BAD_COLUMNS for columns that the source lacks, CDC.BAD_EXPRESSION for expressions that do not
            fit it.
    """
    changes = _changes(flow)
    names = tuple(source.columns)
    keys = tuple(_key(flow, key, source) for key in changes.keys)
    columns = _chosen(flow, "column_list", changes.columns, names)
    if set(keys) - set(columns):
        raise _bad(flow, "keys", f"{_listed(set(keys) - set(columns))} must be columns of the target")
    sequence = _typed(flow, "sequence_by", changes.sequence_by, source)
    if isinstance(sequence.dataType, (MapType, ArrayType)):
        raise _bad(flow, "sequence_by", f"{sequence.dataType.simpleString()} has no order that events could have")
    for argument, condition in (("apply_as_deletes", changes.deletes), ("apply_as_truncates", changes.truncates)):
        if condition is not None:
            found = _typed(flow, argument, condition, source).dataType.simpleString()
            if found != "boolean":
                raise _bad(flow, argument, f"it is of type {found}, and must be a condition")
    if changes.sets is not None:
        found = _typed(flow, "columns_to_update", changes.sets, source).dataType.simpleString()
        if found != "array<string>":
            raise _bad(flow, "columns_to_update", f"it is of type {found}, and must be array<string>")
    shape = Shape(
        keys=keys,
        columns=columns,
        scd_type=ScdType(changes.scd_type),
        tracked=_chosen(flow, "track_history_column_list", changes.tracked, columns),
        null_keeps=frozenset(_chosen(flow, "ignore_null_updates", changes.null_keeps, columns)) - frozenset(keys),
        partial=changes.sets is not None,
    )
    told = _computed(changes.sequence_by, source.select(*map(quoted, columns))) if shape.whole_rows else None
    return Feed(
        shape=shape,
        sequence=_spelled(changes.sequence_by, source),
        sequence_type=sequence.dataType.json(),
        source_json=source.schema.json(),
        told_by_rows=told is not None,
        told_in_merge=told is not None and not told.python and told.unrepeatable is None,
    )


def target_schema(feed: Feed, source: DataFrame) -> Schema:
    """The columns of the target."""
    fields = [source.schema[name] for name in feed.shape.columns]
    if feed.shape.scd_type is ScdType.TWO:
        kind = StructType.fromJson({"fields": [{**_FIELD, "type": json.loads(feed.sequence_type)}]})["x"].dataType
        fields += [StructField(START_AT, kind), StructField(END_AT, kind)]
    return Schema.from_json(StructType(fields).json()).nullable


def events_of(flow: Flow, feed: Feed, rows: DataFrame) -> DataFrame:
    """Rows of the source as a frame of events, with ``truncates`` beside what ``folding`` speaks of."""
    changes = _changes(flow)
    truncates = _condition(changes.truncates)
    deletes = _condition(changes.deletes) & ~truncates
    row = F.struct(*[F.col(quoted(name)).alias(name) for name in feed.shape.columns])
    sets = _expression(changes.sets) if changes.sets is not None else F.lit(None).cast(ArrayType(StringType()))
    key = F.struct(*[F.col(quoted(name)).alias(name) for name in feed.shape.keys])
    return rows.select(
        key.alias("key"),
        sequence_column(flow).alias("sequence"),
        deletes.alias("deleted"),
        F.when(~deletes & ~truncates, row).alias("row"),
        sets.alias("sets"),
        F.lit(BATCH).alias("origin"),
        truncates.alias("truncates"),
    )


def fitted(events: DataFrame, feed: Feed, target: DataFrame) -> DataFrame:
    """The events with values of the target's types, which may be wider than those of the source."""
    types = {field.name.casefold(): field.dataType for field in target.schema.fields}
    given = {field.name: field.dataType for field in events.schema.fields}
    wanted: dict[str, DataType] = {
        name: StructType([StructField(column, types[column.casefold()]) for column in columns])
        for name, columns in (("key", feed.shape.keys), ("row", feed.shape.columns))
    }
    if feed.shape.scd_type is ScdType.TWO:
        wanted["sequence"] = types[START_AT.casefold()]
    changed = {name: kind for name, kind in wanted.items() if kind.simpleString() != given[name].simpleString()}
    return events.withColumns({name: brought(F.col(name), given[name], kind) for name, kind in changed.items()})


def sequence_column(flow: Flow) -> Column:
    """What the events of a flow are ordered by."""
    return _expression(_changes(flow).sequence_by)


def rules_of(flow: Flow, feed: Feed, declared: tuple[Expectation, ...]) -> tuple[Expectation, ...]:
    """The rules that the events of a flow are judged by: keys and sequences are there, then those of its table.

    Events that take rows away bring no values that the table's own rules could be about.
    """
    changes = _changes(flow)
    removes = _condition(changes.deletes) | _condition(changes.truncates)
    keys = reduce(Column.__and__, [F.col(quoted(name)).isNotNull() for name in feed.shape.keys])
    own = [
        Expectation(NULL_KEY, Action.QUARANTINE, keys | _condition(changes.truncates), flow.location),
        Expectation(NULL_SEQUENCE, Action.QUARANTINE, sequence_column(flow).isNotNull(), flow.location),
    ]
    judging = [
        Expectation(rule.name, rule.action, removes | _expression(rule.predicate), rule.location) for rule in declared
    ]
    return (*own, *judging)


_FIELD = {"name": "x", "nullable": True, "metadata": {}}


def _changes(flow: Flow) -> ApplyChanges:
    assert flow.changes is not None  # noqa: S101 - asked of flows that apply changes only
    return flow.changes


def _expression(value: Any) -> Column:
    return F.expr(value) if isinstance(value, str) else value


def _condition(value: Any) -> Column:
    """A condition that is false where it is NULL, or was not given."""
    return F.lit(False) if value is None else F.coalesce(_expression(value), F.lit(False))


def _key(flow: Flow, key: Any, source: DataFrame) -> str:
    column = F.col(quoted(key)) if isinstance(key, str) else key
    try:
        (name,) = source.select(column).columns
    except PySparkException as error:
        raise _bad(flow, "keys", first_line(str(error))) from error
    known = next((column for column in source.columns if column.casefold() == name.casefold()), None)
    if known is None:
        raise _bad(flow, "keys", f"{name} is no column of the source")
    return known


def _chosen(flow: Flow, argument: str, columns: Columns, names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = columns.unknown(names)
    if unknown:
        raise _bad(flow, argument, f"{_listed(unknown)} is not among {_listed(names)}")
    return columns.chosen(names)


def _typed(flow: Flow, argument: str, value: Any, source: DataFrame) -> StructField:
    try:
        return source.select(_expression(value).alias("x")).schema["x"]
    except PySparkException as error:
        raise _bad(flow, argument, first_line(str(error))) from error


def _spelled(value: Any, source: DataFrame) -> str:
    """An expression as Spark spells it, the same for a text and a column that mean the same."""
    return source.select(_expression(value)).columns[0]


def _computed(value: Any, rows: DataFrame) -> Reading | None:
    """How an expression is computed from rows; None where it cannot be."""
    try:
        return read_plan(rows.select(_expression(value)), lambda _name: None)
    except PySparkException:
        return None


def _bad(flow: Flow, argument: str, reason: str) -> PipelineError:
    return PipelineError("CDC.BAD_ARGUMENT", location=flow.location, flow=flow.name, argument=argument, reason=reason)


def _listed(names: Any) -> str:
    return ", ".join(f'"{name}"' for name in names)
