"""``cloudFiles.schemaHints``: types that a person gives for columns, or for places inside of them.

A hint's path goes into structs by the names of fields, into arrays by ``element``, into maps by ``key`` and ``value``,
as the vendor's documentation of ``schemaHints`` has it. A column, or a field, that was not seen is added.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.autoloader.ddl import JsonType, NamedType, field_of, struct_of

_SIDES = {"element": ("array", "elementType"), "key": ("map", "keyType"), "value": ("map", "valueType")}


class HintMismatch(ValueError):
    """A hint's path goes into a type that has no such place."""


def with_hints(schema: JsonType, hints: Sequence[NamedType]) -> JsonType:
    """The struct *schema* with the types, and the spelling of names, that *hints* give.

    Columns keep their places, and those that only hints name come behind them.

    Raises:
        HintMismatch: a path leads through a column that is neither a struct nor an array or map.
    """
    for hint in hints:
        schema = _in_struct(schema, hint.path, hint.type, hint)
    return schema


def _at(kind: JsonType, path: tuple[str, ...], given: JsonType, hint: NamedType) -> JsonType:
    """The type *kind*, with *given* at *path* inside of it."""
    if not path:
        return given
    holder = kind["type"] if isinstance(kind, dict) else kind
    if holder == "struct":
        return _in_struct(kind, path, given, hint)
    wanted, side = _SIDES.get(path[0].casefold(), ("", ""))
    if holder != wanted:
        place = ".".join(hint.path[: len(hint.path) - len(path)])
        raise HintMismatch(f'"{".".join(hint.path)}": {place} is {_text(kind)}, which has no "{path[0]}"')
    return {**kind, side: _at(kind[side], path[1:], given, hint)}


def _in_struct(kind: JsonType, path: tuple[str, ...], given: JsonType, hint: NamedType) -> JsonType:
    name, rest = path[0], path[1:]
    fields = list(kind["fields"])
    for place, field in enumerate(fields):
        if field["name"].casefold() == name.casefold():
            fields[place] = {**field, "name": name if not rest else field["name"]} | {
                "type": _at(field["type"], rest, given, hint)
            }
            break
    else:
        fields.append(field_of(name, _made_of(rest, given)))
    return {**kind, "fields": fields}


def _made_of(path: tuple[str, ...], given: JsonType) -> JsonType:
    """The type of a column that no file has: structs along the path."""
    return struct_of([(path[0], _made_of(path[1:], given))]) if path else given


def _text(kind: JsonType) -> str:
    return f"of type {kind}" if isinstance(kind, str) else f"of type {kind['type']}"
