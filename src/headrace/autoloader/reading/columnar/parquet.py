"""Read Parquet files with Arrow: each row group belongs to one split."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.autoloader.reading.columnar.column_mapping import FileColumns
from headrace.autoloader.reading.opening import open_file, translating_errors
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.splits import Split

_ROWS = 32_768
_MOMENT = pa.timestamp("us", tz="UTC")


def parquet_rows(plan: ReadPlan, split: Split) -> Iterator[pa.RecordBatch]:
    """Read the row groups whose middle is in a split, as Spark divides Parquet files.

    Raises:
        UnknownFields: see :class:`FileColumns`.
        PipelineError: see :class:`FileColumns`.
        CorruptFile: the file is damaged or not a Parquet file.
    """
    with (
        open_file(split.path) as opened,
        translating_errors(split.path, opened),
        pq.ParquetFile(opened, coerce_int96_timestamp_unit="us") as file,
    ):
        columns = FileColumns(plan, split.path, parquet_schema(file))
        groups = [number for number in range(file.num_row_groups) if _is_within(file, number, split)]
        for batch in file.iter_batches(_ROWS, row_groups=groups, columns=columns.read):
            yield columns.to_schema_batch(batch)


def parquet_schema(file: pq.ParquetFile) -> pa.Schema:
    """The schema of a file; times of the old INT96 type, which has no zone in the file, are TIMESTAMP."""
    columns = (file.schema.column(index) for index in range(len(file.schema)))
    old = {column.path for column in columns if column.physical_type == "INT96"}
    return pa.schema([field.with_type(_MOMENT) if field.name in old else field for field in file.schema_arrow])


def _is_within(file: pq.ParquetFile, number: int, split: Split) -> bool:
    group = file.metadata.row_group(number)
    first = group.column(0)
    begin = min(filter(None, (first.dictionary_page_offset, first.data_page_offset)), default=0)
    size = sum(group.column(index).total_compressed_size for index in range(group.num_columns))
    return bool(split.start <= begin + size // 2 < max(split.end, split.start + 1))
