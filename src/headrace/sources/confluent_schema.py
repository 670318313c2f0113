"""Avro schemas as types of Spark, and what fastavro reads as what Arrow takes."""

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


# Of a decimal of Spark.
_MOST_DIGITS = 38


class UnsupportedSchema(ValueError):
    """A schema that has no type in Spark; the text says why."""


def spark_type(schema: Any) -> Any:
    """The Spark type of an Avro schema, in the JSON form of Spark's types; every column is nullable.

    Raises:
        UnsupportedSchema: a record that holds itself, or a union of several types.

    Source: Spark's ``SchemaConverters.toSqlType``, but for unions of several types, which it makes structs of.
    """
    return _type(schema, {}, (), "")


def without_other_logic(schema: Any) -> Any:
    """The schema without logical types that have none in Spark, such as times of day: what they stand on is read.

    So it is with decimals that say no precision, as Avro wants it, or one that Spark does not have.
    """
    if isinstance(schema, list):
        return [without_other_logic(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kind, logical = schema.get("type"), schema.get("logicalType")
    if isinstance(kind, (dict, list)):
        # A type within another one, which fastavro does not read.
        return without_other_logic(kind)
    kept = _is_decimal(schema) if logical == "decimal" else (kind, logical) in _LOGICAL
    found = {key: value for key, value in schema.items() if key != "logicalType" or kept}
    for key in ("items", "values"):
        if isinstance(found.get(key), (dict, list)):
            found[key] = without_other_logic(found[key])
    if isinstance(found.get("fields"), list):
        found["fields"] = [{**field, "type": without_other_logic(field["type"])} for field in found["fields"]]
    return found


def with_references(schema: Any, known: Mapping[str, Any]) -> Any:
    """The schema with the definition of each name in *known* in the place where the name stands first."""
    return _defined(schema, known, set(), "")


def converter(type_: Any) -> Converter:
    """What makes a value that fastavro has read one that Arrow takes, or None where it is one: maps are pairs there."""
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
    sound = isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= _MOST_DIGITS
    return sound and precision != 0


def _type(schema: Any, named: dict[str, Any], within: tuple[str, ...], space: str) -> Any:
    """The type of a schema that stands in a namespace; *named* are those before it, *within* the records around it."""
    if isinstance(schema, list):
        return _union(schema, named, within, space)
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema]
        return _named(schema, named, within, space)
    kind = schema["type"]
    if not isinstance(kind, str):
        return _type(kind, named, within, space)
    if kind in ("record", "error", "enum", "fixed"):
        name = _full_name(schema, space)
        named[name] = schema
        if kind in ("record", "error"):
            return _struct(schema, name, named, within)
    if kind == "array":
        return {"type": "array", "elementType": _type(schema["items"], named, within, space), "containsNull": True}
    if kind == "map":
        inner = _type(schema["values"], named, within, space)
        return {"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": True}
    if schema.get("logicalType") == "decimal" and kind in ("bytes", "fixed") and _is_decimal(schema):
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    return _LOGICAL.get((kind, schema.get("logicalType"))) or _type(kind, named, within, space)


def _defined(schema: Any, known: Mapping[str, Any], done: set[str], space: str) -> Any:
    if isinstance(schema, str):
        name = next((name for name in _candidates(schema, space) if name in known), None)
        if name is None or name in done:
            return schema
        done.add(name)
        return _defined(known[name], known, done, "")
    if isinstance(schema, list):
        return [_defined(branch, known, done, space) for branch in schema]
    found = dict(schema)
    inside = _full_name(found, space).rpartition(".")[0] if "name" in found else space
    for key in ("type", "items", "values"):
        if key in found:
            found[key] = _defined(found[key], known, done, inside)
    if isinstance(found.get("fields"), list):
        found["fields"] = [{**field, "type": _defined(field["type"], known, done, inside)} for field in found["fields"]]
    return found


def _struct(schema: Any, name: str, named: dict[str, Any], within: tuple[str, ...]) -> Any:
    if name in within:
        raise UnsupportedSchema(f'record "{name}" holds itself')
    space = name.rpartition(".")[0]
    fields = [
        {
            "name": field["name"],
            "type": _type(field["type"], named, (*within, name), space),
            "nullable": True,
            "metadata": {},
        }
        for field in schema["fields"]
    ]
    return {"type": "struct", "fields": fields}


def _union(branches: list[Any], named: dict[str, Any], within: tuple[str, ...], space: str) -> Any:
    rest = [branch for branch in branches if branch != "null"]
    if len(rest) == 1:
        return _type(rest[0], named, within, space)
    wider = _WIDER.get(frozenset(branch for branch in rest if isinstance(branch, str)))
    if wider is None or not all(isinstance(branch, str) for branch in rest):
        raise UnsupportedSchema("a union of several types has no type of its own in a table")
    return wider


def _named(name: str, named: dict[str, Any], within: tuple[str, ...], space: str) -> Any:
    full = next((full for full in _candidates(name, space) if full in named), None)
    if full is None:
        raise UnsupportedSchema(f'type "{name}" is not defined')
    return _type(named[full], named, within, full.rpartition(".")[0])


def _candidates(name: str, space: str) -> tuple[str, ...]:
    """What a name may stand for, the nearest first."""
    return (f"{space}.{name}", name) if space and "." not in name else (name,)


def _full_name(schema: Any, space: str) -> str:
    name, own = schema["name"], schema.get("namespace", space)
    return name if "." in name or not own else f"{own}.{name}"
