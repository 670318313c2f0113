"""Read splits of files as batches with all columns of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa

from headrace.autoloader.reading.avro.avro_files import avro_rows
from headrace.autoloader.reading.bad_records import BadRecords
from headrace.autoloader.reading.columnar.orc import orc_rows
from headrace.autoloader.reading.columnar.parquet import parquet_rows
from headrace.autoloader.reading.conversion.arrow_types import arrow_schema
from headrace.autoloader.reading.csv.blocks import csv_rows
from headrace.autoloader.reading.json.blocks import JsonBlocks
from headrace.autoloader.reading.limits import LongRecord, join_blocks
from headrace.autoloader.reading.lines import line_blocks
from headrace.autoloader.reading.metadata_columns import MetadataColumns
from headrace.autoloader.reading.opening import CorruptFile
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.rows import long_record_rows
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.reading.text_and_binary import binary_files, text_lines
from headrace.autoloader.reading.xml.rows import xml_rows

Contents = Callable[[ReadPlan, Split], Iterator[pa.RecordBatch]]


def read_splits(plan: ReadPlan, splits: Iterable[Split]) -> Iterator[pa.RecordBatch]:
    """Read the rows of splits, with the columns ``plan.all_columns``.

    Law: the rows do not depend on how files are divided, apart from their order.

    Raises:
        UnknownFields: a file has fields that are not in the schema, and the plan evolves.
        MalformedRecord: a record cannot be read, and the mode is FAILFAST.
        FileNotFoundError: a file no longer exists, and the options do not allow it.
        CorruptFile: a file's contents cannot be read, and the options do not allow it.
        OSError: a store did not answer. That says nothing about the file, so no option allows it.
    """
    schema = arrow_schema(plan.all_columns)
    contents = _CONTENTS[plan.file_format]
    for split in splits:
        metadata_columns = MetadataColumns(plan, split, schema)
        try:
            for batch in contents(plan, split):
                yield metadata_columns.with_metadata(batch)
        except (FileNotFoundError, CorruptFile) as error:
            allowed = plan.missing_files if isinstance(error, FileNotFoundError) else plan.corrupt_files
            if not allowed and not BadRecords.of(plan, split).add_file(str(error)):
                raise


def _json(plan: ReadPlan, split: Split) -> Iterator[pa.RecordBatch]:
    encoding = plan.format_options.get("encoding") or plan.format_options.get("charset") or "utf-8"
    blocks = line_blocks(split, encoding=encoding, limits=plan.limits)
    with BadRecords.of(plan, split) as bad:
        reader = JsonBlocks(plan, split.path, bad)
        multi_line = plan.format_options.get("multiLine") == "true"
        for block in [join_blocks(blocks, plan.limits)] if multi_line else blocks:
            if isinstance(block, LongRecord):
                yield from long_record_rows(plan, split.path, block, bad)
            elif multi_line:
                yield from reader.read_document(block)
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
