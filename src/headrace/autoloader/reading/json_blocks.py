"""JSON a block of lines at a time, by Arrow's reader where it reads what Spark would, else record by record.

Arrow is asked for the schema's types and refuses what does not fit, down to a field that is not in the schema, so
that what it reads is whole. What it would read differently from Spark is kept from it: several records on a line, a
record on several lines, bytes that are no UTF-8. A block that it refuses is cut into smaller ones, so that an odd
record costs its neighbours little. Of records with ``-0``, which to Spark is a whole number and as such has no sign,
Arrow's rows are replaced by those that are read record by record.

A column of text may hold numbers or booleans (all columns are text unless ``inferColumnTypes`` is on). Arrow reads
those as what they are and they are spelled out again, except for numbers with a point, whose spelling is taken from
the block because ``1.50`` is to stay ``1.50``.
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

from headrace.autoloader.ddl import JsonType
from headrace.autoloader.reading.arrow_types import arrow_schema, arrow_type
from headrace.autoloader.reading.bad_records import BadRecords
from headrace.autoloader.reading.converters import PATTERNS
from headrace.autoloader.reading.datetime_columns import NotVectorised, days, moments, within_precision
from headrace.autoloader.reading.json_records import read_records
from headrace.autoloader.reading.nesting_depth import line_ends, nests_deep
from headrace.autoloader.reading.number_texts import NoNumber, as_spelled, with_quoted_numbers
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.utf8 import is_utf8

# Rows of a batch that is made record by record, and bytes of a block that is no more cut.
_ROWS = 10_000
_LEAST_BYTES = 128 * 1024
_PARTS = 8
_SAMPLE_BYTES = 256 * 1024
_TWO_ON_A_LINE = re.compile(rb"\}[ \t]*\{")
_OPENS, _CLOSES = 0x7B, 0x7D
_BOM = b"\xef\xbb\xbf"
_MINUS_ZERO = re.compile(rb"-0[ \t]*[,}\]]")
# Records with it, of a block whose others are left to Arrow.
_MOST_MINUS_ZEROS = 100

Path = tuple[str, ...]


class JsonBlocks:
    """Reads blocks of whole lines of one file; what it learns of a block helps with the next."""

    def __init__(self, plan: ReadPlan, path: str, bad: BadRecords | None = None) -> None:
        self._plan = plan
        self._path = path
        self._bad = bad
        # What cannot be read does not come from a field of the file.
        self._fields = [field for field in plan.data["fields"] if field["name"] != plan.corrupt_column]
        patterns = {kind for kind, name in PATTERNS.items() if name in plan.format_options}
        self._simple = bool(self._fields) and all(_is_simple(field["type"], patterns) for field in self._fields)
        ignores = not plan.evolves and plan.rescued_column is None and plan.corrupt_column is None
        ignores = ignores and plan.case_sensitive
        self._unexpected = "ignore" if ignores else "error"
        self._floating = self._simple and any(_holds_floating(arrow_type(field["type"])) for field in self._fields)
        # Of columns of text: as which of Arrow's types a place holds what is no text.
        self._spelled: dict[Path, pa.DataType] = {}
        # Whether Arrow can read numbers of such columns as numbers; else they are put in quotes for it.
        self._as_numbers = True
        self._learned = False

    def read(self, block: bytes) -> Iterator[pa.RecordBatch]:
        """The rows of a block, of the data columns and then the corrupt and the rescued one.

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
        elif self._simple and len(block) > _LEAST_BYTES and (parts := list(_cut(block)))[1:]:
            for part in parts:
                yield from self._read(part)
        else:
            yield from self._by_record(block)

    def _by_record(self, block: bytes) -> Iterator[pa.RecordBatch]:
        texts = block.decode("utf-8", "replace").split("\n")
        return read_records(self._plan, self._path, texts, _ROWS, self._bad)

    def _by_arrow(self, block: bytes) -> Iterator[pa.RecordBatch] | None:
        """The rows of a block; None when Arrow is not to read it, or cannot."""
        ends = line_ends(block)
        if not is_utf8(block) or nests_deep(block, ends):
            return None
        if not self._learned:
            self._learned = True
            self._learn(block[: block.rfind(b"\n", 0, _SAMPLE_BYTES) + 1] or block)
        table = self._parsed(block)
        if table is None:
            before = dict(self._spelled)
            self._learn(block)
            table = self._parsed(block) if self._spelled != before else None
        if table is None:
            return None
        one_a_line = _is_one_a_line(block, ends, table.num_rows)
        apart = list(self._minus_zeros(block))
        if len(apart) > _MOST_MINUS_ZEROS or not (one_a_line or (not apart and _is_one_a_text(block, table.num_rows))):
            return None
        try:
            columns = [
                self._made(table[field["name"]].combine_chunks(), field["type"], (field["name"],), block)
                for field in self._fields
            ]
        except _OtherSpelling:
            self._as_numbers = False
            return self._by_arrow(block)
        except NotVectorised:
            return None
        return self._replaced(self._batch(columns, table.num_rows), block, ends, apart)

    def _minus_zeros(self, block: bytes) -> Iterator[int]:
        """Where there is a ``-0`` that Arrow might read otherwise."""
        if self._floating or any(map(pa.types.is_integer, self._spelled.values())):
            yield from (match.start() for match in islice(_MINUS_ZERO.finditer(block), _MOST_MINUS_ZEROS + 1))

    def _replaced(
        self, batch: pa.RecordBatch, block: bytes, ends: np.ndarray, apart: Sequence[int]
    ) -> Iterator[pa.RecordBatch]:
        """The batch, with the rows of the lines that are at some places read record by record."""
        done = 0
        for row in np.unique(np.searchsorted(ends, apart)).tolist():
            yield batch.slice(done, row - done)
            begin = int(ends[row - 1]) + 1 if row else 0
            yield from self._by_record(block[begin : int(ends[row]) if row < len(ends) else len(block)])
            done = row + 1
        yield batch.slice(done)

    def _parsed(self, block: bytes) -> pa.Table | None:
        points = sorted({path[-1] for path, kind in self._spelled.items() if pa.types.is_floating(kind)})
        if not points:
            return self._read_by_arrow(block)
        if self._as_numbers:
            table = self._read_by_arrow(block)
            if table is not None:
                return table
            self._as_numbers = False
        try:
            return self._read_by_arrow(with_quoted_numbers(block, points))
        except NoNumber:
            return None

    def _read_by_arrow(self, block: bytes) -> pa.Table | None:
        fields = [(field["name"], self._physical(field["type"], (field["name"],))) for field in self._fields]
        options = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
        parsing = pj.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior=self._unexpected)
        try:
            return pj.read_json(pa.BufferReader(block), options, parsing)
        except pa.ArrowInvalid:
            return None

    def _learn(self, sample: bytes) -> None:
        """Find out which places of text hold numbers or booleans."""
        try:
            options = pj.ReadOptions(use_threads=False, block_size=len(sample) + 1)
            found = pj.read_json(pa.BufferReader(sample), options).schema
        except pa.ArrowInvalid:
            return
        self._learn_of({"type": "struct", "fields": self._fields}, pa.struct(list(found)), ())

    def _learn_of(self, wanted: JsonType, found: pa.DataType, path: Path) -> None:
        if wanted == "string":
            if pa.types.is_floating(found) or pa.types.is_integer(found) or pa.types.is_boolean(found):
                self._spelled[path] = found
            elif not pa.types.is_null(found):
                self._spelled.pop(path, None)
        elif isinstance(wanted, dict) and wanted["type"] == "struct" and pa.types.is_struct(found):
            for field in wanted["fields"]:
                place = found.get_field_index(field["name"])
                if place >= 0:
                    self._learn_of(field["type"], found.field(place).type, (*path, field["name"]))
        elif isinstance(wanted, dict) and wanted["type"] == "array" and pa.types.is_list(found):
            self._learn_of(wanted["elementType"], found.value_type, (*path, ""))

    def _physical(self, kind: JsonType, path: Path) -> pa.DataType:
        """As what Arrow is to read a place."""
        if isinstance(kind, dict):
            if kind["type"] == "struct":
                inner = [
                    (field["name"], self._physical(field["type"], (*path, field["name"]))) for field in kind["fields"]
                ]
                return pa.struct(inner)
            return pa.list_(self._physical(kind["elementType"], (*path, "")))
        if kind == "string":
            spelled = self._spelled.get(path)
            in_quotes = spelled is not None and pa.types.is_floating(spelled) and not self._as_numbers
            return pa.string() if spelled is None or in_quotes else spelled
        return pa.string() if kind in ("date", "timestamp", "timestamp_ntz") else arrow_type(kind)

    def _made(self, array: pa.Array, kind: JsonType, path: Path, block: bytes) -> pa.Array:
        """What Arrow has read of a block, in the type that is wanted."""
        if isinstance(kind, dict):
            return self._made_nested(array, kind, path, block)
        if kind == "string":
            return _texts(array, path[-1], block)
        if kind == "date":
            return days(array)
        if kind in ("timestamp", "timestamp_ntz"):
            return moments(array, self._plan.time_zone if kind == "timestamp" else None)
        if pa.types.is_floating(array.type) and not _is_finite(array):
            raise NotVectorised
        return within_precision(array)

    def _made_nested(self, array: pa.Array, kind: Mapping[str, Any], path: Path, block: bytes) -> pa.Array:
        wanted = arrow_type(kind)
        if array.type == wanted and not _holds_floating(wanted):
            return array
        mask = pc.is_null(array) if array.null_count else None
        if kind["type"] == "struct":
            inner = [
                self._made(array.field(place), field["type"], (*path, field["name"]), block)
                for place, field in enumerate(kind["fields"])
            ]
            return pa.StructArray.from_arrays(inner, fields=list(wanted), mask=mask)
        values = self._made(array.values, kind["elementType"], (*path, ""), block)
        return pa.ListArray.from_arrays(array.offsets, values, type=wanted, mask=mask)

    def _batch(self, columns: list[pa.Array], count: int) -> pa.RecordBatch:
        made = dict(zip((field["name"] for field in self._fields), columns, strict=True))
        fields = list(arrow_schema(self._plan.data))
        names = {field.name for field in fields}
        extra = [name for name in (self._plan.corrupt_column, self._plan.rescued_column) if name and name not in names]
        fields += [pa.field(name, pa.string()) for name in extra]
        arrays = [made[field.name] if field.name in made else pa.nulls(count, field.type) for field in fields]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


class _OtherSpelling(ValueError):
    """How numbers are written cannot be told from a block; in quotes it can."""


def _texts(array: pa.Array, name: str, block: bytes) -> pa.Array:
    """The texts of members of a name, which Arrow may have read as something else.

    Raises:
        _OtherSpelling: they are numbers with a point whose spelling cannot be found.
    """
    if not pa.types.is_floating(array.type):
        return array.cast(pa.string())
    texts = as_spelled(block, name, array)
    if texts is None:
        raise _OtherSpelling
    return texts


def _is_simple(kind: JsonType, patterns: AbstractSet[str]) -> bool:
    """Whether Arrow's reader has the type, and its values are not read by a pattern."""
    if isinstance(kind, str):
        return kind not in ("binary", "variant") and kind not in patterns
    if kind["type"] == "struct":
        return bool(kind["fields"]) and all(_is_simple(field["type"], patterns) for field in kind["fields"])
    return kind["type"] == "array" and _is_simple(kind["elementType"], patterns)


def _holds_floating(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_holds_floating(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def _is_finite(array: pa.Array) -> bool:
    """Whether there is no name among the values, of which Arrow has more than Spark."""
    return bool(np.isfinite(array.drop_null().to_numpy(zero_copy_only=False)).all())


def _is_one_a_line(block: bytes, ends: np.ndarray, records: int) -> bool:
    """Whether each line holds one record, and nothing is around it.

    Between two records, and nowhere else in JSON, the one bracket may follow the other: no record has a line end.
    """
    if len(ends) + (not block.endswith(b"\n")) != records:
        return False
    inner = ends[:-1] if block.endswith(b"\n") else ends
    if len(inner) and inner[0] == 0:
        return False
    letters = np.frombuffer(block, dtype=np.uint8)
    return bool((letters[inner - 1] == _CLOSES).all() and (letters[inner + 1] == _OPENS).all())


def _is_one_a_text(block: bytes, records: int) -> bool:
    """Whether each line that holds something holds one record."""
    if _TWO_ON_A_LINE.search(block):
        return False
    return records == sum(1 for line in block.split(b"\n") if line.strip())


def _cut(block: bytes) -> Iterator[bytes]:
    begin, step = 0, len(block) // _PARTS
    while begin < len(block):
        end = block.find(b"\n", begin + step) + 1 or len(block)
        yield block[begin:end]
        begin = end
