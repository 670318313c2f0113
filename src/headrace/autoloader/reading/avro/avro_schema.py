"""Convert schemas of Avro files to Arrow's types and to a schema for the decoder.

Types are Spark's (``SchemaConverters.toSqlType``): a union with null is nullable, int with long is long, float with
double is double, and any other union is a struct of ``member0``, ``member1`` and so on.

The decoder gets a schema with the same bytes, whose values Arrow takes unchanged. Logical types except decimal are
removed, since Arrow counts days and times as Avro does. Each branch of a union becomes a record of one field, which has
the same encoding as the field alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from fastavro.read import LOGICAL_READERS

from headrace.autoloader.reading.avro.schema_walker import SchemaWalker, UnsupportedAvroSchema

Wire = Any

_PRIMITIVES: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_WIDENED = {frozenset({"int", "long"}): pa.int64(), frozenset({"float", "double"}): pa.float64()}
# A logical type for the decoder: an enum whose symbols are not valid names.
_OF_ENUM = "headrace-enum"
_INNER = {"array": "items", "map": "values"}
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_DIGITS = 38


@dataclass(frozen=True)
class AvroShape:
    """The schema for the decoder (``wire``), and the resulting columns."""

    wire: Wire
    columns: pa.Schema


def parse_avro_schema(text: str) -> AvroShape:
    """Convert a writer's schema.

    Raises:
        UnsupportedAvroSchema: the text is not a record's schema, or it is recursive.
    """
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise UnsupportedAvroSchema("it is not JSON") from error
    try:
        wire, kind = SchemaWalker(_FileTypes()).walk(schema)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnsupportedAvroSchema(f"it is not as Avro writes schemas: {type(error).__name__} {error}") from error
    if not pa.types.is_struct(kind) or not isinstance(schema, dict):
        raise UnsupportedAvroSchema("it is not that of a record")
    return AvroShape(wire, pa.schema(list(kind)))


def check_avro_schema(text: str) -> None:
    """Refuse a reader's schema that cannot become columns, or that uses unsupported features.

    Raises:
        UnsupportedAvroSchema: the text is not a record's schema; or a field, at any depth, has aliases or a default
            other than null; or an enum has a default.
    """
    parse_avro_schema(text)
    _check_unsupported(json.loads(text), ())


def _check_unsupported(schema: Any, path: tuple[str, ...]) -> None:
    """Refuse unsupported features of a type; a name refers to a type defined elsewhere in the schema."""
    if isinstance(schema, list):
        for branch in schema:
            _check_unsupported(branch, path)
    if not isinstance(schema, dict):
        return
    kind, where = schema["type"], ".".join(path)
    if isinstance(kind, (list, dict)):
        _check_unsupported(kind, path)
    elif kind == "enum" and "default" in schema:
        raise UnsupportedAvroSchema(f'its enum "{where}" has a default, and symbols are read as they are written')
    elif kind in ("record", "error"):
        for field in schema["fields"]:
            _check_field(field, (*path, field["name"]))
    elif kind in _INNER:
        _check_unsupported(schema[_INNER[kind]], path)


def _check_field(field: Mapping[str, Any], path: tuple[str, ...]) -> None:
    where = ".".join(path)
    if field.get("aliases"):
        raise UnsupportedAvroSchema(f'its field "{where}" has aliases, and columns are found by their names alone')
    if field.get("default") is not None:
        raise UnsupportedAvroSchema(f'its field "{where}" has a default, and what a file lacks is NULL')
    _check_unsupported(field["type"], path)


_FileType: TypeAlias = "tuple[Wire, pa.DataType]"


class _FileTypes:
    """Converts types to the decoder's and to Arrow's."""

    def __init__(self) -> None:
        self._names = 0

    def primitive(self, kind: str, schema: Mapping[str, Any]) -> _FileType:
        digits = _decimal(schema) if kind == "bytes" else None
        if digits is not None:
            return {"type": "bytes", **_decimal_properties(digits)}, pa.decimal128(*digits)
        return kind, _LOGICAL.get((kind, str(schema.get("logicalType"))), _PRIMITIVES[kind])

    def enum(self, schema: Mapping[str, Any]) -> _FileType:
        return _enum(self._new_name(), schema["symbols"]), pa.string()

    def fixed(self, schema: Mapping[str, Any]) -> _FileType:
        wire = {"type": "fixed", "name": self._new_name(), "size": schema["size"]}
        digits = _decimal(schema)
        if digits is None or digits[0] > _digits_of_bytes(int(schema["size"])):
            return wire, pa.binary()
        return {**wire, **_decimal_properties(digits)}, pa.decimal128(*digits)

    def array(self, items: _FileType) -> _FileType:
        return {"type": "array", "items": items[0]}, pa.list_(pa.field("element", items[1]))

    def map(self, values: _FileType) -> _FileType:
        return {"type": "map", "values": values[0]}, pa.map_(pa.string(), values[1])

    def record(self, fields: Sequence[tuple[str, _FileType]]) -> _FileType:
        wires = [{"name": name, "type": wire} for name, (wire, _) in fields]
        columns = pa.struct([pa.field(name, kind) for name, (_, kind) in fields])
        return {"type": "record", "name": self._new_name(), "fields": wires}, columns

    def union(self, branches: Sequence[tuple[Any, _FileType]]) -> _FileType:
        types = [converted for _, converted in branches]
        wires = [wire for wire, _ in types]
        converted = {index: types[index] for index, wire in enumerate(wires) if wire != "null"}
        others = list(converted)
        if not others:
            return wires, pa.null()
        if len(others) == 1:
            return wires, converted[others[0]][1]
        # Compare the physical types, as Spark does: a date is an int.
        plain = frozenset(wire for wire, _ in converted.values() if isinstance(wire, str))
        if len(others) == 2 and plain in _WIDENED:
            return wires, _WIDENED[plain]
        # Numbered as in Spark: without null.
        names = {index: f"member{number}" for number, index in enumerate(others)}
        wires = [
            {
                "type": "record",
                "name": self._new_name(),
                "fields": [{"name": names[index], "type": converted[index][0]}],
            }
            if index in converted
            else "null"
            for index in range(len(types))
        ]
        return wires, pa.struct([pa.field(names[index], converted[index][1]) for index in others])

    def _new_name(self) -> str:
        """A name for a type of the decoder's schema; types that occur twice are expanded, so they need two names."""
        self._names += 1
        return f"T{self._names}"


def _enum(name: str, symbols: list[str]) -> Wire:
    """An enum; if its symbols are not valid names, which the decoder requires, an int of the custom logical type."""
    if all(_SYMBOL.fullmatch(symbol) for symbol in symbols):
        return {"type": "enum", "name": name, "symbols": symbols}
    return {"type": "int", "logicalType": _OF_ENUM, _OF_ENUM: symbols}


def _symbol(index: int, schema: Any, *_: Any) -> str:
    if index < 0:
        raise ValueError(f"an enum has no symbol {index}")
    return str(schema[_OF_ENUM][index])


LOGICAL_READERS[f"int-{_OF_ENUM}"] = _symbol


def _decimal(schema: Mapping[str, Any]) -> tuple[int, int] | None:
    """Precision and scale of a decimal; None for another type, and for an invalid decimal."""
    if schema.get("logicalType") != "decimal":
        return None
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int) and precision > 0 and 0 <= scale <= precision):
        return None
    if precision > _MAX_DIGITS:
        raise UnsupportedAvroSchema(f"it has a decimal of {precision} digits, and Spark's have {_MAX_DIGITS} at most")
    return precision, scale


def _decimal_properties(digits: tuple[int, int]) -> dict[str, Any]:
    return {"logicalType": "decimal", "precision": digits[0], "scale": digits[1]}


def _digits_of_bytes(size: int) -> int:
    """The number of decimal digits that always fit into *size* bytes."""
    return len(str(2 ** (8 * size - 1) - 1)) - 1 if size else 0
