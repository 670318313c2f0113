"""Pairs the columns and nested fields of two schemas: by name, or else by the id that column mapping gave them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

# A field as Spark's JSON of a struct has it.
Field: TypeAlias = "dict[str, Any]"

_ID = "delta.columnMapping.id"
_PHYSICAL = "delta.columnMapping.physicalName"


@dataclass(frozen=True)
class FieldPairs:
    """The fields of two structs.

    Attributes:
        both: fields that both have, in the order of the second; their names differ if the field was renamed.
        removed: fields that only the first has.
        added: fields that only the second has.
    """

    both: tuple[tuple[Field, Field], ...] = ()
    removed: tuple[Field, ...] = ()
    added: tuple[Field, ...] = ()


def pair_fields(first: Sequence[Field], second: Sequence[Field]) -> FieldPairs:
    """Pair the fields of two structs: by name in any case, then the others by id.

    Ids mean something within one table only, so fields of two tables must come without their metadata.
    """
    named = {_key(field): field for field in first}
    matches = {_key(field): named[_key(field)] for field in second if _key(field) in named}
    by_id = {_id(field): field for field in first if _key(field) not in matches and _id(field) is not None}
    for field in second:
        if _key(field) not in matches and _id(field) in by_id:
            matches[_key(field)] = by_id.pop(_id(field))
    matched = {_key(field) for field in matches.values()}
    return FieldPairs(
        tuple((matches[_key(field)], field) for field in second if _key(field) in matches),
        tuple(field for field in first if _key(field) not in matched),
        tuple(field for field in second if _key(field) not in matches),
    )


def without_ids(fields: Sequence[Field]) -> list[Field]:
    """The fields without what column mapping says of them, nested fields included."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if key not in (_ID, _PHYSICAL)}
        return [plain(item) for item in value] if isinstance(value, list) else value

    return [plain(field) for field in fields]


def has_same_storage(first: Sequence[Field], second: Sequence[Field]) -> bool:
    """True if a file of one table has the same values in all fields that two of its schemas share.

    A column that was dropped and added again has its old name, but other values: files have it under another name.
    """
    return all(
        _stored_name(before) == _stored_name(after) and _has_same_storage(before["type"], after["type"])
        for before, after in pair_fields(first, second).both
    )


def _has_same_storage(first: Any, second: Any) -> bool:
    if isinstance(first, str) and isinstance(second, str):
        return True
    if isinstance(first, str) or isinstance(second, str) or first["type"] != second["type"]:
        return False
    if first["type"] == "struct":
        return has_same_storage(first["fields"], second["fields"])
    parts = ("elementType", "keyType", "valueType")
    return all(_has_same_storage(first[part], second[part]) for part in parts if part in first)


def _key(field: Field) -> str:
    return str(field["name"]).casefold()


def _id(field: Field) -> Any:
    """What renaming does not change. A table that replaces another gives its columns new numbers and stored names."""
    metadata = field.get("metadata", {})
    return (metadata[_ID], metadata.get(_PHYSICAL)) if _ID in metadata else None


def _stored_name(field: Field) -> str:
    return str(field.get("metadata", {}).get(_PHYSICAL, field["name"]))
