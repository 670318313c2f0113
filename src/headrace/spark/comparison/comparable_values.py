"""Values of any type in a form that Spark can group, sort and compare, and that form for people.

Spark compares neither maps nor VARIANT. Maps become sorted arrays of their entries, VARIANT becomes JSON, whose fields
are sorted. NULL and a struct of NULLs stay apart. NaN equals NaN, and -0.0 equals 0.0, because Spark groups them so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.model.comparable_types import TEXT, VARIANT, Array, Atomic, Comparable, ComparedColumn, Map, Struct
from headrace.model.field_pairs import Field
from headrace.model.names import quoted
from headrace.model.schema import type_text

# JSON has these; others are shown as text.
_IN_JSON = frozenset(
    {"boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "void", TEXT}
)
# Greater doubles are not sure to be whole numbers of type bigint.
_WHOLE = 1e18


def comparable_column(column: ComparedColumn, side: int, fields: Sequence[Field]) -> Column:
    """A column of a side (0 or 1) in a form that can be compared; *fields* is the side's schema."""
    name = column.names[side]
    own = next(field["type"] for field in fields if field["name"] == name)
    found = _comparable(F.col(quoted(name)), own, column.type, side)
    return F.rtrim(found) if column.is_padded else found


def displayed(column: Column, kind: Comparable) -> Column:
    """A value in comparable form as one that ``to_json`` can write without loss."""
    if isinstance(kind, Struct):
        # Without common fields, only whether it is NULL is known.
        fields = [
            displayed(column.getField(_field(number)), inner).alias(names[1])
            for number, (names, inner) in enumerate(kind.fields)
        ]
        return F.when(column.isNotNull(), F.struct(*fields)) if fields else column
    if isinstance(kind, Array):
        return F.transform(column, lambda item: displayed(item, kind.element))
    if isinstance(kind, Map):
        return F.map_from_entries(
            F.transform(
                column,
                lambda entry: F.struct(
                    _key_text(entry.getField("key"), kind.key), displayed(entry.getField("value"), kind.value)
                ),
            )
        )
    return _displayed_atomic(column, kind)


def _displayed_atomic(column: Column, kind: Atomic) -> Column:
    if kind.name == VARIANT:
        return F.try_parse_json(column)
    if kind.name == "timestamp":
        return F.concat(_iso(column), F.date_format(column, "XXX"))
    if kind.name == "timestamp_ntz":
        return _iso(column)
    return column if kind.name in _IN_JSON else column.cast("string")


def _iso(time: Column) -> Column:
    return F.translate(time.cast("string"), " ", "T")


def _key_text(column: Column, kind: Comparable) -> Column:
    """The key of a map as a text, as objects of JSON have it."""
    if not isinstance(kind, Atomic):
        return F.to_json(displayed(column, kind), {"ignoreNullFields": "false"})
    return F.base64(column) if kind.name == "binary" else _displayed_atomic(column, kind).cast("string")


def _comparable(column: Column, own: Any, kind: Comparable, side: int) -> Column:
    if own == "void" or (isinstance(kind, Atomic) and kind.name not in (TEXT, VARIANT)):
        return column.cast(type_text(kind.name)) if isinstance(kind, Atomic) else column
    if isinstance(kind, Struct):
        types = {field["name"]: field["type"] for field in own["fields"]}
        fields = [
            _comparable(column.getField(names[side]), types[names[side]], inner, side).alias(_field(number))
            for number, (names, inner) in enumerate(kind.fields)
        ]
        return F.when(column.isNotNull(), F.struct(*fields) if fields else F.lit(True))  # noqa: FBT003 - a value
    if isinstance(kind, Array):
        return F.transform(column, lambda item: _comparable(item, own["elementType"], kind.element, side))
    if isinstance(kind, Map):
        # Its keys differ from each other, so that the order of its values does not matter.
        return F.array_sort(
            F.transform(
                F.map_entries(column),
                lambda entry: F.struct(
                    _comparable(entry.getField("key"), own["keyType"], kind.key, side).alias("key"),
                    _comparable(entry.getField("value"), own["valueType"], kind.value, side).alias("value"),
                ),
            )
        )
    return F.to_json(column) if own == VARIANT else _text(column, own)


def _text(column: Column, own: Any) -> Column:
    """A value as text that does not depend on how its type writes numbers."""
    text = column.cast("string")
    if own in ("float", "double"):
        is_whole = (F.abs(column) < _WHOLE) & (F.floor(column) == column)
        return F.when(is_whole, column.cast("bigint").cast("string")).otherwise(text)
    if isinstance(own, str) and own.startswith("decimal"):
        return F.when(F.locate(".", text) > 0, F.rtrim(F.rtrim(text, F.lit("0")), F.lit("."))).otherwise(text)
    return text


def _field(number: int) -> str:
    return f"f{number}"
