"""Schemas of Avro files as Arrow's types, and as what the decoder is told.

Types are Spark's (``SchemaConverters.toSqlType``): a union with null may be null, int with long is long, float with
double is double, any other union is a struct of ``member0``, ``member1`` and so on.

The decoder is told of a schema that has the same bytes and gives values that Arrow takes as they are: logical types but
decimal are left out, since Arrow counts days and times as Avro does, and each branch of such a union is a record of one
field, which is written as the field alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from fastavro.read import LOGICAL_READERS

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
# Of the decoder's: how an enum is read whose symbols are no names.
_OF_ENUM = "headrace-enum"
_INNER = {"array": "items", "map": "values"}
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_DIGITS = 38
# A schema whose types are used in one another grows when it is written out.
_MOST_TYPES = 20_000


class NoAvroSchema(ValueError):
    """A text is no schema of an Avro file, or one that rows cannot be made of; the message says why."""


@dataclass(frozen=True)
class AvroShape:
    """How the records of a file are decoded, and the columns that come of it."""

    wire: Wire
    columns: pa.Schema


def avro_shape(text: str) -> AvroShape:
    """The columns of a writer's schema.

    Raises:
        NoAvroSchema: the text is no schema of a record, or it holds itself.
    """
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise NoAvroSchema("it is not JSON") from error
    try:
        wire, kind = _Reading().type(schema, "", ())
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NoAvroSchema(f"it is not as Avro writes schemas: {type(error).__name__} {error}") from error
    if not pa.types.is_struct(kind) or not isinstance(schema, dict):
        raise NoAvroSchema("it is not that of a record")
    return AvroShape(wire, pa.schema(list(kind)))


def check_avro_schema(text: str) -> None:
    """Refuse a reader's schema that columns cannot be made of, or that asks for more than columns.

    Raises:
        NoAvroSchema: the text is no schema of a record, or a field of it, at whatever depth, has aliases, or a default
            that is not null, or an enum has a default.
    """
    avro_shape(text)
    _check_asks(json.loads(text), ())


def _check_asks(schema: Any, path: tuple[str, ...]) -> None:
    """Refuse what a type asks for beyond columns; a name stands for a type that is defined elsewhere in the schema."""
    if isinstance(schema, list):
        for branch in schema:
            _check_asks(branch, path)
    if not isinstance(schema, dict):
        return
    kind, where = schema["type"], ".".join(path)
    if isinstance(kind, (list, dict)):
        _check_asks(kind, path)
    elif kind == "enum" and "default" in schema:
        raise NoAvroSchema(f'its enum "{where}" has a default, and symbols are read as they are written')
    elif kind in ("record", "error"):
        for field in schema["fields"]:
            _check_field(field, (*path, field["name"]))
    elif kind in _INNER:
        _check_asks(schema[_INNER[kind]], path)


def _check_field(field: Mapping[str, Any], path: tuple[str, ...]) -> None:
    where = ".".join(path)
    if field.get("aliases"):
        raise NoAvroSchema(f'its field "{where}" has aliases, and columns are found by their names alone')
    if field.get("default") is not None:
        raise NoAvroSchema(f'its field "{where}" has a default, and what a file lacks is NULL')
    _check_asks(field["type"], path)


class _Reading:
    """One schema, with the names that it defines."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._types = 0

    def type(self, schema: Any, space: str, within: tuple[str, ...]) -> tuple[Wire, pa.DataType]:
        """What the decoder is told of a type, and Arrow's for it; *within* are the records around it."""
        self._types += 1
        if self._types > _MOST_TYPES:
            raise NoAvroSchema(f"it has more than {_MOST_TYPES} types")
        if isinstance(schema, list):
            return self._union(schema, space, within)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return schema, _PRIMITIVES[schema]
            return self._known(schema, space, within)
        kind = schema["type"]
        if isinstance(kind, (list, dict)):
            return self.type(kind, space, within)
        if kind in ("record", "error", "enum", "fixed"):
            name, space = _full_name(schema, space)
            self._named[name] = (schema, space)
            return self._of_name(name, within)
        if kind == "array":
            wire, element = self.type(schema["items"], space, within)
            return {"type": "array", "items": wire}, pa.list_(pa.field("element", element))
        if kind == "map":
            wire, value = self.type(schema["values"], space, within)
            return {"type": "map", "values": wire}, pa.map_(pa.string(), value)
        return self._logical(schema, kind) if kind in _PRIMITIVES else self._known(kind, space, within)

    def _known(self, name: str, space: str, within: tuple[str, ...]) -> tuple[Wire, pa.DataType]:
        for full in (name, f"{space}.{name}"):
            if full in self._named:
                return self._of_name(full, within)
        raise NoAvroSchema(f'it names a type "{name}" that it does not define')

    def _of_name(self, name: str, within: tuple[str, ...]) -> tuple[Wire, pa.DataType]:
        schema, space = self._named[name]
        own = f"T{self._types}"
        if schema["type"] == "enum":
            return _enum(own, schema["symbols"]), pa.string()
        if schema["type"] == "fixed":
            wire = {"type": "fixed", "name": own, "size": schema["size"]}
            digits = _decimal(schema)
            if digits is None or digits[0] > _digits_in(int(schema["size"])):
                return wire, pa.binary()
            return {**wire, **_as_decimal(digits)}, pa.decimal128(*digits)
        if name in within:
            raise NoAvroSchema(f'its record "{name}" holds itself, and no column is as deep as that')
        fields, made = [], []
        for field in schema["fields"]:
            wire, kind = self.type(field["type"], space, (*within, name))
            fields.append({"name": field["name"], "type": wire})
            made.append(pa.field(field["name"], kind))
        return {"type": "record", "name": own, "fields": fields}, pa.struct(made)

    def _union(self, branches: list[Any], space: str, within: tuple[str, ...]) -> tuple[Wire, pa.DataType]:
        types = [self.type(branch, space, within) for branch in branches]
        wires = [wire for wire, _ in types]
        made = {place: types[place] for place, wire in enumerate(wires) if wire != "null"}
        others = list(made)
        if not others:
            return wires, pa.null()
        if len(others) == 1:
            return wires, made[others[0]][1]
        # By what is written, as Spark compares them: a date is an int.
        plain = frozenset(wire for wire, _ in made.values() if isinstance(wire, str))
        if len(others) == 2 and plain in _WIDENED:
            return wires, _WIDENED[plain]
        # As Spark counts them: without null.
        names = {place: f"member{number}" for number, place in enumerate(others)}
        wires = [
            {
                "type": "record",
                "name": f"U{self._types}_{place}",
                "fields": [{"name": names[place], "type": made[place][0]}],
            }
            if place in made
            else "null"
            for place in range(len(branches))
        ]
        return wires, pa.struct([pa.field(names[place], made[place][1]) for place in others])

    def _logical(self, schema: Mapping[str, Any], kind: str) -> tuple[Wire, pa.DataType]:
        digits = _decimal(schema) if kind == "bytes" else None
        if digits is not None:
            return {"type": "bytes", **_as_decimal(digits)}, pa.decimal128(*digits)
        return kind, _LOGICAL.get((kind, str(schema.get("logicalType"))), _PRIMITIVES[kind])


def _full_name(schema: Mapping[str, Any], space: str) -> tuple[str, str]:
    """The name of a type with its namespace, and that namespace."""
    name = schema["name"]
    if "." in name:
        return name, name.rpartition(".")[0]
    space = schema.get("namespace", space)
    return (f"{space}.{name}" if space else name), space


def _enum(name: str, symbols: list[str]) -> Wire:
    """An enum; where its symbols are no names, which the decoder insists on, the int that is written for one."""
    if all(_SYMBOL.fullmatch(symbol) for symbol in symbols):
        return {"type": "enum", "name": name, "symbols": symbols}
    return {"type": "int", "logicalType": _OF_ENUM, _OF_ENUM: symbols}


def _symbol(place: int, schema: Any, *_: Any) -> str:
    if place < 0:
        raise ValueError(f"an enum has no symbol {place}")
    return str(schema[_OF_ENUM][place])


LOGICAL_READERS[f"int-{_OF_ENUM}"] = _symbol


def _decimal(schema: Mapping[str, Any]) -> tuple[int, int] | None:
    """Precision and scale of a decimal; None of another type, and of what is none by the specification."""
    if schema.get("logicalType") != "decimal":
        return None
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int) and precision > 0 and 0 <= scale <= precision):
        return None
    if precision > _MOST_DIGITS:
        raise NoAvroSchema(f"it has a decimal of {precision} digits, and Spark's have {_MOST_DIGITS} at most")
    return precision, scale


def _as_decimal(digits: tuple[int, int]) -> dict[str, Any]:
    return {"logicalType": "decimal", "precision": digits[0], "scale": digits[1]}


def _digits_in(size: int) -> int:
    """How many digits a number of so many bytes surely holds."""
    return len(str(2 ** (8 * size - 1) - 1)) - 1 if size else 0
