"""Converts rows to JSON and back, without loss.

Keys of JSON objects are texts, so maps with other keys are stored as lists of entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from headrace.model.names import quoted

# Keeps the microseconds of times, and NULLs.
_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}


def whole_row(frame: DataFrame, names: Sequence[str] | None = None) -> Column:
    """The columns of a frame, or some of them, as a struct for :func:`as_json`."""
    wanted = frame.columns if names is None else names
    return F.struct(*(_stored(F.col(quoted(name)), frame.schema[name].dataType).alias(name) for name in wanted))


def as_json(row: Column) -> Column:
    """A struct from :func:`whole_row` as JSON; binary columns are base64."""
    return F.to_json(row, _OPTIONS)


def from_json(frame: DataFrame, column: str, schema: StructType) -> DataFrame:
    """The rows from a column of JSON; an invalid one fails the query."""
    stored = _stored_type(schema)
    assert isinstance(stored, StructType)  # noqa: S101 - as it is
    parsed = frame.select(F.from_json(column, stored, {**_OPTIONS, "mode": "FAILFAST"}).alias("row")).select("row.*")
    return parsed.select(
        *(_restored(F.col(quoted(field.name)), field.dataType).alias(field.name) for field in schema.fields)
    )


def _stored(column: Column, kind: DataType) -> Column:
    return _changed(column, kind, _stored, F.map_entries)


def _restored(column: Column, kind: DataType) -> Column:
    return _changed(column, kind, _restored, F.map_from_entries)


def _changed(
    column: Column, kind: DataType, inner: Callable[[Column, DataType], Column], of_map: Callable[[Column], Column]
) -> Column:
    """A value with its maps converted, except maps with text keys."""
    if not _has_non_text_keys(kind):
        return column
    if isinstance(kind, StructType):
        fields = [inner(column[field.name], field.dataType).alias(field.name) for field in kind.fields]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda item: inner(item, kind.elementType))
    assert isinstance(kind, MapType)  # noqa: S101 - what else holds maps
    if isinstance(kind.keyType, StringType):
        return F.transform_values(column, lambda _key, value: inner(value, kind.valueType))

    def entry(item: Column) -> Column:
        key, value = inner(item["key"], kind.keyType), inner(item["value"], kind.valueType)
        return F.struct(key.alias("key"), value.alias("value"))

    if of_map is F.map_entries:
        return F.transform(F.map_entries(column), entry)
    return F.map_from_entries(F.transform(column, entry))


def _stored_type(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, _stored_type(field.dataType)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_stored_type(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        key, value = _stored_type(kind.keyType), _stored_type(kind.valueType)
        if isinstance(kind.keyType, StringType):
            return MapType(key, value, kind.valueContainsNull)
        return ArrayType(StructType([StructField("key", key), StructField("value", value)]))
    return kind


def _has_non_text_keys(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_non_text_keys(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_non_text_keys(kind.elementType)
    if isinstance(kind, MapType):
        return not isinstance(kind.keyType, StringType) or _has_non_text_keys(kind.valueType)
    return False
