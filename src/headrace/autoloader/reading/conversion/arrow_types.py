"""Convert between Spark's and Arrow's types, as ``pyspark.sql.pandas.types.to_arrow_schema``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pyarrow as pa

from headrace.model.ddl import JsonType, array_of, field_of, map_of

_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
# As in pyspark.sql.pandas.types.to_arrow_type; Spark recognises the type by the metadata.
VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
_SIMPLE: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "variant": VARIANT,
}

_SINGLE: Mapping[pa.DataType, str] = {kind: name for name, kind in _SIMPLE.items() if kind != VARIANT} | {
    pa.uint8(): "short",
    pa.uint16(): "integer",
    pa.uint32(): "long",
    pa.uint64(): "decimal(20,0)",
}
_ALIKE: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_large_string, "string"),
    (pa.types.is_null, "string"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_fixed_size_binary, "binary"),
)
_MAX_DIGITS = 38


class NoArrowType(ValueError):
    """Files cannot be read as this type."""


def decimal_of(kind: JsonType) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None for another type."""
    match = _DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
    return (int(match.group(1)), int(match.group(2))) if match else None


def arrow_type(kind: JsonType) -> pa.DataType:
    """Arrow's type for a Spark type.

    Raises:
        NoArrowType: there is none.
    """
    if isinstance(kind, str):
        digits = decimal_of(kind)
        if digits:
            return pa.decimal128(*digits)
        if kind not in _SIMPLE:
            raise NoArrowType(f"files cannot be read as {kind}")
        return _SIMPLE[kind]
    if kind["type"] == "struct":
        return pa.struct([_field(field) for field in kind["fields"]])
    if kind["type"] == "array":
        return pa.list_(pa.field("element", arrow_type(kind["elementType"]), nullable=kind["containsNull"]))
    if kind["type"] == "map":
        value = pa.field("value", arrow_type(kind["valueType"]), nullable=kind["valueContainsNull"])
        return pa.map_(pa.field("key", arrow_type(kind["keyType"]), nullable=False), value)
    raise NoArrowType(f"files cannot be read as {kind['type']}")


def arrow_schema(struct: JsonType) -> pa.Schema:
    """Arrow's schema for columns.

    Raises:
        NoArrowType: a type has none.
    """
    return pa.schema([_field(field) for field in struct["fields"]])


def spark_type(kind: pa.DataType) -> JsonType:
    """Spark's type for an Arrow type of a Parquet or ORC file, or of Arrow's inference.

    Raises:
        NoArrowType: Spark has none.
    """
    single = _SINGLE.get(kind) or next((name for is_one, name in _ALIKE if is_one(kind)), None)
    if single is not None:
        return single
    if pa.types.is_decimal(kind) and kind.precision <= _MAX_DIGITS:
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    return _nested_spark_type(kind)


def has_spark_type(kind: pa.DataType) -> bool:
    """Whether Spark has a type for an Arrow type."""
    try:
        spark_type(kind)
    except NoArrowType:
        return False
    return True


def _nested_spark_type(kind: pa.DataType) -> JsonType:
    if pa.types.is_dictionary(kind):
        return spark_type(kind.value_type)
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [field_of(field.name, spark_type(field.type)) for field in kind]}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return array_of(spark_type(kind.value_type))
    if pa.types.is_map(kind):
        return map_of(spark_type(kind.key_type), spark_type(kind.item_type))
    raise NoArrowType(f"Spark has no type for {kind}")


def _field(field: Mapping[str, JsonType]) -> pa.Field:
    return pa.field(field["name"], arrow_type(field["type"]), nullable=field["nullable"])
