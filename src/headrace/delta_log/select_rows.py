"""Reads rows of Delta tables without a JVM, where the result is certain to be what Spark returns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import Any

from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from headrace.delta_log.table_features import features_of

# Types whose values are the same in Spark and in delta-rs.
_TYPES = frozenset(
    ("boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date", "timestamp")
)
INTEGERS = frozenset(("byte", "short", "integer", "long"))
# What a reader need not know of, or what delta-rs reads as Spark does.
_FEATURES = frozenset(
    {
        *("checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns", "deletionVectors"),
        *("timestampNtz", "domainMetadata", "clustering", "rowTracking", "inCommitTimestamp"),
    }
)
# More rows than these, Spark may refuse to collect.
_MOST_ROWS = 1_000_000
# Older dates were written in another calendar by some versions of Spark.
_FIRST_DATE = date(1900, 1, 1)
_MICROSECONDS = 1_000_000


def plain_column_types(table: DeltaTable) -> dict[str, str] | None:
    """The columns of a table, with the types of those that can be read here, and "" for others.

    Returns:
        None if delta-rs may read the table in another way than Spark.
    """
    if unread_features(table):
        return None
    partitions = set(table.metadata().partition_columns)
    return {
        field["name"]: _type(field) if field["name"] not in partitions else ""
        for field in json.loads(table.schema().to_json())["fields"]
    }


def unread_features(table: DeltaTable) -> tuple[str, ...]:
    """The features of a table because of which delta-rs may read it in another way than Spark, sorted."""
    protocol = table.protocol()
    features = features_of(
        {*(protocol.reader_features or ()), *(protocol.writer_features or ())}, table.metadata().configuration
    )
    return tuple(sorted(set(features.names) - _FEATURES))


def _type(field: dict[str, Any]) -> str:
    kind = field["type"]
    if not isinstance(kind, str) or not set(field["metadata"]) <= {"comment"}:
        return ""
    return kind if kind in _TYPES or kind.startswith("decimal(") else ""


def select_rows(
    table: DeltaTable, columns: Sequence[str], condition: str, limit: int | None
) -> tuple[tuple[Any, ...], ...] | None:
    """The values of columns in the rows that meet a condition, as Spark's rows have them.

    Args:
        table: one for which :func:`plain_column_types` has a type for each of the columns.
        columns: their names, as the table spells them, without repetition.
        condition: in the SQL of delta-rs; empty for all rows.
        limit: the maximum number of rows; None for all.

    Returns:
        None if only Spark knows what it returns, or which error it raises.
    """
    import pyarrow as pa  # noqa: PLC0415 - takes longer than many verbs

    names = ", ".join(map(delta_identifier, columns))
    where = f" WHERE {condition}" if condition else ""
    most = _MOST_ROWS + 1 if limit is None else limit
    try:
        query = f"SELECT {names} FROM q{where} LIMIT {most}"  # noqa: S608 - of quoted names, and of parsed literals
        result: Any = QueryBuilder().register("q", table).execute(query)
        found = pa.table(result.read_all())
    except (DeltaError, OSError, ValueError, ArithmeticError):
        return None
    if found.num_rows > _MOST_ROWS:
        return None
    try:
        return tuple(zip(*map(_values, found.columns), strict=True))
    except (_OtherCalendarError, ValueError, OverflowError, OSError):
        # Times that Python does not have in the time zone of this machine, among them.
        return None


def count_where(table: DeltaTable, condition: str) -> int | None:
    """The number of rows that meet a condition; None if only Spark knows."""
    where = f" WHERE {condition}" if condition else ""
    try:
        query = f"SELECT count(*) AS rows FROM q{where}"  # noqa: S608 - of quoted names, and of parsed literals
        result: Any = QueryBuilder().register("q", table).execute(query)
        return int(result.read_all().column("rows")[0].as_py())
    except (DeltaError, OSError, ValueError, ArithmeticError):
        return None


def delta_identifier(name: str) -> str:
    """A name in the SQL of delta-rs."""
    return '"' + name.replace('"', '""') + '"'


class _OtherCalendarError(Exception):
    """A value is so old that it depends on the writer what it means."""


def _values(column: Any) -> Iterator[Any]:
    import pyarrow as pa  # noqa: PLC0415 - imported by the caller already

    kind = column.type
    if pa.types.is_timestamp(kind):
        return map(_local_time, column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist())
    if pa.types.is_date(kind):
        return map(_date, column.to_pylist())
    return iter(column.to_pylist())


def _local_time(microseconds: int | None) -> datetime | None:
    """The time that PySpark makes of a timestamp."""
    if microseconds is None:
        return None
    seconds, rest = divmod(microseconds, _MICROSECONDS)
    found = datetime.fromtimestamp(seconds).replace(microsecond=rest)  # noqa: DTZ006 - PySpark's values have no zone
    if found.date() < _FIRST_DATE:
        raise _OtherCalendarError
    return found


def _date(found: date | None) -> date | None:
    if found is not None and found < _FIRST_DATE:
        raise _OtherCalendarError
    return found
