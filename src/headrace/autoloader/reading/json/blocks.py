"""Read JSON one block of lines at a time: by Arrow's reader if it gives Spark's result, otherwise record by record.

Arrow gets the schema's types and refuses values that do not fit, including fields that are not in the schema, so what
it reads is complete. Input that Arrow reads differently from Spark is not given to it: several records on a line, a
record on several lines, invalid UTF-8. A block that Arrow refuses is split into smaller ones, so that an unusual record
affects only few others. Records with ``-0`` are read one by one: to Spark it is a whole number, which has no sign.

A string column can hold numbers or booleans (all columns are strings unless ``inferColumnTypes`` is on). Arrow reads
them with their own types, and they are converted back to strings. For numbers with a decimal point the original text is
taken from the block, because ``1.50`` must stay ``1.50``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from headrace.autoloader.reading.bad_records import BadRecords
from headrace.autoloader.reading.conversion.arrow_types import arrow_schema, arrow_type
from headrace.autoloader.reading.conversion.converters import PATTERNS
from headrace.autoloader.reading.conversion.datetime_columns import (
    NotVectorised,
    check_precision,
    parse_dates,
    parse_timestamps,
)
from headrace.autoloader.reading.conversion.utf8 import is_utf8
from headrace.autoloader.reading.json.nesting_depth import line_ends, nests_deep
from headrace.autoloader.reading.json.number_texts import NoNumber, original_texts, quote_numbers
from headrace.autoloader.reading.json.records import read_records
from headrace.autoloader.reading.plan import ReadPlan
from headrace.model.ddl import JsonType

# Rows per batch when reading record by record, and the size of a block that is not split further.
_ROWS = 10_000
_MIN_BYTES = 128 * 1024
_PARTS = 8
_SAMPLE_BYTES = 256 * 1024
_TWO_RECORDS = re.compile(rb"\}[ \t]*\{")
_OPENS, _CLOSES = 0x7B, 0x7D
_BOM = b"\xef\xbb\xbf"
_MINUS_ZERO = re.compile(rb"-0[ \t]*[,}\]]")
# Maximum number of such records in a block of which Arrow reads the others.
_MAX_MINUS_ZEROS = 100

Path = tuple[str, ...]


class JsonBlocks:
    """Reads blocks of whole lines of one file; the types found in one block are used for the next."""

    def __init__(self, plan: ReadPlan, path: str, bad: BadRecords | None = None) -> None:
        self._plan = plan
        self._path = path
        self._bad = bad
        # The column for corrupt records does not come from a field of the file.
        self._fields = [field for field in plan.data["fields"] if field["name"] != plan.corrupt_column]
        patterns = {kind for kind, name in PATTERNS.items() if name in plan.format_options}
        self._simple = bool(self._fields) and all(_is_simple(field["type"], patterns) for field in self._fields)
        ignores = not plan.evolves and plan.rescued_column is None and plan.corrupt_column is None
        ignores = ignores and plan.case_sensitive
        self._unexpected = "ignore" if ignores else "error"
        self._floating = self._simple and any(_holds_floating(arrow_type(field["type"])) for field in self._fields)
        # For paths of string type: the Arrow type of the values, if they are not strings.
        self._non_text_types: dict[Path, pa.DataType] = {}
        # Whether Arrow can read such numbers as numbers; otherwise they are quoted before.
        self._as_numbers = True
        self._learned = False

    def read(self, block: bytes) -> Iterator[pa.RecordBatch]:
        """Read the rows of a block: the data columns, then the corrupt and the rescued one.

        Raises:
            UnknownFields: see ``read_records``.
            MalformedRecord: see ``read_records``.
        """
        block = block.removeprefix(_BOM)
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not block.isspace() and block:
            yield from self._read(block)

    def _read(self, block: bytes) -> Iterator[pa.RecordBatch]:
        batches = self._by_arrow(block) if self._simple else None
        if batches is not None:
            yield from batches
        elif self._simple and len(block) > _MIN_BYTES and (parts := list(_cut(block)))[1:]:
            for part in parts:
                yield from self._read(part)
        else:
            yield from self._by_record(block)

    def _by_record(self, block: bytes) -> Iterator[pa.RecordBatch]:
        texts = block.decode("utf-8", "replace").split("\n")
        return read_records(self._plan, self._path, texts, _ROWS, self._bad)

    def _by_arrow(self, block: bytes) -> Iterator[pa.RecordBatch] | None:
        """Read a block with Arrow; None if Arrow cannot, or must not, read it."""
        ends = line_ends(block)
        if not is_utf8(block) or nests_deep(block, ends):
            return None
        if not self._learned:
            self._learned = True
            self._learn(block[: block.rfind(b"\n", 0, _SAMPLE_BYTES) + 1] or block)
        table = self._parsed(block)
        if table is None:
            before = dict(self._non_text_types)
            self._learn(block)
            table = self._parsed(block) if self._non_text_types != before else None
        if table is None:
            return None
        one_a_line = _is_one_record_per_line(block, ends, table.num_rows)
        minus_zeros = list(self._minus_zeros(block))
        if len(minus_zeros) > _MAX_MINUS_ZEROS or not (
            one_a_line or (not minus_zeros and _is_one_record_per_text(block, table.num_rows))
        ):
            return None
        try:
            columns = [
                self._convert(table[field["name"]].combine_chunks(), field["type"], (field["name"],), block)
                for field in self._fields
            ]
        except _AmbiguousNumbers:
            self._as_numbers = False
            return self._by_arrow(block)
        except NotVectorised:
            return None
        return self._replaced(self._batch(columns, table.num_rows), block, ends, minus_zeros)

    def _minus_zeros(self, block: bytes) -> Iterator[int]:
        """Positions of a ``-0`` that Arrow may read differently."""
        if self._floating or any(map(pa.types.is_integer, self._non_text_types.values())):
            yield from (match.start() for match in islice(_MINUS_ZERO.finditer(block), _MAX_MINUS_ZEROS + 1))

    def _replaced(
        self, batch: pa.RecordBatch, block: bytes, ends: np.ndarray, minus_zeros: Sequence[int]
    ) -> Iterator[pa.RecordBatch]:
        """Replace the rows of the lines at some positions by rows that are read record by record."""
        done = 0
        for row in np.unique(np.searchsorted(ends, minus_zeros)).tolist():
            yield batch.slice(done, row - done)
            begin = int(ends[row - 1]) + 1 if row else 0
            yield from self._by_record(block[begin : int(ends[row]) if row < len(ends) else len(block)])
            done = row + 1
        yield batch.slice(done)

    def _parsed(self, block: bytes) -> pa.Table | None:
        points = sorted({path[-1] for path, kind in self._non_text_types.items() if pa.types.is_floating(kind)})
        if not points:
            return self._read_by_arrow(block)
        if self._as_numbers:
            table = self._read_by_arrow(block)
            if table is not None:
                return table
            self._as_numbers = False
        try:
            return self._read_by_arrow(quote_numbers(block, points))
        except NoNumber:
            return None

    def _read_by_arrow(self, block: bytes) -> pa.Table | None:
        fields = [(field["name"], self._read_type(field["type"], (field["name"],))) for field in self._fields]
        options = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
        parsing = pj.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior=self._unexpected)
        try:
            return pj.read_json(pa.BufferReader(block), options, parsing)
        except pa.ArrowInvalid:
            return None

    def _learn(self, sample: bytes) -> None:
        """Find the paths of string type that hold numbers or booleans."""
        try:
            options = pj.ReadOptions(use_threads=False, block_size=len(sample) + 1)
            found = pj.read_json(pa.BufferReader(sample), options).schema
        except pa.ArrowInvalid:
            return
        self._learn_of({"type": "struct", "fields": self._fields}, pa.struct(list(found)), ())

    def _learn_of(self, expected: JsonType, found: pa.DataType, path: Path) -> None:
        if expected == "string":
            if pa.types.is_floating(found) or pa.types.is_integer(found) or pa.types.is_boolean(found):
                self._non_text_types[path] = found
            elif not pa.types.is_null(found):
                self._non_text_types.pop(path, None)
        elif isinstance(expected, dict) and expected["type"] == "struct" and pa.types.is_struct(found):
            for field in expected["fields"]:
                index = found.get_field_index(field["name"])
                if index >= 0:
                    self._learn_of(field["type"], found.field(index).type, (*path, field["name"]))
        elif isinstance(expected, dict) and expected["type"] == "array" and pa.types.is_list(found):
            self._learn_of(expected["elementType"], found.value_type, (*path, ""))

    def _read_type(self, kind: JsonType, path: Path) -> pa.DataType:
        """The type that Arrow reads a path as."""
        if isinstance(kind, dict):
            if kind["type"] == "struct":
                inner = [
                    (field["name"], self._read_type(field["type"], (*path, field["name"]))) for field in kind["fields"]
                ]
                return pa.struct(inner)
            return pa.list_(self._read_type(kind["elementType"], (*path, "")))
        if kind == "string":
            non_text_type = self._non_text_types.get(path)
            in_quotes = non_text_type is not None and pa.types.is_floating(non_text_type) and not self._as_numbers
            return pa.string() if non_text_type is None or in_quotes else non_text_type
        return pa.string() if kind in ("date", "timestamp", "timestamp_ntz") else arrow_type(kind)

    def _convert(self, array: pa.Array, kind: JsonType, path: Path, block: bytes) -> pa.Array:
        """Convert what Arrow has read to the schema's type."""
        if isinstance(kind, dict):
            return self._convert_nested(array, kind, path, block)
        if kind == "string":
            return _texts(array, path[-1], block)
        if kind == "date":
            return parse_dates(array)
        if kind in ("timestamp", "timestamp_ntz"):
            return parse_timestamps(array, self._plan.time_zone if kind == "timestamp" else None)
        if pa.types.is_floating(array.type) and not _is_finite(array):
            raise NotVectorised
        return check_precision(array)

    def _convert_nested(self, array: pa.Array, kind: Mapping[str, Any], path: Path, block: bytes) -> pa.Array:
        expected = arrow_type(kind)
        if array.type == expected and not _holds_floating(expected):
            return array
        mask = pc.is_null(array) if array.null_count else None
        if kind["type"] == "struct":
            inner = [
                self._convert(array.field(index), field["type"], (*path, field["name"]), block)
                for index, field in enumerate(kind["fields"])
            ]
            return pa.StructArray.from_arrays(inner, fields=list(expected), mask=mask)
        values = self._convert(array.values, kind["elementType"], (*path, ""), block)
        return pa.ListArray.from_arrays(array.offsets, values, type=expected, mask=mask)

    def _batch(self, columns: list[pa.Array], count: int) -> pa.RecordBatch:
        by_name = dict(zip((field["name"] for field in self._fields), columns, strict=True))
        fields = list(arrow_schema(self._plan.data))
        names = {field.name for field in fields}
        extra = [name for name in (self._plan.corrupt_column, self._plan.rescued_column) if name and name not in names]
        fields += [pa.field(name, pa.string()) for name in extra]
        arrays = [by_name[field.name] if field.name in by_name else pa.nulls(count, field.type) for field in fields]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


class _AmbiguousNumbers(ValueError):
    """The original texts of numbers cannot be found in a block; quoted numbers keep them."""


def _texts(array: pa.Array, name: str, block: bytes) -> pa.Array:
    """The texts of members of a name, which Arrow may have read as another type.

    Raises:
        _AmbiguousNumbers: they are numbers with a decimal point whose original text cannot be found.
    """
    if not pa.types.is_floating(array.type):
        return array.cast(pa.string())
    texts = original_texts(block, name, array)
    if texts is None:
        raise _AmbiguousNumbers
    return texts


def _is_simple(kind: JsonType, patterns: AbstractSet[str]) -> bool:
    """Whether Arrow's reader supports the type, and its values are not parsed by a pattern."""
    if isinstance(kind, str):
        return kind not in ("binary", "variant") and kind not in patterns
    if kind["type"] == "struct":
        return bool(kind["fields"]) and all(_is_simple(field["type"], patterns) for field in kind["fields"])
    return kind["type"] == "array" and _is_simple(kind["elementType"], patterns)


def _holds_floating(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_holds_floating(kind.field(index).type) for index in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def _is_finite(array: pa.Array) -> bool:
    """Whether no value is NaN or infinite: Arrow accepts more names for these than Spark."""
    return bool(np.isfinite(array.drop_null().to_numpy(zero_copy_only=False)).all())


def _is_one_record_per_line(block: bytes, ends: np.ndarray, records: int) -> bool:
    """Whether each line is exactly one record.

    Only between two records can ``{`` follow ``}`` across a line end, so if it does at every line end, no record
    contains one.
    """
    if len(ends) + (not block.endswith(b"\n")) != records:
        return False
    inner = ends[:-1] if block.endswith(b"\n") else ends
    if len(inner) and inner[0] == 0:
        return False
    letters = np.frombuffer(block, dtype=np.uint8)
    return bool((letters[inner - 1] == _CLOSES).all() and (letters[inner + 1] == _OPENS).all())


def _is_one_record_per_text(block: bytes, records: int) -> bool:
    """Whether each line that is not blank holds one record."""
    if _TWO_RECORDS.search(block):
        return False
    return records == sum(1 for line in block.split(b"\n") if line.strip())


def _cut(block: bytes) -> Iterator[bytes]:
    begin, step = 0, len(block) // _PARTS
    while begin < len(block):
        end = block.find(b"\n", begin + step) + 1 or len(block)
        yield block[begin:end]
        begin = end
