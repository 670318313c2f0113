"""Applies ``cloudFiles.schemaHints`` to an inferred schema: types that a user gives for columns or nested fields.

A hint's path enters structs by field name, arrays by ``element``, and maps by ``key`` and ``value``, as in the vendor's
documentation of ``schemaHints``. A column or field that was not inferred is added.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.model.ddl import JsonType, NamedType, field_of, struct_of

_PARTS = {"element": ("array", "elementType"), "key": ("map", "keyType"), "value": ("map", "valueType")}


class HintMismatch(ValueError):
    """A hint's path enters a type that has no such part."""


def with_hints(schema: JsonType, hints: Sequence[NamedType]) -> JsonType:
    """Apply the types, and the spelling of names, of *hints* to the struct *schema*.

    Columns keep their order; columns that only the hints name are appended.

    Raises:
        HintMismatch: a path enters a column that is not a struct, array or map.
    """
    for hint in hints:
        schema = _in_struct(schema, hint.path, hint.type, hint)
    return schema


def _replace_at(kind: JsonType, path: tuple[str, ...], hinted: JsonType, hint: NamedType) -> JsonType:
    """The type *kind*, with the type *hinted* at *path* inside it."""
    if not path:
        return hinted
    container = kind["type"] if isinstance(kind, dict) else kind
    if container == "struct":
        return _in_struct(kind, path, hinted, hint)
    expected, part = _PARTS.get(path[0].casefold(), ("", ""))
    if container != expected:
        position = ".".join(hint.path[: len(hint.path) - len(path)])
        raise HintMismatch(f'"{".".join(hint.path)}": {position} is {_describe(kind)}, which has no "{path[0]}"')
    return {**kind, part: _replace_at(kind[part], path[1:], hinted, hint)}


def _in_struct(kind: JsonType, path: tuple[str, ...], hinted: JsonType, hint: NamedType) -> JsonType:
    name, rest = path[0], path[1:]
    fields = list(kind["fields"])
    for position, field in enumerate(fields):
        if field["name"].casefold() == name.casefold():
            fields[position] = {**field, "name": name if not rest else field["name"]} | {
                "type": _replace_at(field["type"], rest, hinted, hint)
            }
            break
    else:
        fields.append(field_of(name, _nested_type(rest, hinted)))
    return {**kind, "fields": fields}


def _nested_type(path: tuple[str, ...], hinted: JsonType) -> JsonType:
    """The type of a column that was not inferred: nested structs along the path."""
    return struct_of([(path[0], _nested_type(path[1:], hinted))]) if path else hinted


def _describe(kind: JsonType) -> str:
    return f"of type {kind}" if isinstance(kind, str) else f"of type {kind['type']}"
