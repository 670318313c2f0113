"""Files that bring their columns with them: Parquet, read by Arrow, each row group in one part of the file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.autoloader.ddl import JsonType
from headrace.autoloader.reading.arrow_types import arrow_schema, arrow_type
from headrace.autoloader.reading.json_scan import Members, Number
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields, taken_names
from headrace.autoloader.reading.rows import rescued_text
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.stores.paths import store_of

_ROWS = 32_768


def parquet_rows(plan: ReadPlan, split: Split) -> Iterator[pa.RecordBatch]:
    """The row groups whose middle lies in a part of a file, as Spark divides Parquet files.

    A column is read where its type is the schema's or one that fits into it; of another type, or not in the schema, its
    values are rescued.

    Raises:
        UnknownFields: the file has columns that the schema lacks, and the stream is to end with that.
    """
    with (
        store_of(split.path).opened(split.path) as data,
        pq.ParquetFile(data, coerce_int96_timestamp_unit="us") as file,
    ):
        names = _Names(plan, file.schema_arrow, int96_columns(file))
        taken = taken_names(plan)
        found = [field for field in file.schema_arrow if field.name.casefold() not in taken]
        unknown = unknown_fields(found, plan.data, ())
        if unknown and plan.evolves:
            raise UnknownFields(tuple(sorted(unknown)), split.path)
        groups = [number for number in range(file.num_row_groups) if _is_within(file, number, split)]
        read = list(file.schema_arrow.names) if plan.rescued_column else list(names.by_column.values())
        for batch in file.iter_batches(_ROWS, row_groups=groups, columns=read):
            yield _completed(plan, split.path, names, batch)


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


class _Names:
    """Which column of a file is which of the schema, and which is none."""

    def __init__(self, plan: ReadPlan, schema: pa.Schema, int96: frozenset[str]) -> None:
        self.int96 = int96
        there = {name if plan.case_sensitive else name.casefold(): name for name in schema.names}
        self.by_column = {
            field["name"]: there[key]
            for field in plan.data["fields"]
            if (key := field["name"] if plan.case_sensitive else field["name"].casefold()) in there
        }
        self.others = [name for name in schema.names if name not in self.by_column.values()]
        # Columns that hold something, inside, that the schema has no place for.
        kinds = {field["name"]: field["type"] for field in plan.data["fields"]}
        self.wider = [
            name for column, name in self.by_column.items() if has_more(schema.field(name).type, kinds[column])
        ]


def _is_within(file: pq.ParquetFile, number: int, split: Split) -> bool:
    group = file.metadata.row_group(number)
    first = group.column(0)
    begin = min(filter(None, (first.dictionary_page_offset, first.data_page_offset)), default=0)
    size = sum(group.column(place).total_compressed_size for place in range(group.num_columns))
    return bool(split.start <= begin + size // 2 < max(split.end, split.start + 1))


def _completed(plan: ReadPlan, path: str, names: _Names, batch: pa.RecordBatch) -> pa.RecordBatch:
    schema = arrow_schema(plan.data)
    columns, misfits = [], [*names.others, *names.wider] if plan.rescued_column else []
    for field, wanted in zip(plan.data["fields"], schema, strict=True):
        source = names.by_column.get(field["name"])
        made = None if source is None else fitted(_moments(batch, source, names), field["type"])
        if source is not None and made is None and plan.rescued_column and source not in misfits:
            misfits.append(source)
        columns.append(pa.nulls(batch.num_rows, wanted.type) if made is None else made)
    if plan.rescued_column and plan.rescued_column not in schema.names:
        schema = schema.append(pa.field(plan.rescued_column, pa.string()))
        columns.append(_rescued(batch, misfits, path))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _moments(batch: pa.RecordBatch, name: str, names: _Names) -> pa.Array:
    """A column; times of the old form, which has no zone in the file, are points in time, as Spark reads them."""
    column = batch.column(name)
    return column.cast(pa.timestamp("us", "UTC")) if name in names.int96 else column


def int96_columns(file: pq.ParquetFile) -> frozenset[str]:
    """The columns that hold times in the old form of 96 bits."""
    columns = (file.schema.column(place) for place in range(len(file.schema)))
    return frozenset(column.path for column in columns if column.physical_type == "INT96")


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


def _rescued(batch: pa.RecordBatch, names: Sequence[str], path: str) -> pa.Array:
    if not names:
        return pa.nulls(batch.num_rows, pa.string())
    rows = batch.select(list(names)).to_pylist()
    texts = [
        rescued_text(Members((name, _plain(value)) for name, value in row.items() if value is not None), path)
        for row in rows
    ]
    return pa.array(texts, pa.string())


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
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def fitted(array: pa.Array, kind: JsonType) -> pa.Array | None:
    """A column in the schema's type; None when it is of one that does not fit into it."""
    wanted = arrow_type(kind)
    if array.type == wanted:
        return array
    if pa.types.is_dictionary(array.type):
        return fitted(array.cast(array.type.value_type), kind)
    if isinstance(kind, dict):
        return _fitted_nested(array, kind, wanted)
    if not fits(array.type, wanted):
        return None
    try:
        # Of times, what is finer than a microsecond is left out, as Spark does it.
        return array.cast(wanted, safe=not pa.types.is_timestamp(wanted))
    except pa.ArrowInvalid:
        return None


def _fitted_nested(array: pa.Array, kind: dict[str, Any], wanted: pa.DataType) -> pa.Array | None:
    mask = pc.is_null(array) if array.null_count else None
    if kind["type"] == "struct" and pa.types.is_struct(array.type):
        inner = []
        for field, within in zip(kind["fields"], wanted, strict=True):
            place = array.type.get_field_index(field["name"])
            made = fitted(array.field(place), field["type"]) if place >= 0 else pa.nulls(len(array), within.type)
            if made is None:
                return None
            inner.append(made)
        return pa.StructArray.from_arrays(inner, fields=list(wanted), mask=mask)
    if kind["type"] == "array" and (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        array = array.cast(pa.list_(array.type.value_type))
        values = fitted(array.values, kind["elementType"])
        return None if values is None else pa.ListArray.from_arrays(array.offsets, values, type=wanted, mask=mask)
    if kind["type"] == "map" and pa.types.is_map(array.type):
        keys, items = fitted(array.keys, kind["keyType"]), fitted(array.items, kind["valueType"])
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
