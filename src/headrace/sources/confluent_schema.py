"""Converts Avro schemas to Spark types, and fastavro's values to those that Arrow accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from headrace.autoloader.reading.avro.schema_walker import (
    SchemaWalker,
    UnsupportedAvroSchema,
    full_name,
    possible_names,
)

Converter: TypeAlias = "Callable[[Any], Any] | None"

_PLAIN = {
    "null": "void",
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
}
_WIDER = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}


# The maximum precision of Spark's decimals.
_MAX_DIGITS = 38


def spark_type(schema: Any) -> Any:
    """The Spark type of an Avro schema, in the JSON form of Spark's types; every column is nullable.

    Raises:
        UnsupportedAvroSchema: a recursive record, or a union of several types.

    Source: Spark's ``SchemaConverters.toSqlType``, except for unions of several types, which Spark converts to structs.
    """
    return SchemaWalker(_SparkTypes()).walk(schema)


def without_unsupported_logical_types(schema: Any) -> Any:
    """The schema without logical types that Spark lacks, such as times of day: the underlying type is read.

    This includes decimals without a precision, which Avro requires, or with one that Spark does not support.
    """
    if isinstance(schema, list):
        return [without_unsupported_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kind, logical = schema.get("type"), schema.get("logicalType")
    if isinstance(kind, (dict, list)):
        # A type nested in another one, which fastavro does not read.
        return without_unsupported_logical_types(kind)
    is_supported = _is_decimal(schema) if logical == "decimal" else (kind, logical) in _LOGICAL
    found = {key: value for key, value in schema.items() if key != "logicalType" or is_supported}
    for key in ("items", "values"):
        if isinstance(found.get(key), (dict, list)):
            found[key] = without_unsupported_logical_types(found[key])
    if isinstance(found.get("fields"), list):
        found["fields"] = [
            {**field, "type": without_unsupported_logical_types(field["type"])} for field in found["fields"]
        ]
    return found


def with_references(schema: Any, known: Mapping[str, Any]) -> Any:
    """The schema with each name in *known* replaced by its definition where the name first occurs."""
    return _defined(schema, known, set(), "")


def converter(type_: Any) -> Converter:
    """A function that converts fastavro's values for Arrow, where maps are pairs; None if no conversion is needed."""
    if not isinstance(type_, Mapping):
        return None
    if type_["type"] == "map":
        inner = converter(type_["valueType"])
        return lambda value: None if value is None else [(k, inner(v) if inner else v) for k, v in value.items()]
    if type_["type"] == "array":
        element = converter(type_["elementType"])
        return element and (lambda value: None if value is None else [element(one) for one in value])
    fields = {field["name"]: inner for field in type_["fields"] if (inner := converter(field["type"]))}
    if not fields:
        return None
    return lambda value: None if value is None else {**value, **{name: fields[name](value[name]) for name in fields}}


def _is_decimal(schema: Mapping[str, Any]) -> bool:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    is_valid = isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= _MAX_DIGITS
    return is_valid and precision != 0


class _SparkTypes:
    """Converts types to Spark's, in their JSON form."""

    def primitive(self, kind: str, schema: Mapping[str, Any]) -> Any:
        if kind == "bytes" and schema.get("logicalType") == "decimal" and _is_decimal(schema):
            return _decimal(schema)
        return _LOGICAL.get((kind, str(schema.get("logicalType"))), _PLAIN[kind])

    def enum(self, schema: Mapping[str, Any]) -> Any:  # noqa: ARG002 - Spark's type is the same for all enums
        return "string"

    def fixed(self, schema: Mapping[str, Any]) -> Any:
        return _decimal(schema) if schema.get("logicalType") == "decimal" and _is_decimal(schema) else "binary"

    def array(self, items: Any) -> Any:
        return {"type": "array", "elementType": items, "containsNull": True}

    def map(self, values: Any) -> Any:
        return {"type": "map", "keyType": "string", "valueType": values, "valueContainsNull": True}

    def record(self, fields: Sequence[tuple[str, Any]]) -> Any:
        columns = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in fields]
        return {"type": "struct", "fields": columns}

    def union(self, branches: Sequence[tuple[Any, Any]]) -> Any:
        rest = [(branch, type_) for branch, type_ in branches if branch != "null"]
        if len(rest) == 1:
            return rest[0][1]
        wider = _WIDER.get(frozenset(branch for branch, _ in rest if isinstance(branch, str)))
        if wider is None or not all(isinstance(branch, str) for branch, _ in rest):
            raise UnsupportedAvroSchema("a union of several types has no type of its own in a table")
        return wider


def _decimal(schema: Mapping[str, Any]) -> str:
    return f"decimal({schema['precision']},{schema.get('scale', 0)})"


def _defined(schema: Any, known: Mapping[str, Any], inlined: set[str], namespace: str) -> Any:
    if isinstance(schema, str):
        name = next((name for name in possible_names(schema, namespace) if name in known), None)
        if name is None or name in inlined:
            return schema
        inlined.add(name)
        return _defined(known[name], known, inlined, "")
    if isinstance(schema, list):
        return [_defined(branch, known, inlined, namespace) for branch in schema]
    found = dict(schema)
    inside = full_name(found, namespace).rpartition(".")[0] if "name" in found else namespace
    for key in ("type", "items", "values"):
        if key in found:
            found[key] = _defined(found[key], known, inlined, inside)
    if isinstance(found.get("fields"), list):
        found["fields"] = [
            {**field, "type": _defined(field["type"], known, inlined, inside)} for field in found["fields"]
        ]
    return found
