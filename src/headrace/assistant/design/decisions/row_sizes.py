"""How many bytes a row takes, guessed from its types.

Source of the numbers: Spark's ``UnsafeRow`` has 8 bytes a field, 8 bytes of null bits, and the bytes of values of
variable length. The lengths of texts and nested values are assumptions; a measurement replaces them.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.assistant.design.requirements import Column

_FIELD_BYTES, _ROW_BYTES = 8, 8
# Assumed lengths of values of variable length.
_VARIABLE_BYTES = {"string": 24, "binary": 100, "variant": 100}
_NESTED_BYTES = 64
_UNKNOWN_BYTES = 16


def row_bytes(columns: Iterable[Column]) -> int:
    """The bytes of a row in memory."""
    return _ROW_BYTES + sum(_FIELD_BYTES + _variable_bytes(column) for column in columns)


def _variable_bytes(column: Column) -> int:
    if column.type is None:
        return _UNKNOWN_BYTES
    if isinstance(column.type, str):
        return _VARIABLE_BYTES.get(column.type, 16 if column.type.startswith("decimal") else 0)
    return _NESTED_BYTES
