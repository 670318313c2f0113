"""Read JSON one block of lines at a time: by Arrow's reader if it gives Spark's result, otherwise line by line.

Arrow gets the schema's types and refuses values that do not fit, including fields that are not in the schema, so what
it reads is complete. Input that Arrow reads differently from Spark is not given to it: several records on a line, a
record on several lines, invalid UTF-8, ``-0``, which is a whole number to Spark. If Arrow refuses a block, or may not
read it, the lines that fit are found and adapted (:mod:`.fitting_lines`).

A string column can hold numbers or booleans (all columns are strings unless ``inferColumnTypes`` is on). Arrow reads
them with their own types, and they are converted back to strings. For numbers with a decimal point the original text is
taken from the block, because ``1.50`` must stay ``1.50``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from headrace.autoloader.reading.bad_records import BadRecords
from headrace.autoloader.reading.conversion.arrow_types import arrow_schema, arrow_type
from headrace.autoloader.reading.conversion.converters import PATTERNS
from headrace.autoloader.reading.conversion.datetime_columns import NotVectorised
from headrace.autoloader.reading.conversion.utf8 import is_utf8
from headrace.autoloader.reading.json.adapting import non_numeric_names
from headrace.autoloader.reading.json.arrow_hazards import is_hazardous, line_ends
from headrace.autoloader.reading.json.arrow_lines import parse_json
from headrace.autoloader.reading.json.columns import ColumnConverter, Path, holds_floating, is_convertible
from headrace.autoloader.reading.json.fitting_lines import FittingLines
from headrace.autoloader.reading.json.flat_records import flat_records
from headrace.autoloader.reading.json.number_texts import original_texts
from headrace.autoloader.reading.json.records import read_records
from headrace.autoloader.reading.lines import BLOCK_BYTES, parts
from headrace.autoloader.reading.plan import ReadPlan
from headrace.model.ddl import JsonType

# Rows per batch when reading record by record.
_ROWS = 10_000
# The lines that fit are searched in parts of this size; not in a longer line, because of the memory.
_PART_BYTES = 512 * 1024
_MOST_BYTES = 8 * _PART_BYTES
_SAMPLE_BYTES = 256 * 1024
_TWO_RECORDS = re.compile(rb"\}[ \t]*\{")
_OPENS, _CLOSES = 0x7B, 0x7D
_BLANK = b" \t\n"
_BOM = b"\xef\xbb\xbf"
_MINUS_ZERO = re.compile(rb"-0[ \t]*[,}\]]")


class JsonBlocks:
    """Reads blocks of whole lines of one file; the types found in one block are used for the next."""

    def __init__(self, plan: ReadPlan, path: str, bad: BadRecords | None = None) -> None:
        self._plan = plan
        self._path = path
        self._bad = bad
        # The column for corrupt records does not come from a field of the file.
        self._fields = [field for field in plan.data["fields"] if field["name"] != plan.corrupt_column]
        struct = {"type": "struct", "fields": self._fields}
        self._simple = is_convertible(struct, plan, maps=False)
        self._lines = FittingLines(plan, path, bad) if is_convertible(struct, plan, maps=True) else None
        ignores = not plan.evolves and plan.rescued_column is None and plan.corrupt_column is None
        ignores = ignores and plan.case_sensitive
        self._unexpected = "ignore" if ignores else "error"
        self._floating = self._simple and holds_floating(arrow_type(struct))
        # For paths of string type: the Arrow type of the values, if they are not strings.
        self._non_text_types: dict[Path, pa.DataType] = {}
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
        if block.strip(_BLANK):
            yield from self._read(block)

    def read_document(self, text: bytes) -> Iterator[pa.RecordBatch]:
        """Read the rows of records that can span lines: all at once, or one by one.

        Raises:
            UnknownFields: see ``read_records``.
            MalformedRecord: see ``read_records``.
        """
        flat = flat_records(text.removeprefix(_BOM))
        batches = None if flat is None else self._all_by_arrow(flat)
        if batches is None:
            texts = [text.decode("utf-8-sig", "replace")]
            yield from read_records(self._plan, self._path, texts, 1, self._bad)
        else:
            yield from batches

    def _all_by_arrow(self, flat: bytes) -> list[pa.RecordBatch] | None:
        batches = []
        for block in parts(flat, BLOCK_BYTES):
            batch = self._by_arrow(block) if self._simple else None
            if batch is not None:
                batches.append(batch)
                continue
            for part in parts(block, _PART_BYTES):
                if self._lines is None or len(part) > _MOST_BYTES:
                    return None
                batch = self._lines.read_all(part)
                if batch is None:
                    return None
                batches.append(batch)
        return batches

    def _read(self, block: bytes) -> Iterator[pa.RecordBatch]:
        batch = self._by_arrow(block) if self._simple else None
        if batch is not None:
            yield batch
            return
        for part in parts(block, _PART_BYTES):
            if self._lines is not None and len(part) <= _MOST_BYTES:
                yield self._lines.read(part)
            else:
                texts = part.decode("utf-8", "replace").split("\n")
                yield from read_records(self._plan, self._path, texts, _ROWS, self._bad)

    def _by_arrow(self, block: bytes) -> pa.RecordBatch | None:
        """Read a block with Arrow; None if Arrow cannot, or must not, read it."""
        ends = line_ends(block)
        if not is_utf8(block) or is_hazardous(block, ends):
            return None
        if self._unexpected == "ignore" and any(True for _ in non_numeric_names(block)):
            # Of fields that it ignores, Arrow accepts more names of numbers than Spark.
            return None
        sample = block[: block.rfind(b"\n", 0, _SAMPLE_BYTES) + 1] or block
        if not self._learned:
            self._learned = True
            self._learn(sample)
        table = self._read_by_arrow(block)
        if table is None:
            before = dict(self._non_text_types)
            self._learn(sample)
            table = self._read_by_arrow(block) if self._non_text_types != before else None
        if table is None or self._has_minus_zero(block):
            return None
        if not (_is_one_record_per_line(block, ends, table.num_rows) or _is_one_record_per_text(block, table.num_rows)):
            return None
        converter = ColumnConverter(self._plan, lambda array, path: _texts(array, path[-1], block))
        try:
            columns = [
                converter.convert(table[field["name"]].combine_chunks(), field["type"], field["name"])
                for field in self._fields
            ]
        except (NotVectorised, _AmbiguousNumbers):
            return None
        return None if len(converter.unfit) else self._batch(columns, table.num_rows)

    def _has_minus_zero(self, block: bytes) -> bool:
        """Whether there may be a ``-0`` that Arrow reads differently."""
        reads_numbers = self._floating or any(map(pa.types.is_integer, self._non_text_types.values()))
        return reads_numbers and _MINUS_ZERO.search(block) is not None

    def _read_by_arrow(self, block: bytes) -> pa.Table | None:
        fields = [(field["name"], self._read_type(field["type"], (field["name"],))) for field in self._fields]
        try:
            return parse_json(block, pa.schema(fields), self._unexpected)
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
            return self._non_text_types.get(path, pa.string())
        return pa.string() if kind in PATTERNS else arrow_type(kind)

    def _batch(self, columns: list[pa.Array], count: int) -> pa.RecordBatch:
        by_name = dict(zip((field["name"] for field in self._fields), columns, strict=True))
        fields = list(arrow_schema(self._plan.data))
        names = {field.name for field in fields}
        extra = [name for name in (self._plan.corrupt_column, self._plan.rescued_column) if name and name not in names]
        fields += [pa.field(name, pa.string()) for name in extra]
        arrays = [by_name[field.name] if field.name in by_name else pa.nulls(count, field.type) for field in fields]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


class _AmbiguousNumbers(ValueError):
    """The original texts of numbers cannot be found in a block."""


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
