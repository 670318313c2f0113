"""Resolves the declaration of a CDC flow against the columns of its source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    MapType,
    StructField,
    StructType,
    VariantType,
)

from headrace.cdc.delta_change_feed import COMMIT_TIMESTAMP, COMMIT_VERSION, is_change_feed, without_feed_columns
from headrace.cdc.envelope import ENVELOPE, FIELDS
from headrace.cdc.feed import ChangeFeed
from headrace.cdc.scd_spec import ALL_TIMES, ScdSpec, ScdType
from headrace.errors import PipelineError
from headrace.model.cdc import ApplyChanges, Columns
from headrace.model.datasets import Flow
from headrace.model.names import quoted
from headrace.model.schema import Schema
from headrace.spark.analysis.lineage import depends_on_its_row, nondeterminism_of
from headrace.spark.cdc.change_events import as_column, changes_of, sequence_expression
from headrace.spark.delta.tables import data_type
from headrace.spark.errors.spark_errors import first_line


def feed_of(flow: Flow, source: DataFrame, table: Schema | None = None) -> ChangeFeed:
    """How the events of a source become rows.

    Args:
        flow: the flow.
        source: the rows of its source, or an empty frame with the same columns.
        table: the columns of the target, if it exists and keeps its rows; columns that the source no longer has are
            NULL in its events.

    Raises:
        PipelineError: CDC.BAD_ARGUMENT for columns that the source lacks, and expressions that do not fit it.
    """
    changes = changes_of(flow)
    names = tuple(source.columns)
    is_delta_change_feed, is_debezium = is_change_feed(names), _is_debezium(source)
    keys = _keys(flow, changes.keys, source)
    columns = _chosen(flow, "column_list", changes.columns, names)
    if changes.columns.all_but:
        columns = without_feed_columns(columns) if is_delta_change_feed else columns
        columns = tuple(column for column in columns if column != ENVELOPE or not is_debezium)
    missing = _missing_columns(table, columns)
    source = source.withColumns({n: F.lit(None).cast(data_type(t)) for n, t in _absent_from(names, missing).items()})
    if set(keys) - set(columns):
        raise _bad(flow, "keys", f"the target has no column {_listed(set(keys) - set(columns))}")
    sequence = _typed(flow, "sequence_by", changes.sequence_by, source)
    system = _typed(flow, "system_sequence_by", changes.system_sequence_by, source) if changes.bitemporal else None
    for argument, field in (("sequence_by", sequence), ("system_sequence_by", system)):
        if field is not None and (isinstance(field.dataType, ArrayType) or _has_no_order(field.dataType)):
            raise _bad(flow, argument, f"{field.dataType.simpleString()} cannot be ordered")
    for argument, condition in (("apply_as_deletes", changes.deletes), ("apply_as_truncates", changes.truncates)):
        if condition is not None:
            found = _typed(flow, argument, condition, source).dataType.simpleString()
            if found != "boolean":
                raise _bad(flow, argument, f"it must be boolean, not {found}")
    if changes.sets is not None:
        found = _typed(flow, "columns_to_update", changes.sets, source).dataType.simpleString()
        if found != "array<string>":
            raise _bad(flow, "columns_to_update", f"it must be array<string>, not {found}")
    by_commit = is_delta_change_feed and _by_commit(flow, source)
    order = sequence_expression(changes, by_commit=by_commit)
    all_columns = (*columns, *missing)
    spec = ScdSpec(
        keys=keys,
        columns=all_columns,
        scd_type=_scd_type(changes),
        bitemporal=changes.bitemporal,
        tracked=_chosen(flow, "track_history_column_list", changes.tracked, all_columns),
        ignore_null_columns=frozenset(_chosen(flow, "ignore_null_updates", changes.ignore_null_columns, all_columns))
        - frozenset(keys),
        partial=changes.sets is not None,
        # Delta may split the removed and the added rows of a commit into two batches.
        upserts_win=is_delta_change_feed,
    )
    _check_added(flow, spec)
    full_rows = spec.events_are_full_rows
    derivable, in_merge = _is_derivable(order, source.select(*map(quoted, columns))) if full_rows else (False, False)
    (order_field,) = source.select(order).schema.fields
    return ChangeFeed(
        spec=spec,
        sequence=order_field.name,
        sequence_type=order_field.dataType.json(),
        source_json=source.schema.json(),
        derivable_from_rows=derivable,
        derivable_in_merge=in_merge,
        is_delta_change_feed=is_delta_change_feed,
        is_debezium=is_debezium,
        missing_columns=missing,
        ignore_null_columns=changes.ignore_null_columns,
        tracked=changes.tracked,
        by_commit=by_commit,
        sequence_depends_on=_nondeterminism(changes, source),
        system=_formatted(changes.system_sequence_by, source) if system is not None else None,
        system_type=system.dataType.json() if system is not None else None,
    )


def snapshot_feed(flow: Flow, snapshot: DataFrame, version_type: str) -> ChangeFeed:
    """How the rows of snapshots become rows.

    Args:
        flow: the flow.
        snapshot: a snapshot, or an empty frame with the same columns.
        version_type: Spark's JSON of the type that snapshots are ordered by.

    Raises:
        PipelineError: CDC.BAD_ARGUMENT for columns that the snapshot lacks.
    """
    compares = flow.snapshots
    assert compares is not None  # noqa: S101 - only called for flows that compare snapshots
    columns = tuple(snapshot.columns)
    spec = ScdSpec(
        keys=_keys(flow, compares.keys, snapshot),
        columns=columns,
        scd_type=ScdType(compares.scd_type),
        tracked=_chosen(flow, "track_history_column_list", compares.tracked, columns),
    )
    _check_added(flow, spec)
    return ChangeFeed(
        spec=spec,
        sequence="the versions of snapshots",
        sequence_type=version_type,
        source_json=snapshot.schema.json(),
        derivable_from_rows=False,
        derivable_in_merge=False,
    )


def target_schema(feed: ChangeFeed) -> Schema:
    """The columns of the target that follow from its source, including the validity columns."""
    source = StructType.fromJson(json.loads(feed.source_json))
    fields = [source[name] for name in feed.spec.columns if name not in feed.missing_columns]
    kinds = [feed.sequence_type, feed.sequence_type, feed.system_type, feed.system_type]
    for name, kind in zip(feed.spec.validity_columns, kinds, strict=False):
        found = data_type(kind or "")
        fields.append(StructField(name, found))
    return Schema.from_json(StructType(fields).json()).nullable


def _is_debezium(source: DataFrame) -> bool:
    """True if the source has the columns that ``headrace.pipelines.debezium`` adds."""
    envelope = source.schema[ENVELOPE].dataType if ENVELOPE in source.columns else None
    return isinstance(envelope, StructType) and set(FIELDS) <= set(envelope.names)


def _by_commit(flow: Flow, source: DataFrame) -> bool:
    """True if rows of a change feed that have the same sequence_by need to be ordered by commit.

    A delete has the sequence of the deleted row, and so has an update that does not change the sequence.
    """
    changes = changes_of(flow)
    names = [name for name in source.columns if name.casefold() not in (COMMIT_VERSION, COMMIT_TIMESTAMP)]
    if not _is_derivable(as_column(changes.sequence_by), source.select(*map(quoted, names)))[0]:
        return False
    if _scd_type(changes) is ScdType.TWO:
        own = _formatted(changes.sequence_by, source)
        ways = f'sequence_by="{COMMIT_VERSION}", or sequence_by="struct({own}, {COMMIT_VERSION})"'
        reason = f"a delete in a change data feed has the {own} of the deleted row, so its version would be empty"
        raise _bad(flow, "sequence_by", f"{reason}; write {ways}")
    return True


def _missing_columns(table: Schema | None, columns: tuple[str, ...]) -> dict[str, str]:
    """The columns of the table that events do not set, with their types."""
    known = {name.casefold() for name in (*columns, *ALL_TIMES)}
    return {c.name: c.json_type for c in (table.columns if table is not None else ()) if c.name.casefold() not in known}


def _absent_from(names: tuple[str, ...], columns: Mapping[str, str]) -> dict[str, str]:
    """The *columns* that are not among *names*; the others exist in the source, and the flow leaves them out."""
    known = {name.casefold() for name in names}
    return {name: kind for name, kind in columns.items() if name.casefold() not in known}


def _scd_type(changes: ApplyChanges) -> ScdType:
    return ScdType.TWO if changes.bitemporal else ScdType(changes.scd_type)


def _check_added(flow: Flow, spec: ScdSpec) -> None:
    """Refuse columns with the names of validity columns."""
    if {name.casefold() for name in spec.validity_columns} & {column.casefold() for column in spec.columns}:
        reason = "the table adds columns with these names; remove them or rename them in a view"
        raise _bad(flow, "column_list", f"{_listed(spec.validity_columns)}: {reason}")


def _keys(flow: Flow, given: tuple[Any, ...], source: DataFrame) -> tuple[str, ...]:
    """The names of the key columns, as the source spells them."""
    keys = tuple(_key(flow, key, source) for key in given)
    if len(set(keys)) < len(keys):
        raise _bad(flow, "keys", f"{_listed(keys)} contains a column twice")
    for key in keys:
        if _has_no_order(source.schema[key].dataType):
            raise _bad(flow, "keys", f'cannot compare "{key}", of type {source.schema[key].dataType.simpleString()}')
    return keys


def _has_no_order(kind: DataType) -> bool:
    """True if Spark can neither order values of a type nor compare them for equality."""
    if isinstance(kind, StructType):
        return any(_has_no_order(field.dataType) for field in kind.fields)
    inner = kind.elementType if isinstance(kind, ArrayType) else kind
    return isinstance(inner, (MapType, VariantType, CalendarIntervalType)) or (
        inner is not kind and _has_no_order(inner)
    )


def _key(flow: Flow, key: Any, source: DataFrame) -> str:
    column = F.col(quoted(key)) if isinstance(key, str) else key
    try:
        (name,) = source.select(column).columns
    except PySparkException as error:
        raise _bad(flow, "keys", first_line(str(error))) from error
    known = next((column for column in source.columns if column.casefold() == name.casefold()), None)
    if known is None:
        raise _bad(flow, "keys", f'the source has no column "{name}"')
    return known


def _chosen(flow: Flow, argument: str, columns: Columns, names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = columns.unknown(names)
    if unknown:
        raise _bad(flow, argument, f"no column {_listed(unknown)} among {_listed(names)}")
    return columns.chosen(names)


def _typed(flow: Flow, argument: str, value: Any, source: DataFrame) -> StructField:
    try:
        return source.select(as_column(value).alias("x")).schema["x"]
    except PySparkException as error:
        raise _bad(flow, argument, first_line(str(error))) from error


def _formatted(value: Any, source: DataFrame) -> str:
    """An expression as Spark formats it: the same for SQL text and an equivalent Column."""
    return source.select(as_column(value)).columns[0]


def _nondeterminism(changes: ApplyChanges, source: DataFrame) -> str | None:
    """What besides the event determines its order; None for nothing."""
    orders = [order for order in (changes.sequence_by, changes.system_sequence_by) if order is not None]
    return next(filter(None, (nondeterminism_of(source.select(as_column(order))) for order in orders)), None)


def _is_derivable(value: Column, rows: DataFrame) -> tuple[bool, bool]:
    """Whether an expression can be computed from rows deterministically, and whether a MERGE can compute it too."""
    try:
        return depends_on_its_row(rows.select(value))
    except PySparkException:
        return False, False


def _bad(flow: Flow, argument: str, reason: str) -> PipelineError:
    return PipelineError("CDC.BAD_ARGUMENT", location=flow.location, flow=flow.name, argument=argument, reason=reason)


def _listed(names: Any) -> str:
    return ", ".join(f'"{name}"' for name in names)
