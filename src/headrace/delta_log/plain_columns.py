"""Columns of which a writer of Delta tables need know nothing but their types."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

# Those that every table may have. Other types need a feature of the table, or mean more than the file has.
PLAIN_TYPES = frozenset(
    ("boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date", "timestamp")
)


def is_plain_column(
    field: Mapping[str, Any], types: Collection[str] = PLAIN_TYPES, special: Collection[str] = frozenset()
) -> bool:
    """Whether a column, with all fields within it, may be NULL and has no metadata but a comment.

    Args:
        field: the column in Spark's JSON.
        types: the names of types that it may have; decimals, structs, arrays and maps of them too.
        special: characters that no name may have.
    """
    known = field["nullable"] and not set(special) & set(field["name"]) and set(field["metadata"]) <= {"comment"}
    return bool(known) and _is_plain_type(field["type"], types, special)


def _is_plain_type(found: Any, types: Collection[str], special: Collection[str]) -> bool:
    if isinstance(found, str):
        return found in types or found.startswith("decimal(")
    kind = found["type"]
    if kind == "struct":
        return all(is_plain_column(field, types, special) for field in found["fields"])
    if kind == "array":
        return _is_plain_type(found["elementType"], types, special)
    parts = (found["keyType"], found["valueType"]) if kind == "map" else ()
    return bool(parts) and all(_is_plain_type(part, types, special) for part in parts)
