"""Point-in-time lookup: joins each row with the values of a history table at the row's time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headrace.cdc.scd_spec import END_AT, START_AT, SYSTEM_END_AT, SYSTEM_START_AT
from headrace.errors import PipelineError
from headrace.model.names import quoted

_KEY, _AT, _KIND, _ROW, _FOUND = "__key_", "__at", "__kind", "__row", "__found"
_INTEGERS = frozenset(("byte", "short", "integer", "long"))
_TIMES = frozenset(("date", "timestamp", "timestamp_ntz"))


def point_in_time(
    labels: DataFrame,
    features: DataFrame,
    keys: str | Sequence[str],
    *,
    at: str,
    columns: str | Iterable[str] | None = None,
    prefix: str = "",
) -> DataFrame:
    """Each row of *labels* once, with the features of its key as they were at its time.

    Later values are ignored, so that a model trained on the result does not see its future. A row of features is valid
    from ``__START_AT`` (inclusive) to ``__END_AT`` (exclusive).
    Times of different types are compared in the session's time zone.

    Args:
        labels: a batch; all its columns and rows are in the result.
        features: a batch of a history table, such as ``create_feature_table`` makes; of a bitemporal table, the rows
            of current knowledge.
        keys: columns that both have, of equal or integer types.
        at: the column of *labels* with the time.
        columns: the features (default: all columns but keys and times).
        prefix: of the names of features in the result.

    Returns:
        The columns of *labels*, then the features, all nullable: NULL if no value was known at the time, or if the row
        has no key or time.

    Raises:
        PipelineError: FEATURES.*.
    """
    if labels.isStreaming or features.isStreaming:
        raise PipelineError("FEATURES.STREAM")
    keys = [keys] if isinstance(keys, str) else list(keys)
    if not keys:
        raise PipelineError("FEATURES.NO_KEY")
    _check_columns(features, (START_AT, END_AT), "FEATURES.NO_HISTORY")
    if SYSTEM_END_AT in features.columns:
        features = features.where(_column(SYSTEM_END_AT).isNull()).drop(SYSTEM_START_AT, SYSTEM_END_AT)
    _check_columns(labels, (*keys, at), "FEATURES.UNKNOWN_COLUMN", of="labels")
    columns = [columns] if isinstance(columns, str) else columns
    wanted = _features(features, keys) if columns is None else list(dict.fromkeys(columns))
    _check_columns(features, (*keys, *wanted), "FEATURES.UNKNOWN_COLUMN")
    duplicates = sorted(
        {f"{prefix}{name}".casefold() for name in wanted} & {name.casefold() for name in labels.columns}
    )
    if duplicates:
        raise PipelineError("FEATURES.TAKEN", columns=", ".join(duplicates))
    found = F.struct(_column(END_AT).alias(END_AT), *[_column(name).alias(name) for name in wanted])
    known = features.select(
        *_keys(features, labels, keys), _column(START_AT).alias(_AT), F.lit(0).alias(_KIND), found.alias(_FOUND)
    )
    row = F.struct(*map(_column, labels.columns)).alias(_ROW)
    lookups = labels.select(*_keys(labels, features, keys), _time(labels, at, features), F.lit(1).alias(_KIND), row)
    # Not a range join, which would pair all versions of a key with all its labels.
    together = known.unionByName(lookups, allowMissingColumns=True)
    window = Window.partitionBy(*[f"{_KEY}{number}" for number in range(len(keys))]).orderBy(
        _AT, _KIND, F.col(_FOUND)[END_AT].asc_nulls_last()
    )
    before = window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    newest = together.withColumn(_FOUND, F.last(_FOUND, ignorenulls=True).over(before)).where(F.col(_KIND) == 1)
    until = F.col(_FOUND)[END_AT]
    has_key = reduce(Column.__and__, [F.col(f"{_KEY}{number}").isNotNull() for number in range(len(keys))])
    holds = has_key & F.col(_AT).isNotNull() & (until.isNull() | (F.col(_AT) < until))
    return newest.select(
        *[F.col(_ROW)[name].alias(name) for name in labels.columns],
        *[F.when(holds, F.col(_FOUND)[name]).alias(f"{prefix}{name}") for name in wanted],
    )


def _features(features: DataFrame, keys: Sequence[str]) -> list[str]:
    others = {name.casefold() for name in (*keys, START_AT, END_AT)}
    return [name for name in features.columns if name.casefold() not in others]


def _keys(frame: DataFrame, other: DataFrame, keys: Sequence[str]) -> list[Column]:
    """The keys of a frame, cast for the comparison with those of the other one."""
    found = []
    for number, name in enumerate(keys):
        own, others = (side.select(_column(name)).schema.fields[0].dataType for side in (frame, other))
        is_integer = own.typeName() in _INTEGERS and others.typeName() in _INTEGERS
        if not is_integer and own.simpleString() != others.simpleString():
            types = " and ".join(sorted((own.simpleString(), others.simpleString())))
            raise PipelineError("FEATURES.KEY_TYPE", column=name, types=types)
        found.append((_column(name).cast("bigint") if is_integer else _column(name)).alias(f"{_KEY}{number}"))
    return found


def _time(labels: DataFrame, at: str, features: DataFrame) -> Column:
    given = labels.select(_column(at)).schema.fields[0].dataType
    wanted = features.select(_column(START_AT)).schema.fields[0].dataType
    if given.simpleString() != wanted.simpleString() and not {given.typeName(), wanted.typeName()} <= _TIMES:
        raise PipelineError("FEATURES.TIME_TYPE", column=at, type=given.simpleString(), wanted=wanted.simpleString())
    return _column(at).cast(wanted).alias(_AT)


def _check_columns(frame: DataFrame, names: Iterable[str], code: str, of: str = "features") -> None:
    present = {name.casefold() for name in frame.columns}
    missing = [name for name in names if name.casefold() not in present]
    if missing:
        raise PipelineError(code, missing=", ".join(missing), columns=", ".join(frame.columns), of=of)


def _column(name: str) -> Column:
    return F.col(quoted(name))
