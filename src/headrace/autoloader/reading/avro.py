"""Avro files, decoded by fastavro a block at a time."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import BinaryIO

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException

from headrace.autoloader.reading.avro_container import AvroHeader, NotAvro, read_blocks, read_header, written_long
from headrace.autoloader.reading.avro_schema import AvroShape, NoAvroSchema, avro_shape
from headrace.autoloader.reading.columnar import FileColumns
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
        records = _records(file, header, shape, split)
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


def _records(file: BinaryIO, header: AvroHeader, shape: AvroShape, split: Split) -> Iterator[dict[str, object]]:
    stream = _Plain(file, header, shape, split)
    yield from fastavro.reader(stream)  # type: ignore[arg-type, misc]


class _Plain:
    """The blocks of a part as an Avro file that is not compressed, which is made as it is read."""

    def __init__(self, file: BinaryIO, header: AvroHeader, shape: AvroShape, split: Split) -> None:
        self._blocks = read_blocks(file, header, split.start, split.end)
        meta = {"avro.schema": json.dumps(shape.wire), "avro.codec": "null"}
        entries = b"".join(_sized(name.encode()) + _sized(value.encode()) for name, value in meta.items())
        self._left = b"Obj\x01" + written_long(len(meta)) + entries + written_long(0) + _MARK
        self._at = 0

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
        return data


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
