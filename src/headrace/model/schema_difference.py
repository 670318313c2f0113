"""The differences between two schemas of a table, nested fields included."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.model.field_pairs import Field, pair_fields
from headrace.model.names import quoted
from headrace.model.schema import type_text

_PLAIN = re.compile(r"\w+")
# Where Spark keeps CHAR(n) and VARCHAR(n) of a column that is stored as a string.
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"


class SchemaChangeKind(str, Enum):
    """What differs about a column or a nested field."""

    ADDED = "added"
    REMOVED = "removed"
    RENAMED = "renamed"
    TYPE = "type"
    NULLABILITY = "nullability"


@dataclass(frozen=True)
class SchemaDifference:
    """One difference.

    Attributes:
        kind: what differs.
        column: the column, with the path to a nested field; of a renamed one, its name in the second schema.
        first: its name (if renamed), type or nullability in the first schema; empty if it was added.
        second: the same in the second schema; empty if it was removed.
    """

    kind: SchemaChangeKind
    column: str
    first: str = ""
    second: str = ""

    def describe(self) -> str:
        """The difference in one line, as a diff has it."""
        if self.kind is SchemaChangeKind.ADDED:
            return f"+ {self.column} {self.second}"
        if self.kind is SchemaChangeKind.REMOVED:
            return f"- {self.column} {self.first}"
        if self.kind is SchemaChangeKind.RENAMED:
            return f"~ {self.column} was {self.first}"
        return f"~ {self.column} {self.first} -> {self.second}"

    def to_json(self) -> dict[str, Any]:
        """The difference for programs."""
        return {
            "kind": self.kind.value,
            "column": self.column,
            "first": self.first or None,
            "second": self.second or None,
        }


def schema_differences(first: Sequence[Field], second: Sequence[Field]) -> tuple[SchemaDifference, ...]:
    """The differences between two schemas: removed columns, added ones, and then those that both have."""
    return tuple(_of_fields((), first, second))


def column_name(path: Sequence[str]) -> str:
    """The name of a column or nested field; parts with other characters than letters, digits and "_" are quoted."""
    return ".".join(part if _PLAIN.fullmatch(part) else quoted(part) for part in path)


def declared_type(field: Field) -> str:
    """The type of a field in SQL form, with CHAR and VARCHAR as they were declared."""
    return str(field.get("metadata", {}).get(_CHAR) or type_text(field["type"]))


def _of_fields(path: tuple[str, ...], first: Sequence[Field], second: Sequence[Field]) -> Iterator[SchemaDifference]:
    pairs = pair_fields(first, second)
    for field in pairs.removed:
        yield SchemaDifference(SchemaChangeKind.REMOVED, column_name((*path, field["name"])), declared_type(field))
    for field in pairs.added:
        name = column_name((*path, field["name"]))
        yield SchemaDifference(SchemaChangeKind.ADDED, name, second=declared_type(field))
    for before, after in pairs.both:
        inner = (*path, after["name"])
        name = column_name(inner)
        if before["name"] != after["name"]:
            old, new = column_name((*path, before["name"])), after["name"]
            yield SchemaDifference(SchemaChangeKind.RENAMED, name, old, new)
        if before.get("nullable", True) != after.get("nullable", True):
            yield SchemaDifference(SchemaChangeKind.NULLABILITY, name, _nullability(before), _nullability(after))
        if declared_type(before) != declared_type(after) and isinstance(after["type"], str):
            yield SchemaDifference(SchemaChangeKind.TYPE, name, declared_type(before), declared_type(after))
        else:
            yield from _of_types(inner, before["type"], after["type"])


def _of_types(path: tuple[str, ...], first: Any, second: Any) -> Iterator[SchemaDifference]:
    if isinstance(first, str) or isinstance(second, str) or first["type"] != second["type"]:
        if first != second:
            yield SchemaDifference(SchemaChangeKind.TYPE, column_name(path), type_text(first), type_text(second))
    elif first["type"] == "struct":
        yield from _of_fields(path, first["fields"], second["fields"])
    elif first["type"] == "array":
        yield from _of_types((*path, "element"), first["elementType"], second["elementType"])
    elif first["type"] == "map":
        yield from _of_types((*path, "key"), first["keyType"], second["keyType"])
        yield from _of_types((*path, "value"), first["valueType"], second["valueType"])


def _nullability(field: Field) -> str:
    return "null allowed" if field.get("nullable", True) else "not null"
