"""Files that bring their columns with them: which of theirs is which of the schema's, and what has no place in it."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.autoloader.ddl import JsonType
from headrace.autoloader.reading.arrow_types import arrow_schema, arrow_type, has_spark_type
from headrace.autoloader.reading.datetime_columns import in_zone
from headrace.autoloader.reading.json_scan import Members, Number
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields, new_columns, taken_names
from headrace.autoloader.reading.rows import rescued_text
from headrace.errors import PipelineError


class FileColumns:
    """The columns of one file, as they become those of the schema.

    A column is read where its type is the schema's or one that fits into it; of another type, or not in the schema, its
    values are rescued. With *zone*, a time of no zone is one of a clock there where the schema has TIMESTAMP.

    Raises:
        UnknownFields: the file has columns that the schema lacks, and the stream is to end with that.
        PipelineError: ``AUTO_LOADER.FILE_COLUMN``: two of its columns have one name.
    """

    def __init__(self, plan: ReadPlan, path: str, schema: pa.Schema, *, zone: str | None = None) -> None:
        check_distinct(schema, path)
        taken = taken_names(plan)
        possible = [f for f in schema if f.name.casefold() not in taken and has_spark_type(f.type)]
        unknown = unknown_fields(possible, plan.data, ())
        unknown = new_columns(plan, unknown) if plan.evolves else []
        if unknown:
            raise UnknownFields(tuple(unknown), path)
        self._plan = plan
        self._path = path
        self._zone = zone
        self._schema = schema
        self._wanted = arrow_schema(plan.data)
        there = {name if plan.case_sensitive else name.casefold(): name for name in schema.names}
        # What folders and records that cannot be read are put into does not come from the file.
        self._source = {
            field["name"]: there[key]
            for field in plan.data["fields"]
            if (key := field["name"] if plan.case_sensitive else field["name"].casefold()) in there
            and field["name"].casefold() not in taken
        }
        kinds = {field["name"]: field["type"] for field in plan.data["fields"]}
        others = [name for name in schema.names if name not in self._source.values()]
        # Columns that hold something, inside, that the schema has no place for.
        wider = [name for column, name in self._source.items() if has_more(schema.field(name).type, kinds[column])]
        self._misfits = [*others, *wider]
        self.read: list[str] = list(schema.names) if plan.rescued_column else list(self._source.values())

    def completed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the columns to read as one of the schema's, and of the column for what is rescued."""
        columns, misfits = [], list(self._misfits)
        for field, wanted in zip(self._plan.data["fields"], self._wanted, strict=True):
            source = self._source.get(field["name"])
            made = None if source is None else fitted(self._column(batch, source), field["type"], self._zone)
            if source is not None and made is None and source not in misfits:
                misfits.append(source)
            columns.append(pa.nulls(batch.num_rows, wanted.type) if made is None else made)
        schema, rescued = self._wanted, self._plan.rescued_column
        if rescued:
            texts = self._rescued(batch, misfits)
            place = schema.get_field_index(rescued)
            if place >= 0:
                columns[place] = texts
            else:
                schema = schema.append(pa.field(rescued, pa.string()))
                columns.append(texts)
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def nothing(self, count: int) -> pa.RecordBatch:
        """Rows of a file that has none of the columns."""
        columns = [pa.nulls(count, field.type) for field in self._wanted]
        return pa.RecordBatch.from_arrays(columns, schema=self._wanted)

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        """A column of the file in the type that it is known by there, which a reader may know better than Arrow."""
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
    """Refuse a file with two columns of one name.

    Raises:
        PipelineError: ``AUTO_LOADER.FILE_COLUMN``: it has.
    """
    twice = next((name for name, times in Counter(schema.names).items() if times > 1), None)
    if twice is not None:
        raise PipelineError("AUTO_LOADER.FILE_COLUMN", file=path, column=twice, reason="another has the same name")


def unknown_fields(found: Sequence[pa.Field], wanted: JsonType, path: tuple[str, ...]) -> list[str]:
    """Paths of what only the file has; a name that differs in case alone is no other for Delta."""
    known = {field["name"].casefold(): field["type"] for field in wanted["fields"]}
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


def has_more(given: pa.DataType, kind: JsonType) -> bool:
    """Whether a nested type has a field that the schema's has no place for."""
    if not isinstance(kind, dict):
        return False
    if kind["type"] == "struct" and pa.types.is_struct(given):
        inner = {field["name"]: field["type"] for field in kind["fields"]}
        return any(field.name not in inner or has_more(field.type, inner[field.name]) for field in given)
    if kind["type"] == "array" and (pa.types.is_list(given) or pa.types.is_large_list(given)):
        return has_more(given.value_type, kind["elementType"])
    if kind["type"] == "map" and pa.types.is_map(given):
        return has_more(given.item_type, kind["valueType"])
    return False


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
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


def fitted(array: pa.Array, kind: JsonType, zone: str | None = None) -> pa.Array | None:
    """A column in the schema's type; None when it is of one that does not fit into it.

    With *zone*, times of none are those of a clock there.
    """
    wanted = arrow_type(kind)
    if array.type == wanted:
        return array
    if pa.types.is_dictionary(array.type):
        return fitted(array.cast(array.type.value_type), kind, zone)
    if isinstance(kind, dict):
        return _fitted_nested(array, kind, wanted, zone)
    if not fits(array.type, wanted):
        return None
    try:
        if zone is not None and wanted == pa.timestamp("us", "UTC") and array.type.tz is None:
            array = in_zone(array, zone)
        # Of times, what is finer than a microsecond is left out, as Spark does it.
        return array.cast(wanted, safe=not (pa.types.is_timestamp(array.type) and array.type.unit == "ns"))
    except pa.ArrowInvalid:
        return None


def _fitted_nested(array: pa.Array, kind: dict[str, Any], wanted: pa.DataType, zone: str | None) -> pa.Array | None:
    if array.offset:
        # Arrow takes a mask only with offsets that begin at the array's own first value.
        array = pa.concat_arrays([array])
    mask = pc.is_null(array) if array.null_count else None
    if kind["type"] == "struct" and pa.types.is_struct(array.type):
        inner = []
        for field, within in zip(kind["fields"], wanted, strict=True):
            place = array.type.get_field_index(field["name"])
            made = fitted(array.field(place), field["type"], zone) if place >= 0 else pa.nulls(len(array), within.type)
            if made is None:
                return None
            inner.append(made)
        return pa.StructArray.from_arrays(inner, fields=list(wanted), mask=mask)
    if kind["type"] == "array" and (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        array = array.cast(pa.list_(array.type.value_type))
        values = fitted(array.values, kind["elementType"], zone)
        return None if values is None else pa.ListArray.from_arrays(array.offsets, values, type=wanted, mask=mask)
    if kind["type"] == "map" and pa.types.is_map(array.type):
        keys, items = fitted(array.keys, kind["keyType"], zone), fitted(array.items, kind["valueType"], zone)
        if keys is None or items is None:
            return None
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=wanted, mask=mask)
    return None


def fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of a type is one of another, as Spark's vectorised Parquet reader converts them."""
    kinds = pa.types
    if kinds.is_integer(given):
        if kinds.is_integer(wanted):
            most = wanted.bit_width if kinds.is_signed_integer(given) else wanted.bit_width - 1
            return bool(given.bit_width <= most)
        if kinds.is_floating(wanted):
            return bool(given.bit_width <= 32 and wanted == pa.float64())
        return bool(kinds.is_decimal(wanted) and wanted.precision - wanted.scale >= _digits(given))
    if kinds.is_decimal(given) and kinds.is_decimal(wanted):
        return bool(wanted.scale >= given.scale and wanted.precision - wanted.scale >= given.precision - given.scale)
    if kinds.is_timestamp(given) and kinds.is_timestamp(wanted):
        return bool((given.tz is None) == (wanted.tz is None) or given.unit == "ns")
    return bool(
        (given == pa.float32() and wanted == pa.float64())
        or (kinds.is_date(given) and wanted == pa.timestamp("us"))
        or (kinds.is_large_string(given) and wanted == pa.string())
        or ((kinds.is_large_binary(given) or kinds.is_fixed_size_binary(given)) and wanted == pa.binary())
        or (kinds.is_null(given))
    )


def _digits(kind: pa.DataType) -> int:
    return {8: 3, 16: 5, 32: 10}.get(kind.bit_width, 20)
