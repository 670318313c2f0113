"""Parts of files as batches of all of a stream's columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.autoloader.reading.arrow_types import arrow_schema, arrow_type
from headrace.autoloader.reading.avro import avro_rows
from headrace.autoloader.reading.bad_records import BadRecords
from headrace.autoloader.reading.converters import Times, text_converter
from headrace.autoloader.reading.csv_blocks import csv_rows
from headrace.autoloader.reading.json_blocks import JsonBlocks
from headrace.autoloader.reading.json_records import read_records
from headrace.autoloader.reading.json_scan import Members
from headrace.autoloader.reading.limits import LongRecord, whole
from headrace.autoloader.reading.lines import line_blocks
from headrace.autoloader.reading.opening import CorruptFile
from headrace.autoloader.reading.orc import orc_rows
from headrace.autoloader.reading.parquet import parquet_rows
from headrace.autoloader.reading.partitions import folder_pairs
from headrace.autoloader.reading.plan import METADATA, METADATA_FIELD, ReadPlan
from headrace.autoloader.reading.rows import rescued_text, too_long
from headrace.autoloader.reading.splits import Split, changed_at
from headrace.autoloader.reading.text_and_binary import binary_files, text_lines
from headrace.autoloader.reading.values import TypeMismatch
from headrace.autoloader.reading.xml_rows import xml_rows
from headrace.autoloader.stores.paths import store_of

# What is rescued ends with the path of its file.
_FILE_PATH = '"_file_path":'
Contents = Callable[[ReadPlan, Split], Iterator[pa.RecordBatch]]


def read_splits(plan: ReadPlan, splits: Iterable[Split]) -> Iterator[pa.RecordBatch]:
    """The rows of parts of files, with the columns of ``plan.whole``.

    Law: the rows do not depend on how files are divided, apart from their order.

    Raises:
        UnknownFields: a file has fields that the schema lacks, and the stream is to end with that.
        MalformedRecord: a record cannot be read, and the mode is FAILFAST.
        FileNotFoundError: a file has gone, and the options do not allow for it.
        CorruptFile: the contents of a file cannot be read, and the options do not allow for it.
        OSError: a store did not answer, which says nothing of the file: no option allows for it.
    """
    schema = arrow_schema(plan.whole)
    contents = _CONTENTS[plan.file_format]
    for split in splits:
        beside = _Beside(plan, split, schema)
        try:
            for batch in contents(plan, split):
                yield beside.completed(batch)
        except (FileNotFoundError, CorruptFile) as error:
            allowed = plan.missing_files if isinstance(error, FileNotFoundError) else plan.corrupt_files
            if not allowed and not BadRecords.of(plan, split).takes_file(str(error)):
                raise


class _Beside:
    """The columns that are the same for all rows of a part, and what its folders say that is in none of them."""

    def __init__(self, plan: ReadPlan, split: Split, schema: pa.Schema) -> None:
        self._schema = schema
        self._scalars: dict[str, pa.Scalar] = {}
        self._rescued = plan.rescued_column
        times = Times.of(plan.time_zone, {})
        pairs = folder_pairs(plan.base, os.path.dirname(split.path))  # noqa: PTH120 - text, as in the ledger
        values, left = dict(pairs), []
        fields = {field["name"]: field for field in plan.partitions["fields"]}
        for name, field in fields.items():
            self._scalars[name], fits = _partition(field, values.get(name), times)
            left += [] if fits else [(name, values[name])]
        if not plan.ignores_folders:
            inner = {name: place for place, (name, _) in enumerate(pairs)}
            left += [pair for place, pair in enumerate(pairs) if pair[0] not in fields or inner[pair[0]] != place]
        self._left = rescued_text(Members(left), split.path)
        if plan.metadata:
            self._scalars[METADATA] = pa.scalar(_metadata(split), arrow_type(METADATA_FIELD["type"]))

    def completed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with them, in the order of the schema."""
        columns = []
        for field in self._schema:
            scalar = self._scalars.get(field.name)
            if scalar is not None:
                columns.append(pa.repeat(scalar, batch.num_rows))
                continue
            place = batch.schema.get_field_index(field.name)
            column = batch.column(place) if place >= 0 else pa.nulls(batch.num_rows, field.type)
            columns.append(self._with_left(column) if field.name == self._rescued else column)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _with_left(self, rescued: pa.Array) -> pa.Array:
        """What is rescued of the rows, and of the folders of their file."""
        if self._left is None:
            return rescued
        members = self._left[: self._left.rindex(_FILE_PATH)]
        both = pc.binary_join_element_wise(members, pc.utf8_slice_codeunits(rescued, 1), "")
        return pc.if_else(pc.is_null(rescued), self._left, both)


def _partition(field: Mapping[str, Any], text: str | None, times: Times) -> tuple[pa.Scalar, bool]:
    """The value of a folder in the type of its column, and whether it is one; else NULL."""
    kind = arrow_type(field["type"])
    convert = text_converter(field["type"], times)
    try:
        return pa.scalar(None if text is None or convert is None else convert(text), kind), True
    except TypeMismatch:
        return pa.scalar(None, kind), False


def _metadata(split: Split) -> dict[str, Any]:
    path = store_of(split.path).uri(split.path)
    return {
        "file_path": path,
        # Spark's has what a URI encodes, too.
        "file_name": path.rpartition("/")[2],
        "file_size": split.size,
        "file_block_start": split.start,
        "file_block_length": split.end - split.start,
        "file_modification_time": changed_at(split),
    }


def _json(plan: ReadPlan, split: Split) -> Iterator[pa.RecordBatch]:
    encoding = plan.format_options.get("encoding") or plan.format_options.get("charset") or "utf-8"
    blocks = line_blocks(split, encoding=encoding, limits=plan.limits)
    with BadRecords.of(plan, split) as bad:
        reader = JsonBlocks(plan, split.path, bad)
        multi_line = plan.format_options.get("multiLine") == "true"
        for block in [whole(blocks, plan.limits)] if multi_line else blocks:
            if isinstance(block, LongRecord):
                yield from too_long(plan, split.path, block, bad)
            elif multi_line:
                yield from read_records(plan, split.path, [block.decode("utf-8-sig", "replace")], 1, bad)
            else:
                yield from reader.read(block)


_CONTENTS: Mapping[str, Contents] = {
    "avro": avro_rows,
    "csv": csv_rows,
    "json": _json,
    "text": text_lines,
    "binaryFile": binary_files,
    "orc": orc_rows,
    "parquet": parquet_rows,
    "xml": xml_rows,
}
