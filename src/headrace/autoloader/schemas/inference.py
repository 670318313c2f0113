"""Infer a schema from the contents of files.

JSON follows Spark's ``JsonInferSchema``: whole numbers are long, or decimal if they have more digits; other numbers are
double; values of several types are strings; fields of a struct are sorted by name. Without type inference, everything
but structs and arrays is a string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.json as pj

from headrace.autoloader.reading.conversion.arrow_types import decimal_of, spark_type
from headrace.autoloader.reading.conversion.converters import Times
from headrace.autoloader.reading.conversion.text_columns import infer_text_type
from headrace.autoloader.reading.conversion.utf8 import is_utf8
from headrace.autoloader.reading.json.arrow_hazards import is_hazardous, line_ends
from headrace.autoloader.reading.json.documents import first_records
from headrace.autoloader.reading.json_scan import Members, Number, ParseOptions
from headrace.model.ddl import JsonType, array_of, field_of

# The type of a field that has only nulls.
NOTHING = "null"
_BIG = 2**63
_WHOLE = ("byte", "short", "integer", "long")
_NUMBERS = {*_WHOLE, "float", "double"}
_DIGITS: Mapping[str, tuple[int, int]] = {"byte": (3, 0), "short": (5, 0), "integer": (10, 0), "long": (20, 0)}
_MAX_DIGITS = 38
# Maximum nesting of objects and arrays; deeper values are strings. No table nests as deep.
_DEEPEST = 100
# Numbers of 19 digits that begin with less than 92 fit into BIGINT.
_LONG_NUMBER = re.compile(rb"[:\[,][ \t]*-?(?:9[2-9][0-9]{17}|[0-9]{20})")
EMPTY_STRUCT: Mapping[str, Any] = {"type": "struct", "fields": []}


def merge_types(left: JsonType, right: JsonType) -> JsonType:
    """The type that holds the values of both; string if there is no other."""
    if right in (left, NOTHING):
        return left
    if left == NOTHING:
        return right
    if isinstance(left, dict) and isinstance(right, dict) and left["type"] == right["type"]:
        if left["type"] == "array":
            return array_of(merge_types(left["elementType"], right["elementType"]))
        return _merge_structs(left, right)
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
        return f"decimal({digits},{scale})" if digits <= _MAX_DIGITS else "double"
    return "string"


def _merge_structs(left: JsonType, right: JsonType) -> JsonType:
    fields = {field["name"].casefold(): field for field in left["fields"]}
    for field in right["fields"]:
        known = fields.get(field["name"].casefold())
        name = field["name"] if known is None else known["name"]
        kind = field["type"] if known is None else merge_types(known["type"], field["type"])
        fields[field["name"].casefold()] = field_of(name, kind)
    return {"type": "struct", "fields": list(fields.values())}


def finalize_struct(struct: JsonType, *, typed: bool, ordered: bool = True) -> JsonType:
    """Turn an inferred struct into a schema: string for fields with only nulls, or for all fields unless *typed*.

    Fields are sorted by name if *ordered*, otherwise in the order of the files.
    """
    fields = sorted(struct["fields"], key=lambda field: field["name"]) if ordered else struct["fields"]
    finalized = ((field["name"], _finalize(field["type"], typed=typed)) for field in fields)
    return {"type": "struct", "fields": [field_of(name, kind) for name, kind in finalized if kind is not None]}


def _finalize(kind: JsonType, *, typed: bool) -> JsonType | None:
    if isinstance(kind, str):
        return kind if typed and kind != NOTHING else "string"
    if kind["type"] == "struct":
        inner = finalize_struct(kind, typed=typed)
        # Spark cannot store a struct without fields.
        return inner if inner["fields"] else None
    element = _finalize(kind["elementType"], typed=typed)
    return array_of("string" if element is None else element)


def add_new_fields(schema: JsonType, seen: JsonType, *, repeated: bool = False) -> JsonType:
    """Append to *schema* the fields that only *seen* has, at every level; no type changes.

    If values can be *repeated*, as XML elements, an array on one side is matched by its elements.
    """
    fields = list(schema["fields"])
    positions = {field["name"].casefold(): position for position, field in enumerate(fields)}
    for field in seen["fields"]:
        position = positions.get(field["name"].casefold())
        if position is None:
            fields.append(field_of(field["name"], field["type"]))
        else:
            fields[position] = {
                **fields[position],
                "type": _add_new_fields(fields[position]["type"], field["type"], repeated),
            }
    return {**schema, "fields": fields}


def _add_new_fields(kind: JsonType, seen: JsonType, repeated: bool) -> JsonType:  # noqa: FBT001 - as its caller has it
    if not (isinstance(kind, dict) and isinstance(seen, dict)):
        return kind
    if kind["type"] == seen["type"] == "struct":
        return add_new_fields(kind, seen, repeated=repeated)
    if kind["type"] == "array" and (seen["type"] == "array" or repeated):
        element = seen["elementType"] if seen["type"] == "array" else seen
        return {**kind, "elementType": _add_new_fields(kind["elementType"], element, repeated)}
    if seen["type"] == "array" and repeated:
        return _add_new_fields(kind, seen["elementType"], repeated)
    return kind


def csv_struct(tables: Iterable[pa.Table], infer_type: Callable[[pa.Array], str] = infer_text_type) -> JsonType:
    """The struct of tables of strings; a column's type fits all its values, and is ``null`` if it has none."""
    found: JsonType = dict(EMPTY_STRUCT)
    for table in tables:
        kinds = ((name, infer_type(table[name].combine_chunks())) for name in table.column_names)
        found = merge_types(found, {"type": "struct", "fields": [field_of(name, kind) for name, kind in kinds]})
    return found


def parquet_struct(schemas: Iterable[pa.Schema]) -> JsonType:
    """The struct of Parquet files: the widest of each column's types, columns in the order of the files."""
    found: JsonType = dict(EMPTY_STRUCT)
    for schema in schemas:
        found = merge_types(found, spark_type(pa.struct(list(schema))))
    return found


@dataclass(frozen=True)
class JsonTypeInference:
    """Types that JSON scalars are inferred as, in addition to their written types.

    Attributes:
        times: how strings are parsed as timestamps; None to keep strings.
        decimals: whether numbers with a decimal point are decimals, if they have few enough digits.
    """

    times: Times | None = None
    decimals: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str], zone: str) -> JsonTypeInference:
        """The inference that a reader's options ask for."""
        times = Times.of(zone, options) if options.get("inferTimestamp") == "true" else None
        return cls(times, options.get("prefersDecimal") == "true")

    @property
    def keeps_written_types(self) -> bool:
        """Whether scalars keep their written types, so that their text need not be examined."""
        return self.times is None and not self.decimals


def json_struct(
    blocks: Iterable[bytes], options: Mapping[str, str], kinds: JsonTypeInference = JsonTypeInference()
) -> JsonType:
    """The struct of blocks of JSON lines, before :func:`finalize_struct`."""
    found: JsonType = dict(EMPTY_STRUCT)
    for block in blocks:
        by_arrow = _struct_by_arrow(block) if kinds.keeps_written_types else None
        found = merge_types(found, by_arrow or _struct_by_record(block, ParseOptions.of(options), kinds))
    return found


def _struct_by_arrow(block: bytes) -> JsonType | None:
    # Arrow requires names in UTF-8.
    if not is_utf8(block) or is_hazardous(block, line_ends(block)):
        return None
    try:
        schema = pj.read_json(pa.BufferReader(block), pj.ReadOptions(block_size=len(block) + 1)).schema
    except pa.ArrowInvalid:
        return None
    if _LONG_NUMBER.search(block):
        # Arrow infers double for a whole number beyond BIGINT.
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
    # Arrow infers timestamps for some strings; they stay strings here.
    return next((name for test, name in tests if test(kind)), "string")


def _struct_by_record(block: bytes, parse_options: ParseOptions, kinds: JsonTypeInference) -> JsonType:
    found: JsonType = dict(EMPTY_STRUCT)
    for line in block.decode("utf-8", "replace").split("\n"):
        for record in first_records(line, parse_options):
            found = merge_types(found, _value_kind(record, kinds, 1))
    return found


def _value_kind(value: Any, kinds: JsonTypeInference, level: int) -> JsonType:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, Number):
        if not value.is_whole:
            return (decimal_kind(value) if kinds.decimals else None) or "double"
        digits = len(value.lstrip("-"))
        if digits > _MAX_DIGITS:
            return "double"
        return "long" if -_BIG <= int(value) < _BIG else f"decimal({digits},0)"
    if isinstance(value, list):
        return _list_kind(value, kinds, level) if level <= _DEEPEST else "string"
    return "timestamp" if kinds.times is not None and kinds.times.is_timestamp(value) else "string"


def _struct_of(pairs: Iterable[tuple[str, JsonType]]) -> JsonType:
    """The struct of names and types; names that differ only in case are one field, under the first name."""
    fields: dict[str, dict[str, Any]] = {}
    for name, kind in pairs:
        known = fields.setdefault(name.casefold(), field_of(name, NOTHING))
        known["type"] = merge_types(known["type"], kind)
    return {"type": "struct", "fields": list(fields.values())}


def _list_kind(value: list[Any], kinds: JsonTypeInference, level: int) -> JsonType:
    """The type of an object or an array."""
    if isinstance(value, Members):
        return _struct_of((name, _value_kind(inner, kinds, level + 1)) for name, inner in value)
    element: JsonType = NOTHING
    for inner in value:
        element = merge_types(element, _value_kind(inner, kinds, level + 1))
    return array_of(element)


def decimal_kind(text: str) -> str | None:
    """The decimal type with all digits of a number; None if Spark's decimals have fewer."""
    try:
        _, digits, exponent = Decimal(text).as_tuple()
    except InvalidOperation:
        return None
    if not isinstance(exponent, int):
        return None
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale)
    return f"decimal({precision},{scale})" if precision <= _MAX_DIGITS else None
