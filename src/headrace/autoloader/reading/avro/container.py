"""The container format of Avro files: blocks between sync markers, so that reading can start anywhere.

Source: the Avro specification, "Object Container Files". Codecs are those that Python and Arrow include.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import SEEK_END
from typing import Any, BinaryIO

import pyarrow as pa

from headrace.autoloader.reading.limits import EXPANSION_OPTION, RECORD_OPTION, Limits

_DEFAULT = Limits()
_MAGIC = b"Obj\x01"
_MARKER_BYTES = 16
_CHECKSUM_BYTES = 4
_SEARCHED_BYTES = 1024 * 1024
_MAX_META_BYTES = 64 * 1024 * 1024
_LONGEST_VARINT = 10
# A copy of 64 bytes takes at least two bytes (Snappy's format description, "Compressed stream").
_MAX_SNAPPY_EXPANSION = 32


class NotAvro(ValueError):
    """A file is not a complete Avro file; the message says why."""


@dataclass(frozen=True)
class AvroHeader:
    """A file's header: the schema as JSON, the codec, the sync marker, and the header's length in bytes."""

    schema: str
    codec: str
    sync_marker: bytes
    length: int


@dataclass(frozen=True)
class AvroBlock:
    """The decompressed data of *count* records."""

    count: int
    data: bytes


def read_header(file: BinaryIO) -> AvroHeader:
    """Read the header of an Avro file.

    Raises:
        NotAvro: the file has no valid header.
    """
    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        raise NotAvro("it does not start like an Avro file")
    meta: dict[str, bytes] = {}
    while count := _read_varint(file):
        if count < 0:
            count = -count
            _read_varint(file)
        for _ in range(count):
            name = _read_bytes(file).decode("utf-8", "replace")
            meta[name] = _read_bytes(file)
    sync_marker = _read_exactly(file, _MARKER_BYTES)
    if "avro.schema" not in meta:
        raise NotAvro("its header has no schema")
    codec = meta.get("avro.codec", b"null").decode("utf-8", "replace")
    if codec not in _CODECS:
        raise NotAvro(f'its codec is "{codec}", which is not supported; use {", ".join(_CODECS)}')
    return AvroHeader(meta["avro.schema"].decode("utf-8", "replace"), codec, sync_marker, file.tell())


def read_blocks(
    file: BinaryIO, header: AvroHeader, start: int, end: int, limits: Limits = _DEFAULT
) -> Iterator[AvroBlock]:
    """Yield the blocks whose preceding sync marker begins between *start* and *end*.

    Raises:
        NotAvro: a block is truncated or invalid, or decompresses to more than the limits allow.
    """
    packed = unpacked = 0
    decompress = _CODECS[header.codec]
    file_size = file.seek(0, SEEK_END)
    at = _first_marker(file, header, start)
    while at is not None and at < end:
        file.seek(at + _MARKER_BYTES)
        if _at_end(file):
            return
        count, size = _read_varint(file), _read_varint(file)
        if count < 0 or size < 0:
            raise NotAvro(f"its block at byte {at + _MARKER_BYTES} has a negative size")
        if size > file_size:
            # Check this before allocating memory that no file of this size can fill.
            raise NotAvro(f"its block at byte {at + _MARKER_BYTES} is larger than the file")
        if size > limits.record_bytes:
            raise NotAvro(f"its block at byte {at + _MARKER_BYTES} has more bytes than {RECORD_OPTION} allows")
        data = _read_exactly(file, size)
        if _read_exactly(file, _MARKER_BYTES) != header.sync_marker:
            raise NotAvro(f"its block at byte {at + _MARKER_BYTES} does not end with the sync marker of the file")
        at = file.tell() - _MARKER_BYTES
        try:
            plain = decompress(data, limits.record_bytes + 1)
        except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:
            raise NotAvro(f"a block cannot be decompressed: {error}") from error
        packed, unpacked = packed + size, unpacked + len(plain)
        if len(plain) > limits.record_bytes:
            raise NotAvro(f"a decompressed block has more bytes than {RECORD_OPTION} allows")
        if unpacked > max(limits.record_bytes, packed * limits.expansion):
            raise NotAvro(
                f"it decompresses to more than {limits.expansion} times its size, the limit of {EXPANSION_OPTION}"
            )
        yield AvroBlock(count, plain)


def encode_long(value: int) -> bytes:
    """Encode a number as Avro's zigzag varint."""
    remaining, found = (value << 1) ^ (value >> 63), bytearray()
    while remaining > 0x7F:
        found.append((remaining & 0x7F) | 0x80)
        remaining >>= 7
    found.append(remaining)
    return bytes(found)


def _first_marker(file: BinaryIO, header: AvroHeader, start: int) -> int | None:
    """The position of the first sync marker at or after *start*; None without one."""
    first = header.length - _MARKER_BYTES
    if start <= first:
        return first
    file.seek(start)
    at, window = start, b""
    while chunk := file.read(_SEARCHED_BYTES):
        window += chunk
        position = window.find(header.sync_marker)
        if position >= 0:
            return at + position
        at += max(len(window) - _MARKER_BYTES + 1, 0)
        window = window[-_MARKER_BYTES + 1 :]
    return None


def _at_end(file: BinaryIO) -> bool:
    position = file.tell()
    at_end = not file.read(1)
    file.seek(position)
    return at_end


def _read_varint(file: BinaryIO) -> int:
    found = 0
    for position in range(_LONGEST_VARINT):
        byte = _read_exactly(file, 1)[0]
        found |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1)
    raise NotAvro("it has a number that does not end")


def _read_bytes(file: BinaryIO) -> bytes:
    size = _read_varint(file)
    if not 0 <= size <= _MAX_META_BYTES:
        raise NotAvro("its header is invalid")
    return _read_exactly(file, size)


def _read_exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise NotAvro("it ends too early")
    return data


def _snappy(data: bytes, max_bytes: int) -> bytes:
    raw, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    # The decompressed length comes first, as an unsigned varint.
    length = sum((byte & 0x7F) << (7 * position) for position, byte in enumerate(_leading(raw)))
    if length > len(raw) * _MAX_SNAPPY_EXPANSION:
        raise ValueError("its length is more than the data can hold")
    if length > max_bytes:
        # The caller sees that the limit is exceeded.
        return bytes(max_bytes)
    found = bytes(pa.Codec("snappy").decompress(raw, decompressed_size=length))
    if zlib.crc32(found).to_bytes(_CHECKSUM_BYTES, "big") != checksum:
        raise ValueError("its checksum does not match")
    return found


def _leading(raw: bytes) -> bytes:
    """The bytes of the varint at the start of Snappy data."""
    for position, byte in enumerate(raw[:_LONGEST_VARINT]):
        if byte < 0x80:
            return raw[: position + 1]
    raise ValueError("its length is invalid")


def _zstandard(data: bytes, max_bytes: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return bytes(stream.read(max_bytes))


def _deflated(data: bytes, max_bytes: int) -> bytes:
    return _decompress(zlib.decompressobj(-15), data, max_bytes)


def _bzip2(data: bytes, max_bytes: int) -> bytes:
    return _decompress(bz2.BZ2Decompressor(), data, max_bytes)


def _xz(data: bytes, max_bytes: int) -> bytes:
    return _decompress(lzma.LZMADecompressor(), data, max_bytes)


def _decompress(decompressor: Any, data: bytes, max_bytes: int) -> bytes:
    """Decompress at most *max_bytes*; the data must be complete unless the limit is reached."""
    found = bytes(decompressor.decompress(data, max_bytes))
    if len(found) < max_bytes and not decompressor.eof:
        raise ValueError("it ends too early")
    return found


# Decompress a block, at most to the given number of bytes.
_CODECS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": lambda data, max_bytes: data[:max_bytes],
    "deflate": _deflated,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
