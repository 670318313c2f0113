"""Read Avro files, decoded by fastavro one block at a time."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import islice
from typing import BinaryIO

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException

from headrace.autoloader.reading.avro.avro_schema import AvroShape, parse_avro_schema
from headrace.autoloader.reading.avro.container import (
    AvroBlock,
    AvroHeader,
    NotAvro,
    encode_long,
    read_blocks,
    read_header,
)
from headrace.autoloader.reading.avro.schema_walker import UnsupportedAvroSchema
from headrace.autoloader.reading.avro.sizes import MAX_EMPTY_VALUES, counting_empty_items, min_bytes, start_block
from headrace.autoloader.reading.columnar.column_mapping import FileColumns
from headrace.autoloader.reading.limits import Limits
from headrace.autoloader.reading.opening import CorruptFile, OpenedFile, open_file, translating_errors
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.splits import Split

_ROWS = 10_000
_SYNC_MARKER = b"\x00" * 16
# Errors of the decoder for bytes that are not records of the schema.
_DECODE_ERRORS = (
    EOFError,
    ValueError,
    KeyError,
    IndexError,
    OverflowError,
    TypeError,
    struct.error,
    SchemaParseException,
)


def avro_rows(plan: ReadPlan, split: Split) -> Iterator[pa.RecordBatch]:
    """Read the rows of the blocks that belong to a split.

    Raises:
        UnknownFields: see :class:`FileColumns`.
        PipelineError: see :class:`FileColumns`.
        CorruptFile: the file is damaged or not an Avro file.
    """
    with open_file(split.path) as file, _translating_decode_errors(split.path, file):
        header = read_header(file)
        shape = parse_avro_schema(header.schema)
    columns = FileColumns(plan, split.path, shape.columns)
    wanted = pa.schema([shape.columns.field(name) for name in columns.read])
    with open_file(split.path) as file:
        records = _records(file, header, shape, split, plan.limits)
        while True:
            with _translating_decode_errors(split.path, file):
                rows = list(islice(records, _ROWS))
                arrays = [pa.array([row[field.name] for row in rows], field.type) for field in wanted]
            if not rows:
                return
            if arrays:
                yield columns.to_schema_batch(pa.RecordBatch.from_arrays(arrays, schema=wanted))
            else:
                yield columns.empty_rows(len(rows))


def avro_columns(path: str) -> pa.Schema:
    """The columns of the schema in a file.

    Raises:
        CorruptFile: it is not an Avro file.
    """
    with open_file(path) as file, _translating_decode_errors(path, file):
        return parse_avro_schema(read_header(file).schema).columns


def _records(
    file: BinaryIO, header: AvroHeader, shape: AvroShape, split: Split, limits: Limits
) -> Iterator[dict[str, object]]:
    blocks = read_blocks(file, header, split.start, split.end, limits)
    stream = _UncompressedStream(checked_blocks(blocks, min_bytes(shape.wire), split.size), shape)
    for block in fastavro.block_reader(stream):  # type: ignore[arg-type]
        data: BytesIO = block.bytes_  # type: ignore[attr-defined]  # its stub does not name what it reads from
        size = len(data.getbuffer())
        start_block(size)
        yield from block  # type: ignore[misc]
        if data.tell() != size:
            raise NotAvro(f"a block claims {block.num_records} records, but contains more")


class _UncompressedStream:
    """Presents the blocks of a split as an uncompressed Avro file, which is built while it is read."""

    def __init__(self, blocks: Iterator[AvroBlock], shape: AvroShape) -> None:
        self._blocks = blocks
        meta = {"avro.schema": json.dumps(counting_empty_items(shape.wire)), "avro.codec": "null"}
        entries = b"".join(
            _length_prefixed(name.encode()) + _length_prefixed(value.encode()) for name, value in meta.items()
        )
        self._buffered = b"Obj\x01" + encode_long(len(meta)) + entries + encode_long(0) + _SYNC_MARKER
        self._at = 0
        self._total_read = 0

    def tell(self) -> int:
        """The number of bytes read."""
        return self._total_read

    def read(self, size: int) -> bytes:
        """Read *size* bytes, or fewer at the end."""
        while len(self._buffered) - self._at < size:
            block = next(self._blocks, None)
            if block is None:
                break
            plain = encode_long(block.count) + _length_prefixed(block.data) + _SYNC_MARKER
            self._buffered = self._buffered[self._at :] + plain
            self._at = 0
        data = self._buffered[self._at : self._at + size]
        self._at += len(data)
        self._total_read += len(data)
        return data


def checked_blocks(blocks: Iterable[AvroBlock], min_record_bytes: int, file_bytes: int) -> Iterator[AvroBlock]:
    """Yield the blocks, and check that each can hold the records it claims, by their minimum size in bytes.

    Raises:
        NotAvro: a block has too few bytes, or the blocks claim more empty records than a file of this size may have.
    """
    allowed_empty = file_bytes + MAX_EMPTY_VALUES
    for block in blocks:
        allowed_empty -= 0 if min_record_bytes else block.count
        if block.count * min_record_bytes > len(block.data) or allowed_empty < 0:
            raise NotAvro(f"a block claims {block.count} records, but has only {len(block.data)} bytes")
        yield block


def _length_prefixed(data: bytes) -> bytes:
    return encode_long(len(data)) + data


@contextmanager
def _translating_decode_errors(path: str, file: OpenedFile) -> Iterator[None]:
    with translating_errors(path, file, *_DECODE_ERRORS):
        try:
            yield
        except UnsupportedAvroSchema as error:
            raise CorruptFile(f"the schema of {path} cannot be read: {error}") from error
        except NotAvro as error:
            raise CorruptFile(f"{path} cannot be read as Avro: {error}") from error
