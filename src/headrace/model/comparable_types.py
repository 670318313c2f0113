"""The types in which the values of two schemas are compared: the wider of two types, or text without a wider one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from headrace.model.field_pairs import Field, pair_fields
from headrace.model.type_changes import widens

# Not a type of Spark's.
TEXT = "text"
VARIANT = "variant"

_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_MAX_DIGITS = 38


@dataclass(frozen=True)
class Atomic:
    """Values without parts, of an atomic type as Spark's JSON names it, or compared as text."""

    name: str


@dataclass(frozen=True)
class Array:
    """Arrays, whose elements are compared in order."""

    element: Comparable


@dataclass(frozen=True)
class Map:
    """Maps, whose entries are compared in any order."""

    key: Comparable
    value: Comparable


@dataclass(frozen=True)
class Struct:
    """Structs, of which the fields that both have are compared.

    Attributes:
        fields: the name of each field in the first and in the second schema, and its type.
    """

    fields: tuple[tuple[tuple[str, str], Comparable], ...]


Comparable: TypeAlias = "Atomic | Array | Map | Struct"


@dataclass(frozen=True)
class ComparedColumn:
    """A column that both schemas have.

    Attributes:
        names: its name in the first and in the second schema.
        type: how its values are compared.
        is_padded: blanks at the end of its texts mean nothing, as in CHAR of two lengths.
    """

    names: tuple[str, str]
    type: Comparable
    is_padded: bool = False

    @property
    def name(self) -> str:
        """Its name in results: the one in the second schema."""
        return self.names[1]

    @property
    def is_compared_as_text(self) -> bool:
        """True if values of the two types, or of parts of them, can be compared only as text."""
        return _has_text(self.type)


def compared_columns(first: Sequence[Field], second: Sequence[Field]) -> tuple[ComparedColumn, ...]:
    """The columns that two schemas share, in the order of the second."""
    return tuple(
        ComparedColumn(
            (before["name"], after["name"]),
            common_type(before["type"], after["type"]),
            _char_type(before) != _char_type(after) and all(map(_is_char, (before, after))),
        )
        for before, after in pair_fields(first, second).both
    )


def common_type(first: Any, second: Any) -> Comparable:
    """How values of two types, in Spark's JSON, are compared."""
    if isinstance(first, str) and isinstance(second, str):
        return Atomic(_common_atomic(first, second))
    if isinstance(first, str) or isinstance(second, str):
        return _common_void(first, second) or Atomic(TEXT)
    kind = first["type"] if first["type"] == second["type"] else None
    if kind == "struct":
        pairs = pair_fields(first["fields"], second["fields"]).both
        return Struct(tuple(((a["name"], b["name"]), common_type(a["type"], b["type"])) for a, b in pairs))
    if kind == "array":
        return Array(common_type(first["elementType"], second["elementType"]))
    if kind == "map":
        return Map(
            common_type(first["keyType"], second["keyType"]), common_type(first["valueType"], second["valueType"])
        )
    return Atomic(TEXT)


def _common_void(first: Any, second: Any) -> Comparable | None:
    """The type of the other, if one is the type of NULL."""
    if first == "void":
        return common_type(second, second)
    return common_type(first, first) if second == "void" else None


def _common_atomic(first: str, second: str) -> str:
    if second in (first, "void") or widens(second, first):
        return first
    if first == "void" or widens(first, second):
        return second
    left, right = _digits(first), _digits(second)
    if left is not None and right is not None:
        whole, scale = max(left[0], right[0]), max(left[1], right[1])
        return f"decimal({whole + scale},{scale})" if whole + scale <= _MAX_DIGITS else TEXT
    # A number with a binary fraction and a bigint or a decimal: no type has all values of both.
    return TEXT


def _digits(name: str) -> tuple[int, int] | None:
    """The digits before and behind the point of an exact number; None for other types."""
    if name in _INTEGER_DIGITS:
        return _INTEGER_DIGITS[name], 0
    found = _DECIMAL.fullmatch(name)
    return None if found is None else (int(found[1]) - int(found[2]), int(found[2]))


def _has_text(kind: Comparable) -> bool:
    if isinstance(kind, Atomic):
        return kind.name == TEXT
    if isinstance(kind, Array):
        return _has_text(kind.element)
    if isinstance(kind, Map):
        return _has_text(kind.key) or _has_text(kind.value)
    return any(_has_text(field) for _, field in kind.fields)


def _char_type(field: Field) -> str:
    return str(field.get("metadata", {}).get("__CHAR_VARCHAR_TYPE_STRING", ""))


def _is_char(field: Field) -> bool:
    return _char_type(field).startswith("char(")
