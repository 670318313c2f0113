"""Select the fields of files that can be columns of a table that all Delta readers open; the rest is rescued."""

from __future__ import annotations

from headrace.autoloader.reading.column_names import can_be_column, fold_name
from headrace.model.ddl import JsonType, field_of

# Maximum nesting of a schema's JSON: other Delta readers stop at 127 (serde_json), and a quarantine table holds the row
# in a column. A struct takes three levels, an array or map one: that allows 31 nested structs.
_DEEPEST = 100
_STRUCT_LEVELS, _LIST_LEVELS = 3, 1


def storable(struct: JsonType, *, as_text: bool, plain_names: bool = False) -> JsonType:
    """Remove the fields that a table cannot have.

    These are invalid names, all but the first of names that differ only in case, and empty structs.

    Args:
        struct: the struct of the files.
        as_text: types that nest too deep become strings that hold their text; otherwise they are removed.
        plain_names: the table has no column mapping, so fewer names are valid.
    """
    return _struct(struct, _STRUCT_LEVELS, as_text=as_text, plain_names=plain_names)


def _struct(struct: JsonType, level: int, *, as_text: bool, plain_names: bool) -> JsonType:
    found: dict[str, JsonType] = {}
    for field in struct["fields"]:
        if fold_name(field["name"]) in found or not can_be_column(field["name"], plain_names=plain_names):
            continue
        kind = _kind(field["type"], level, as_text=as_text, plain_names=plain_names)
        if kind is not None:
            found[fold_name(field["name"])] = {**field_of(field["name"], kind), "metadata": field.get("metadata", {})}
    return {**struct, "fields": list(found.values())}


def _kind(kind: JsonType, level: int, *, as_text: bool, plain_names: bool) -> JsonType | None:
    if not isinstance(kind, dict):
        return kind
    level += _STRUCT_LEVELS if kind["type"] == "struct" else _LIST_LEVELS
    if level > _DEEPEST:
        return "string" if as_text else None
    if kind["type"] == "struct":
        inner = _struct(kind, level, as_text=as_text, plain_names=plain_names)
        return inner if inner["fields"] else None
    part = "elementType" if kind["type"] == "array" else "valueType"
    converted = _kind(kind[part], level, as_text=as_text, plain_names=plain_names)
    if converted is None:
        return {**kind, part: "string"} if as_text else None
    return {**kind, part: converted}
