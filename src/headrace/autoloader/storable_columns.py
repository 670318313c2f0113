"""What of the fields of files can be columns of a table that every reader of Delta opens; the rest is rescued."""

from __future__ import annotations

from headrace.autoloader.ddl import JsonType, field_of
from headrace.autoloader.reading.column_names import can_be_column, folded

# How deep the JSON of a schema may nest: other readers of Delta stop at 127 (serde_json), and a table of quarantine has
# the row in a column. A struct takes three levels, an array or map one: that is 31 structs in one another.
_DEEPEST = 100
_STRUCT_LEVELS, _LIST_LEVELS = 3, 1


def storable(struct: JsonType, *, as_text: bool, plain: bool = False) -> JsonType:
    """A struct without the fields that a table cannot have.

    Left out are names that no table takes, of names that differ in case alone all but the first, and types of nothing.

    Args:
        struct: what the files have.
        as_text: what nests too deep is text, which spells it out; else it is left out.
        plain: the table maps no names, so that fewer can be columns.
    """
    return _struct(struct, _STRUCT_LEVELS, as_text=as_text, plain=plain)


def _struct(struct: JsonType, level: int, *, as_text: bool, plain: bool) -> JsonType:
    found: dict[str, JsonType] = {}
    for field in struct["fields"]:
        if folded(field["name"]) in found or not can_be_column(field["name"], plain=plain):
            continue
        kind = _kind(field["type"], level, as_text=as_text, plain=plain)
        if kind is not None:
            found[folded(field["name"])] = {**field_of(field["name"], kind), "metadata": field.get("metadata", {})}
    return {**struct, "fields": list(found.values())}


def _kind(kind: JsonType, level: int, *, as_text: bool, plain: bool) -> JsonType | None:
    if not isinstance(kind, dict):
        return kind
    level += _STRUCT_LEVELS if kind["type"] == "struct" else _LIST_LEVELS
    if level > _DEEPEST:
        return "string" if as_text else None
    if kind["type"] == "struct":
        inner = _struct(kind, level, as_text=as_text, plain=plain)
        return inner if inner["fields"] else None
    side = "elementType" if kind["type"] == "array" else "valueType"
    made = _kind(kind[side], level, as_text=as_text, plain=plain)
    if made is None:
        return {**kind, side: "string"} if as_text else None
    return {**kind, side: made}
