"""Casts frames and values to the schema of a table, by name and through nested types."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headrace.model.names import quoted
from headrace.model.schema import Column as SchemaColumn
from headrace.model.schema import Schema
from headrace.model.type_changes import schema_change
from headrace.spark.delta.tables import struct_type


def conform(frame: DataFrame, schema: Schema) -> DataFrame:
    """The frame with the columns of a schema: its order, its letter case, its comments.

    Columns that the frame lacks become NULL: expectations may use them, and a write that replaces the schema would drop
    them. Columns that only the frame has come last; the write decides whether to accept them.
    """
    found = Schema.from_json(frame.schema.json())
    if [_shape(column) for column in found.columns] == [_shape(column) for column in schema.columns]:
        return frame
    types = {field.name: field.dataType for field in frame.schema.fields}
    columns = []
    for column, field in zip(schema.columns, struct_type(schema).fields, strict=True):
        known = found.find(column.name)
        value = F.col(quoted(known.name)) if known is not None else F.lit(None).cast(field.dataType)
        if known is not None and known.json_type != column.json_type and _fits(known, column):
            value = cast_nested(value, types[known.name], field.dataType)
        if column.comment is None:
            columns.append(value.alias(column.name))
        else:
            columns.append(value.alias(column.name, metadata={"comment": column.comment}))
    columns += [F.col(quoted(c.name)) for c in found.columns if schema.find(c.name) is None]
    return frame.select(*columns)


def cast_nested(value: Column, given: DataType, wanted: DataType) -> Column:
    """A value cast to a type that can hold it; struct fields that it lacks become NULL.

    Spark casts structs by position, so this casts each field by name.
    """
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        fields = {field.name.casefold(): field for field in given.fields}
        parts = []
        for field in wanted.fields:
            known = fields.get(field.name.casefold())
            if known is None:
                part = F.lit(None).cast(field.dataType)
            else:
                part = cast_nested(value.getField(known.name), known.dataType, field.dataType)
            parts.append(part.alias(field.name))
        return F.when(value.isNotNull(), F.struct(*parts))
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        inner, outer = given.elementType, wanted.elementType
        return F.transform(value, lambda element: cast_nested(element, inner, outer))
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        key, key_wanted, inner, outer = given.keyType, wanted.keyType, given.valueType, wanted.valueType
        if key != key_wanted:
            value = F.transform_keys(value, lambda name, _: cast_nested(name, key, key_wanted))
        return F.transform_values(value, lambda _, entry: cast_nested(entry, inner, outer))
    return value.cast(wanted)


def _fits(given: SchemaColumn, wanted: SchemaColumn) -> bool:
    """True when the wanted type can hold every value of the given one."""
    change = schema_change(Schema((wanted,)).nullable, Schema((replace(given, name=wanted.name),)).nullable)
    return change.is_empty


def _shape(column: SchemaColumn) -> tuple[str, str | None, str]:
    return column.name, column.comment, column.json_type
