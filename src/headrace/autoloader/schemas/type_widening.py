"""Type widening: mode ``addNewColumnsWithTypeWidening``.

Source: the vendor's table of supported changes (lakeflow.md 3.3), which is that of Delta's type widening.
"""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet

import pyarrow as pa

from headrace.autoloader.reading.conversion.arrow_types import decimal_of
from headrace.model.ddl import JsonType

MODE = "addNewColumnsWithTypeWidening"
# Formats with a TIMESTAMP_NTZ type, so that a date can become one.
_TYPED = ("avro", "orc", "parquet")
_WHOLE = ("byte", "short", "integer", "long")
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_MAX_DIGITS = 38


def mismatched_columns(batch: pa.RecordBatch, rescued_column: str | None) -> set[str]:
    """Names of top-level fields with a value that was rescued."""
    index = batch.schema.get_field_index(rescued_column) if rescued_column else -1
    if index < 0 or batch.column(index).null_count == batch.num_rows:
        return set()
    texts = batch.column(index).drop_null().to_pylist()
    return {name for text in texts for name in json.loads(text)}


def widen(schema: JsonType, seen: JsonType, names: AbstractSet[str], file_format: str) -> JsonType:
    """Widen the types of the top-level fields *names* in *schema*, as far as the *seen* types need it."""
    kinds = {field["name"].casefold(): field["type"] for field in seen["fields"]}
    wanted = {name.casefold() for name in names} & kinds.keys()
    fields = [
        {**field, "type": _widened(field["type"], kinds[name], file_format)}
        if (name := field["name"].casefold()) in wanted
        else field
        for field in schema["fields"]
    ]
    return {**schema, "fields": fields}


def _widened(kind: JsonType, seen: JsonType, file_format: str) -> JsonType:
    if isinstance(kind, str):
        return _wider(kind, seen, file_format) if isinstance(seen, str) else kind
    if not isinstance(seen, dict) or seen["type"] != kind["type"]:
        return kind
    if kind["type"] == "struct":
        inner = widen(kind, seen, {field["name"] for field in kind["fields"]}, file_format)
        return {**kind, "fields": inner["fields"]}
    if kind["type"] == "array":
        return {**kind, "elementType": _widened(kind["elementType"], seen["elementType"], file_format)}
    return {**kind, "valueType": _widened(kind["valueType"], seen["valueType"], file_format)}


def _wider(kind: str, seen: str, file_format: str) -> str:
    """The type that holds both, if the first can be widened to it; otherwise the first."""
    if kind in _WHOLE and seen in _WHOLE:
        return max(kind, seen, key=_WHOLE.index)
    if seen in ("double", "float") and kind in ("byte", "short", "integer", "float"):
        return "double" if kind != "float" else seen
    if kind == "date" and seen == "timestamp_ntz" and file_format in _TYPED:
        return seen
    first = decimal_of(kind) or ((_DIGITS[kind], 0) if kind in _DIGITS else None)
    second = decimal_of(seen) or ((_DIGITS[seen], 0) if seen in _DIGITS and decimal_of(kind) else None)
    if first is None or second is None:
        return kind
    scale = max(first[1], second[1])
    digits = max(first[0] - first[1], second[0] - second[1]) + scale
    return f"decimal({digits},{scale})" if digits <= _MAX_DIGITS else kind
