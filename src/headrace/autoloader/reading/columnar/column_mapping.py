"""Map the columns of columnar files to the schema; rescue values that do not fit."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.autoloader.reading.conversion.arrow_types import arrow_schema, arrow_type, has_spark_type
from headrace.autoloader.reading.conversion.datetime_columns import in_zone
from headrace.autoloader.reading.json_scan import Members, Number
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields, new_columns, reserved_names
from headrace.autoloader.reading.rows import rescued_text
from headrace.errors import PipelineError
from headrace.model.ddl import JsonType


class FileColumns:
    """Maps the columns of one file to those of the schema.

    A column is read if its type is the schema's, or can be cast to it without loss. Otherwise, or if it is not in the
    schema, its values are rescued. With *zone*, a time without a zone is in that zone if the schema has TIMESTAMP.

    Raises:
        UnknownFields: the file has columns that are not in the schema, and the plan evolves.
        PipelineError: ``AUTO_LOADER.FILE_COLUMN``: two columns have the same name.
    """

    def __init__(self, plan: ReadPlan, path: str, schema: pa.Schema, *, zone: str | None = None) -> None:
        check_distinct(schema, path)
        reserved = reserved_names(plan)
        possible = [f for f in schema if f.name.casefold() not in reserved and has_spark_type(f.type)]
        unknown = unknown_fields(possible, plan.data, ())
        unknown = new_columns(plan, unknown) if plan.evolves else []
        if unknown:
            raise UnknownFields(tuple(unknown), path)
        self._plan = plan
        self._path = path
        self._zone = zone
        self._schema = schema
        self._expected = arrow_schema(plan.data)
        by_key = {name if plan.case_sensitive else name.casefold(): name for name in schema.names}
        # Partition columns and the columns for bad records do not come from the file.
        self._source = {
            field["name"]: by_key[key]
            for field in plan.data["fields"]
            if (key := field["name"] if plan.case_sensitive else field["name"].casefold()) in by_key
            and field["name"].casefold() not in reserved
        }
        kinds = {field["name"]: field["type"] for field in plan.data["fields"]}
        others = [name for name in schema.names if name not in self._source.values()]
        # Columns with nested fields that are not in the schema.
        wider = [
            name for column, name in self._source.items() if has_extra_fields(schema.field(name).type, kinds[column])
        ]
        self._rescued_names = [*others, *wider]
        self.read: list[str] = list(schema.names) if plan.rescued_column else list(self._source.values())

    def to_schema_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch of the file's columns to the schema, with the rescued data column."""
        columns, rescued_names = [], list(self._rescued_names)
        for field, expected in zip(self._plan.data["fields"], self._expected, strict=True):
            source = self._source.get(field["name"])
            converted = None if source is None else cast_column(self._column(batch, source), field["type"], self._zone)
            if source is not None and converted is None and source not in rescued_names:
                rescued_names.append(source)
            columns.append(pa.nulls(batch.num_rows, expected.type) if converted is None else converted)
        schema, rescued = self._expected, self._plan.rescued_column
        if rescued:
            texts = self._rescued(batch, rescued_names)
            position = schema.get_field_index(rescued)
            if position >= 0:
                columns[position] = texts
            else:
                schema = schema.append(pa.field(rescued, pa.string()))
                columns.append(texts)
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def empty_rows(self, count: int) -> pa.RecordBatch:
        """Rows of a file that has none of the columns: all NULL."""
        columns = [pa.nulls(count, field.type) for field in self._expected]
        return pa.RecordBatch.from_arrays(columns, schema=self._expected)

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        """A column of the file in its real type, which the reader may know better than Arrow."""
        column, kind = batch.column(name), self._schema.field(name).type
        return column if column.type == kind else column.cast(kind)

    def _rescued(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
        if not names:
            return pa.nulls(batch.num_rows, pa.string())
        rows = batch.select(list(names)).to_pylist()
        texts = [
            rescued_text(Members((name, _plain(value)) for name, value in row.items() if value is not None), self._path)
            for row in rows
        ]
        return pa.array(texts, pa.string())


def check_distinct(schema: pa.Schema, path: str) -> None:
    """Refuse a file with two columns of the same name.

    Raises:
        PipelineError: ``AUTO_LOADER.FILE_COLUMN``: it has such columns.
    """
    duplicate = next((name for name, times in Counter(schema.names).items() if times > 1), None)
    if duplicate is not None:
        raise PipelineError("AUTO_LOADER.FILE_COLUMN", file=path, column=duplicate, reason="another has the same name")


def unknown_fields(found: Sequence[pa.Field], expected: JsonType, path: tuple[str, ...]) -> list[str]:
    """Paths of fields that only the file has; for Delta, names that differ only in case are the same."""
    known = {field["name"].casefold(): field["type"] for field in expected["fields"]}
    unknown = []
    for field in found:
        kind = known.get(field.name.casefold())
        if kind is None:
            unknown.append(".".join((*path, field.name)))
        elif isinstance(kind, dict) and kind["type"] == "struct" and pa.types.is_struct(field.type):
            unknown += unknown_fields(list(field.type), kind, (*path, field.name))
        elif isinstance(kind, dict) and kind["type"] == "array" and pa.types.is_list(field.type):
            element, wanted_element = field.type.value_type, kind["elementType"]
            if isinstance(wanted_element, dict) and wanted_element["type"] == "struct" and pa.types.is_struct(element):
                unknown += unknown_fields(list(element), wanted_element, (*path, field.name))
    return unknown


def has_extra_fields(given: pa.DataType, kind: JsonType) -> bool:
    """Whether a nested type has a field that is not in the schema's type."""
    if not isinstance(kind, dict):
        return False
    if kind["type"] == "struct" and pa.types.is_struct(given):
        inner = {field["name"]: field["type"] for field in kind["fields"]}
        return any(field.name not in inner or has_extra_fields(field.type, inner[field.name]) for field in given)
    if kind["type"] == "array" and (pa.types.is_list(given) or pa.types.is_large_list(given)):
        return has_extra_fields(given.value_type, kind["elementType"])
    if kind["type"] == "map" and pa.types.is_map(given):
        return has_extra_fields(given.item_type, kind["valueType"])
    return False


def _plain(value: Any) -> Any:
    """A value in its JSON form."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return Number(json.dumps(value))
    if isinstance(value, dict):
        return Members((name, _plain(inner)) for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def cast_column(array: pa.Array, kind: JsonType, zone: str | None = None) -> pa.Array | None:
    """Cast a column to the schema's type; None if that may lose values.

    With *zone*, times without a zone are in that zone.
    """
    expected = arrow_type(kind)
    if array.type == expected:
        return array
    if pa.types.is_dictionary(array.type):
        return cast_column(array.cast(array.type.value_type), kind, zone)
    if isinstance(kind, dict):
        return _cast_nested(array, kind, expected, zone)
    if not can_cast(array.type, expected):
        return None
    try:
        if zone is not None and expected == pa.timestamp("us", "UTC") and array.type.tz is None:
            array = in_zone(array, zone)
        # Nanoseconds are truncated to microseconds, as in Spark.
        return array.cast(expected, safe=not (pa.types.is_timestamp(array.type) and array.type.unit == "ns"))
    except pa.ArrowInvalid:
        return None


def _cast_nested(array: pa.Array, kind: dict[str, Any], expected: pa.DataType, zone: str | None) -> pa.Array | None:
    if array.offset:
        # Arrow accepts a mask only if the offsets begin at the array's first value.
        array = pa.concat_arrays([array])
    mask = pc.is_null(array) if array.null_count else None
    if kind["type"] == "struct" and pa.types.is_struct(array.type):
        inner = []
        for field, within in zip(kind["fields"], expected, strict=True):
            position = array.type.get_field_index(field["name"])
            converted = (
                cast_column(array.field(position), field["type"], zone)
                if position >= 0
                else pa.nulls(len(array), within.type)
            )
            if converted is None:
                return None
            inner.append(converted)
        return pa.StructArray.from_arrays(inner, fields=list(expected), mask=mask)
    if kind["type"] == "array" and (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        array = array.cast(pa.list_(array.type.value_type))
        values = cast_column(array.values, kind["elementType"], zone)
        return None if values is None else pa.ListArray.from_arrays(array.offsets, values, type=expected, mask=mask)
    if kind["type"] == "map" and pa.types.is_map(array.type):
        keys, items = cast_column(array.keys, kind["keyType"], zone), cast_column(array.items, kind["valueType"], zone)
        if keys is None or items is None:
            return None
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=expected, mask=mask)
    return None


def can_cast(given: pa.DataType, expected: pa.DataType) -> bool:
    """Whether every value of one type fits into another, as in Spark's vectorised Parquet reader."""
    kinds = pa.types
    if kinds.is_integer(given):
        if kinds.is_integer(expected):
            most = expected.bit_width if kinds.is_signed_integer(given) else expected.bit_width - 1
            return bool(given.bit_width <= most)
        if kinds.is_floating(expected):
            return bool(given.bit_width <= 32 and expected == pa.float64())
        return bool(kinds.is_decimal(expected) and expected.precision - expected.scale >= _digits(given))
    if kinds.is_decimal(given) and kinds.is_decimal(expected):
        return bool(
            expected.scale >= given.scale and expected.precision - expected.scale >= given.precision - given.scale
        )
    if kinds.is_timestamp(given) and kinds.is_timestamp(expected):
        return bool((given.tz is None) == (expected.tz is None) or given.unit == "ns")
    return bool(
        (given == pa.float32() and expected == pa.float64())
        or (kinds.is_date(given) and expected == pa.timestamp("us"))
        or (kinds.is_large_string(given) and expected == pa.string())
        or ((kinds.is_large_binary(given) or kinds.is_fixed_size_binary(given)) and expected == pa.binary())
        or (kinds.is_null(given))
    )


def _digits(kind: pa.DataType) -> int:
    return {8: 3, 16: 5, 32: 10}.get(kind.bit_width, 20)
