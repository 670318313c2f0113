"""The container of Avro files: blocks between marks, so that a file can be read from any place in it.

After the Avro specification, "Object Container Files". Codecs are those that Python and Arrow bring along.
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
_MARK_BYTES = 16
_CHECKSUM_BYTES = 4
_SEARCHED_BYTES = 1024 * 1024
_MOST_META_BYTES = 64 * 1024 * 1024
_LONGEST_VARINT = 10
# A copy of 64 bytes takes two at least (Snappy's format description, "Compressed stream").
_MOST_OF_SNAPPY = 32


class NotAvro(ValueError):
    """A file is no Avro file, or not a whole one."""


@dataclass(frozen=True)
class AvroHeader:
    """What a file says of itself: the schema as JSON, the codec, the mark between blocks, and how long this is."""

    schema: str
    codec: str
    mark: bytes
    length: int


@dataclass(frozen=True)
class AvroBlock:
    """So many records, decompressed."""

    count: int
    data: bytes


def read_header(file: BinaryIO) -> AvroHeader:
    """The header of an Avro file.

    Raises:
        NotAvro: it is none.
    """
    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        raise NotAvro("it does not start like an Avro file")
    meta: dict[str, bytes] = {}
    while count := _varint(file):
        if count < 0:
            count = -count
            _varint(file)
        for _ in range(count):
            name = _sized(file).decode("utf-8", "replace")
            meta[name] = _sized(file)
    mark = _exactly(file, _MARK_BYTES)
    if "avro.schema" not in meta:
        raise NotAvro("its header has no schema")
    codec = meta.get("avro.codec", b"null").decode("utf-8", "replace")
    if codec not in _CODECS:
        raise NotAvro(f'its codec is "{codec}", which is not supported; use {", ".join(_CODECS)}')
    return AvroHeader(meta["avro.schema"].decode("utf-8", "replace"), codec, mark, file.tell())


def read_blocks(
    file: BinaryIO, header: AvroHeader, start: int, end: int, limits: Limits = _DEFAULT
) -> Iterator[AvroBlock]:
    """The blocks whose mark in front begins in a part of a file.

    Raises:
        NotAvro: a block is cut off, or something else, or the limits do not allow for what it unpacks into.
    """
    packed = unpacked = 0
    decompress = _CODECS[header.codec]
    whole = file.seek(0, SEEK_END)
    at = _first_mark(file, header, start)
    while at is not None and at < end:
        file.seek(at + _MARK_BYTES)
        if _at_end(file):
            return
        count, size = _varint(file), _varint(file)
        if count < 0 or size < 0:
            raise NotAvro(f"its block at byte {at + _MARK_BYTES} has a negative size")
        if size > whole:
            # Before memory is asked for that no file of this size fills.
            raise NotAvro(f"its block at byte {at + _MARK_BYTES} is larger than the file")
        if size > limits.record_bytes:
            raise NotAvro(f"its block at byte {at + _MARK_BYTES} has more bytes than {RECORD_OPTION} allows")
        data = _exactly(file, size)
        if _exactly(file, _MARK_BYTES) != header.mark:
            raise NotAvro(f"its block at byte {at + _MARK_BYTES} does not end with the sync marker of the file")
        at = file.tell() - _MARK_BYTES
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


def written_long(value: int) -> bytes:
    """A number as Avro writes one."""
    left, found = (value << 1) ^ (value >> 63), bytearray()
    while left > 0x7F:
        found.append((left & 0x7F) | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def _first_mark(file: BinaryIO, header: AvroHeader, start: int) -> int | None:
    """Where the first mark is that begins in a part; None when there is none behind."""
    first = header.length - _MARK_BYTES
    if start <= first:
        return first
    file.seek(start)
    at, window = start, b""
    while chunk := file.read(_SEARCHED_BYTES):
        window += chunk
        place = window.find(header.mark)
        if place >= 0:
            return at + place
        at += max(len(window) - _MARK_BYTES + 1, 0)
        window = window[-_MARK_BYTES + 1 :]
    return None


def _at_end(file: BinaryIO) -> bool:
    place = file.tell()
    nothing = not file.read(1)
    file.seek(place)
    return nothing


def _varint(file: BinaryIO) -> int:
    found = 0
    for place in range(_LONGEST_VARINT):
        byte = _exactly(file, 1)[0]
        found |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1)
    raise NotAvro("it has a number that does not end")


def _sized(file: BinaryIO) -> bytes:
    size = _varint(file)
    if not 0 <= size <= _MOST_META_BYTES:
        raise NotAvro("its header is invalid")
    return _exactly(file, size)


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise NotAvro("it ends too early")
    return data


def _snappy(data: bytes, most: int) -> bytes:
    raw, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    # Its own length is in front, as a varint of no sign.
    length = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(_leading(raw)))
    if length > len(raw) * _MOST_OF_SNAPPY:
        raise ValueError("its length is more than the data can hold")
    if length > most:
        # Whoever asked for no more sees that there is more.
        return bytes(most)
    found = bytes(pa.Codec("snappy").decompress(raw, decompressed_size=length))
    if zlib.crc32(found).to_bytes(_CHECKSUM_BYTES, "big") != checksum:
        raise ValueError("its checksum does not match")
    return found


def _leading(raw: bytes) -> bytes:
    """The bytes of the number that a text of Snappy begins with."""
    for place, byte in enumerate(raw[:_LONGEST_VARINT]):
        if byte < 0x80:
            return raw[: place + 1]
    raise ValueError("its length is invalid")


def _zstandard(data: bytes, most: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return bytes(stream.read(most))


def _deflated(data: bytes, most: int) -> bytes:
    return _to_the_end(zlib.decompressobj(-15), data, most)


def _bzip2(data: bytes, most: int) -> bytes:
    return _to_the_end(bz2.BZ2Decompressor(), data, most)


def _xz(data: bytes, most: int) -> bytes:
    return _to_the_end(lzma.LZMADecompressor(), data, most)


def _to_the_end(decompressor: Any, data: bytes, most: int) -> bytes:
    """At most so many bytes; where they are fewer, all that there are."""
    found = bytes(decompressor.decompress(data, most))
    if len(found) < most and not decompressor.eof:
        raise ValueError("it ends too early")
    return found


# The bytes of a block, of which no more are unpacked than are asked for.
_CODECS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": lambda data, most: data[:most],
    "deflate": _deflated,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
