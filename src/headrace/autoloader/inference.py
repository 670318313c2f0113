"""A schema from the contents of files.

JSON follows Spark's ``JsonInferSchema``: whole numbers are long, those with more digits decimal, others double, what is
of several types text, and the fields of a struct are in the order of their names. Where types are not asked for,
whatever is no struct and no array is text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.json as pj

from headrace.autoloader.ddl import JsonType, array_of, field_of
from headrace.autoloader.reading.arrow_types import decimal_of, spark_type
from headrace.autoloader.reading.converters import Times
from headrace.autoloader.reading.json_documents import first_records
from headrace.autoloader.reading.json_scan import Members, Number, ParseOptions
from headrace.autoloader.reading.nesting_depth import line_ends, nests_deep
from headrace.autoloader.reading.text_columns import type_of
from headrace.autoloader.reading.utf8 import is_utf8

# The type of a place where nothing but null was seen.
NOTHING = "null"
_BIG = 2**63
_WHOLE = ("byte", "short", "integer", "long")
_NUMBERS = {*_WHOLE, "float", "double"}
_DIGITS: Mapping[str, tuple[int, int]] = {"byte": (3, 0), "short": (5, 0), "integer": (10, 0), "long": (20, 0)}
_MOST_DIGITS = 38
# Objects and arrays in one another; what is deeper is text. No table has as many.
_DEEPEST = 100
# Those of 19 digits that begin with less than this fit into BIGINT.
_LONG_NUMBER = re.compile(rb"[:\[,][ \t]*-?(?:9[2-9][0-9]{17}|[0-9]{20})")
EMPTY_STRUCT: Mapping[str, Any] = {"type": "struct", "fields": []}


def merged(left: JsonType, right: JsonType) -> JsonType:
    """A type that holds what both hold; text where there is no other."""
    if right in (left, NOTHING):
        return left
    if left == NOTHING:
        return right
    if isinstance(left, dict) and isinstance(right, dict) and left["type"] == right["type"]:
        if left["type"] == "array":
            return array_of(merged(left["elementType"], right["elementType"]))
        return _merged_structs(left, right)
    if isinstance(left, str) and isinstance(right, str):
        return _wider(left, right)
    return "string"


def _wider(left: str, right: str) -> str:
    if left in _WHOLE and right in _WHOLE:
        return max(left, right, key=_WHOLE.index)
    if left in _NUMBERS and right in _NUMBERS:
        return "double"
    if {left, right} in ({"date", "timestamp_ntz"}, {"date", "timestamp"}):
        return right if left == "date" else left
    if "double" in (left, right) and (decimal_of(left) or decimal_of(right)):
        return "double"
    first, second = (decimal_of(kind) or _DIGITS.get(kind) for kind in (left, right))
    if first and second:
        scale = max(first[1], second[1])
        digits = max(first[0] - first[1], second[0] - second[1]) + scale
        return f"decimal({digits},{scale})" if digits <= _MOST_DIGITS else "double"
    return "string"


def _merged_structs(left: JsonType, right: JsonType) -> JsonType:
    fields = {field["name"].casefold(): field for field in left["fields"]}
    for field in right["fields"]:
        known = fields.get(field["name"].casefold())
        name = field["name"] if known is None else known["name"]
        kind = field["type"] if known is None else merged(known["type"], field["type"])
        fields[field["name"].casefold()] = field_of(name, kind)
    return {"type": "struct", "fields": list(fields.values())}


def finished(struct: JsonType, *, typed: bool, ordered: bool = True) -> JsonType:
    """An inferred struct as a schema: text where nothing was seen, or everywhere unless *typed*.

    Fields are in the order of their names where that is asked for, else in that of the files.
    """
    fields = sorted(struct["fields"], key=lambda field: field["name"]) if ordered else struct["fields"]
    made = ((field["name"], _finished(field["type"], typed=typed)) for field in fields)
    return {"type": "struct", "fields": [field_of(name, kind) for name, kind in made if kind is not None]}


def _finished(kind: JsonType, *, typed: bool) -> JsonType | None:
    if isinstance(kind, str):
        return kind if typed and kind != NOTHING else "string"
    if kind["type"] == "struct":
        inner = finished(kind, typed=typed)
        # Spark has no place for a struct of nothing in a file.
        return inner if inner["fields"] else None
    element = _finished(kind["elementType"], typed=typed)
    return array_of("string" if element is None else element)


def evolved(schema: JsonType, seen: JsonType, *, repeated: bool = False) -> JsonType:
    """*schema* with the fields that only *seen* has behind its own, at every level; no type changes.

    Where things are *repeated*, as elements of XML, an array on one side alone stands for its elements.
    """
    fields = list(schema["fields"])
    places = {field["name"].casefold(): place for place, field in enumerate(fields)}
    for field in seen["fields"]:
        place = places.get(field["name"].casefold())
        if place is None:
            fields.append(field_of(field["name"], field["type"]))
        else:
            fields[place] = {**fields[place], "type": _evolved(fields[place]["type"], field["type"], repeated)}
    return {**schema, "fields": fields}


def _evolved(kind: JsonType, seen: JsonType, repeated: bool) -> JsonType:  # noqa: FBT001 - as its caller has it
    if not (isinstance(kind, dict) and isinstance(seen, dict)):
        return kind
    if kind["type"] == seen["type"] == "struct":
        return evolved(kind, seen, repeated=repeated)
    if kind["type"] == "array" and (seen["type"] == "array" or repeated):
        element = seen["elementType"] if seen["type"] == "array" else seen
        return {**kind, "elementType": _evolved(kind["elementType"], element, repeated)}
    if seen["type"] == "array" and repeated:
        return _evolved(kind, seen["elementType"], repeated)
    return kind


def csv_struct(tables: Iterable[pa.Table], guess: Callable[[pa.Array], str] = type_of) -> JsonType:
    """What tables of texts have in common; a column's type is that of all its values, ``null`` where it has none."""
    found: JsonType = dict(EMPTY_STRUCT)
    for table in tables:
        kinds = ((name, guess(table[name].combine_chunks())) for name in table.column_names)
        found = merged(found, {"type": "struct", "fields": [field_of(name, kind) for name, kind in kinds]})
    return found


def parquet_struct(schemas: Iterable[pa.Schema]) -> JsonType:
    """What files of Parquet have in common: of a column's types the widest, columns in the order of the files."""
    found: JsonType = dict(EMPTY_STRUCT)
    for schema in schemas:
        found = merged(found, spark_type(pa.struct(list(schema))))
    return found


@dataclass(frozen=True)
class JsonKinds:
    """What scalars of JSON are taken for, beside what they are written as.

    Attributes:
        times: how texts are read as times; None where texts stay texts.
        decimals: whether numbers with a point are decimals, where they have no more digits than those.
    """

    times: Times | None = None
    decimals: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str], zone: str) -> JsonKinds:
        """What the options of a reader say."""
        times = Times.of(zone, options) if options.get("inferTimestamp") == "true" else None
        return cls(times, options.get("prefersDecimal") == "true")

    @property
    def as_written(self) -> bool:
        """Whether a scalar is what it is written as, so that its text need not be looked at."""
        return self.times is None and not self.decimals


def json_struct(blocks: Iterable[bytes], options: Mapping[str, str], kinds: JsonKinds = JsonKinds()) -> JsonType:
    """What blocks of lines of JSON have in common; not finished."""
    found: JsonType = dict(EMPTY_STRUCT)
    for block in blocks:
        fast = _by_arrow(block) if kinds.as_written else None
        found = merged(found, fast or _by_record(block, ParseOptions.of(options), kinds))
    return found


def _by_arrow(block: bytes) -> JsonType | None:
    # Names that are no UTF-8 are none of Arrow's.
    if not is_utf8(block) or nests_deep(block, line_ends(block)):
        return None
    try:
        schema = pj.read_json(pa.BufferReader(block), pj.ReadOptions(block_size=len(block) + 1)).schema
    except pa.ArrowInvalid:
        return None
    if _LONG_NUMBER.search(block):
        # Arrow takes a whole number that is no BIGINT for a double.
        return None
    return _struct_of((field.name, _arrow_kind(field.type)) for field in schema)


def _arrow_kind(kind: pa.DataType, level: int = 1) -> JsonType:
    if pa.types.is_nested(kind) and level > _DEEPEST:
        return "string"
    if pa.types.is_struct(kind):
        return _struct_of((field.name, _arrow_kind(field.type, level + 1)) for field in kind)
    if pa.types.is_list(kind):
        return array_of(_arrow_kind(kind.value_type, level + 1))
    tests: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
        (pa.types.is_null, NOTHING),
        (pa.types.is_boolean, "boolean"),
        (pa.types.is_integer, "long"),
        (pa.types.is_floating, "double"),
    )
    # Arrow takes some texts for times, which stay texts here.
    return next((name for test, name in tests if test(kind)), "string")


def _by_record(block: bytes, leniency: ParseOptions, kinds: JsonKinds) -> JsonType:
    found: JsonType = dict(EMPTY_STRUCT)
    for line in block.decode("utf-8", "replace").split("\n"):
        for record in first_records(line, leniency):
            found = merged(found, _value_kind(record, kinds, 1))
    return found


def _value_kind(value: Any, kinds: JsonKinds, level: int) -> JsonType:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, Number):
        if not value.is_whole:
            return (decimal_kind(value) if kinds.decimals else None) or "double"
        digits = len(value.lstrip("-"))
        if digits > _MOST_DIGITS:
            return "double"
        return "long" if -_BIG <= int(value) < _BIG else f"decimal({digits},0)"
    if isinstance(value, list):
        return _list_kind(value, kinds, level) if level <= _DEEPEST else "string"
    return "timestamp" if kinds.times is not None and kinds.times.is_moment(value) else "string"


def _struct_of(pairs: Iterable[tuple[str, JsonType]]) -> JsonType:
    """The struct of names and types; names that differ in case alone are one field, under the first."""
    fields: dict[str, dict[str, Any]] = {}
    for name, kind in pairs:
        known = fields.setdefault(name.casefold(), field_of(name, NOTHING))
        known["type"] = merged(known["type"], kind)
    return {"type": "struct", "fields": list(fields.values())}


def _list_kind(value: list[Any], kinds: JsonKinds, level: int) -> JsonType:
    """The type of an object or an array."""
    if isinstance(value, Members):
        return _struct_of((name, _value_kind(inner, kinds, level + 1)) for name, inner in value)
    element: JsonType = NOTHING
    for inner in value:
        element = merged(element, _value_kind(inner, kinds, level + 1))
    return array_of(element)


def decimal_kind(text: str) -> str | None:
    """The decimal that has all digits of a number; None where Spark's have fewer."""
    try:
        _, digits, exponent = Decimal(text).as_tuple()
    except InvalidOperation:
        return None
    if not isinstance(exponent, int):
        return None
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale)
    return f"decimal({precision},{scale})" if precision <= _MOST_DIGITS else None
