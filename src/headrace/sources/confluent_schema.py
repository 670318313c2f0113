"""Converts Avro schemas to Spark types, and fastavro's values to those that Arrow accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Converter: TypeAlias = "Callable[[Any], Any] | None"

_PLAIN = {
    "null": "void",
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "fixed": "binary",
    "string": "string",
    "enum": "string",
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


class UnsupportedSchema(ValueError):
    """A schema without a Spark type; the text says why."""


def spark_type(schema: Any) -> Any:
    """The Spark type of an Avro schema, in the JSON form of Spark's types; every column is nullable.

    Raises:
        UnsupportedSchema: a recursive record, or a union of several types.

    Source: Spark's ``SchemaConverters.toSqlType``, except for unions of several types, which Spark converts to structs.
    """
    return _type(schema, {}, (), "")


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


def _type(schema: Any, definitions: dict[str, Any], enclosing: tuple[str, ...], namespace: str) -> Any:
    """The type of a schema in a namespace; *definitions* precede it, *enclosing* are the records around it."""
    if isinstance(schema, list):
        return _union(schema, definitions, enclosing, namespace)
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema]
        return _named(schema, definitions, enclosing, namespace)
    kind = schema["type"]
    if not isinstance(kind, str):
        return _type(kind, definitions, enclosing, namespace)
    if kind in ("record", "error", "enum", "fixed"):
        name = _full_name(schema, namespace)
        definitions[name] = schema
        if kind in ("record", "error"):
            return _struct(schema, name, definitions, enclosing)
    if kind == "array":
        return {
            "type": "array",
            "elementType": _type(schema["items"], definitions, enclosing, namespace),
            "containsNull": True,
        }
    if kind == "map":
        inner = _type(schema["values"], definitions, enclosing, namespace)
        return {"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": True}
    if schema.get("logicalType") == "decimal" and kind in ("bytes", "fixed") and _is_decimal(schema):
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    return _LOGICAL.get((kind, schema.get("logicalType"))) or _type(kind, definitions, enclosing, namespace)


def _defined(schema: Any, known: Mapping[str, Any], inlined: set[str], namespace: str) -> Any:
    if isinstance(schema, str):
        name = next((name for name in _candidates(schema, namespace) if name in known), None)
        if name is None or name in inlined:
            return schema
        inlined.add(name)
        return _defined(known[name], known, inlined, "")
    if isinstance(schema, list):
        return [_defined(branch, known, inlined, namespace) for branch in schema]
    found = dict(schema)
    inside = _full_name(found, namespace).rpartition(".")[0] if "name" in found else namespace
    for key in ("type", "items", "values"):
        if key in found:
            found[key] = _defined(found[key], known, inlined, inside)
    if isinstance(found.get("fields"), list):
        found["fields"] = [
            {**field, "type": _defined(field["type"], known, inlined, inside)} for field in found["fields"]
        ]
    return found


def _struct(schema: Any, name: str, definitions: dict[str, Any], enclosing: tuple[str, ...]) -> Any:
    if name in enclosing:
        raise UnsupportedSchema(f'record "{name}" holds itself')
    namespace = name.rpartition(".")[0]
    fields = [
        {
            "name": field["name"],
            "type": _type(field["type"], definitions, (*enclosing, name), namespace),
            "nullable": True,
            "metadata": {},
        }
        for field in schema["fields"]
    ]
    return {"type": "struct", "fields": fields}


def _union(branches: list[Any], definitions: dict[str, Any], enclosing: tuple[str, ...], namespace: str) -> Any:
    rest = [branch for branch in branches if branch != "null"]
    if len(rest) == 1:
        return _type(rest[0], definitions, enclosing, namespace)
    wider = _WIDER.get(frozenset(branch for branch in rest if isinstance(branch, str)))
    if wider is None or not all(isinstance(branch, str) for branch in rest):
        raise UnsupportedSchema("a union of several types has no type of its own in a table")
    return wider


def _named(name: str, definitions: dict[str, Any], enclosing: tuple[str, ...], namespace: str) -> Any:
    full = next((full for full in _candidates(name, namespace) if full in definitions), None)
    if full is None:
        raise UnsupportedSchema(f'type "{name}" is not defined')
    return _type(definitions[full], definitions, enclosing, full.rpartition(".")[0])


def _candidates(name: str, namespace: str) -> tuple[str, ...]:
    """The full names that a name may mean, the nearest namespace first."""
    return (f"{namespace}.{name}", name) if namespace and "." not in name else (name,)


def _full_name(schema: Any, namespace: str) -> str:
    name, own = schema["name"], schema.get("namespace", namespace)
    return name if "." in name or not own else f"{own}.{name}"
