"""Avro files, decoded by fastavro a block at a time."""

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

from headrace.autoloader.reading.avro_container import (
    AvroBlock,
    AvroHeader,
    NotAvro,
    read_blocks,
    read_header,
    written_long,
)
from headrace.autoloader.reading.avro_schema import AvroShape, NoAvroSchema, avro_shape
from headrace.autoloader.reading.avro_sizes import MOST_WITHOUT_BYTES, begin_block, counting, least_bytes
from headrace.autoloader.reading.columnar import FileColumns
from headrace.autoloader.reading.limits import Limits
from headrace.autoloader.reading.opening import CorruptFile, OpenedFile, judging, open_file
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.splits import Split

_ROWS = 10_000
_MARK = b"\x00" * 16
# What the decoder raises for bytes that are no records of the schema.
_UNDECODED = (
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
    """The rows of the blocks that belong to a part of a file.

    Raises:
        UnknownFields: see :class:`FileColumns`.
        PipelineError: see :class:`FileColumns`.
        CorruptFile: the file is damaged, or none of Avro.
    """
    with open_file(split.path) as file, _decoding(split.path, file):
        header = read_header(file)
        shape = avro_shape(header.schema)
    columns = FileColumns(plan, split.path, shape.columns)
    wanted = pa.schema([shape.columns.field(name) for name in columns.read])
    with open_file(split.path) as file:
        records = _records(file, header, shape, split, plan.limits)
        while True:
            with _decoding(split.path, file):
                rows = list(islice(records, _ROWS))
                arrays = [pa.array([row[field.name] for row in rows], field.type) for field in wanted]
            if not rows:
                return
            if arrays:
                yield columns.completed(pa.RecordBatch.from_arrays(arrays, schema=wanted))
            else:
                yield columns.nothing(len(rows))


def avro_columns(path: str) -> pa.Schema:
    """The columns that the schema in a file has.

    Raises:
        CorruptFile: it is no Avro file.
    """
    with open_file(path) as file, _decoding(path, file):
        return avro_shape(read_header(file).schema).columns


def _records(
    file: BinaryIO, header: AvroHeader, shape: AvroShape, split: Split, limits: Limits
) -> Iterator[dict[str, object]]:
    blocks = read_blocks(file, header, split.start, split.end, limits)
    stream = _Plain(possible(blocks, least_bytes(shape.wire), split.size), shape)
    for block in fastavro.block_reader(stream):  # type: ignore[arg-type]
        data: BytesIO = block.bytes_  # type: ignore[attr-defined]  # its stub does not name what it reads from
        size = len(data.getbuffer())
        begin_block(size)
        yield from block  # type: ignore[misc]
        if data.tell() != size:
            raise NotAvro(f"a block claims {block.num_records} records, but contains more")


class _Plain:
    """The blocks of a part as an Avro file that is not compressed, which is made as it is read."""

    def __init__(self, blocks: Iterator[AvroBlock], shape: AvroShape) -> None:
        self._blocks = blocks
        meta = {"avro.schema": json.dumps(counting(shape.wire)), "avro.codec": "null"}
        entries = b"".join(_sized(name.encode()) + _sized(value.encode()) for name, value in meta.items())
        self._left = b"Obj\x01" + written_long(len(meta)) + entries + written_long(0) + _MARK
        self._at = 0
        self._given = 0

    def tell(self) -> int:
        """How many bytes were read."""
        return self._given

    def read(self, size: int) -> bytes:
        """So many bytes, or fewer at the end."""
        while len(self._left) - self._at < size:
            block = next(self._blocks, None)
            if block is None:
                break
            plain = written_long(block.count) + _sized(block.data) + _MARK
            self._left = self._left[self._at :] + plain
            self._at = 0
        data = self._left[self._at : self._at + size]
        self._at += len(data)
        self._given += len(data)
        return data


def possible(blocks: Iterable[AvroBlock], least: int, file_bytes: int) -> Iterator[AvroBlock]:
    """The blocks, as long as they hold the records that they claim: each takes at least so many bytes.

    Raises:
        NotAvro: a block has fewer bytes, or all of them claim more records without bytes than a file of its size means.
    """
    left = file_bytes + MOST_WITHOUT_BYTES
    for block in blocks:
        left -= 0 if least else block.count
        if block.count * least > len(block.data) or left < 0:
            raise NotAvro(f"a block claims {block.count} records, but has only {len(block.data)} bytes")
        yield block


def _sized(data: bytes) -> bytes:
    return written_long(len(data)) + data


@contextmanager
def _decoding(path: str, file: OpenedFile) -> Iterator[None]:
    with judging(path, file, *_UNDECODED):
        try:
            yield
        except NoAvroSchema as error:
            raise CorruptFile(f"the schema of {path} cannot be read: {error}") from error
        except NotAvro as error:
            raise CorruptFile(f"{path} cannot be read as Avro: {error}") from error
