"""Limit how much of a file is in memory at a time, whatever the file contains.

A record that exceeds the limit is not read. Only its position, size and first bytes are reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

RECORD_OPTION, EXPANSION_OPTION = "headrace.maxRecordBytes", "headrace.maxExpansion"
RECORD_BYTES, EXPANSION = 64 * 1024 * 1024, 1000
# Number of bytes to report of a record that is too long.
MAX_PREFIX_BYTES = 1000
# The member of the rescued data for such a record.
TOO_LONG = "_record_too_long"


@dataclass(frozen=True)
class Limits:
    """The limits of one reader.

    Attributes:
        record_bytes: maximum size of a record, or of an Avro block.
        expansion: maximum ratio of decompressed to compressed size, once ``record_bytes`` are decompressed.
    """

    record_bytes: int = RECORD_BYTES
    expansion: int = EXPANSION

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Limits:
        """The limits in a reader's options."""
        return cls(int(options.get(RECORD_OPTION, RECORD_BYTES)), int(options.get(EXPANSION_OPTION, EXPANSION)))


@dataclass(frozen=True)
class LongRecord:
    """A record that is too long: its offset in the decompressed file, its size, and its first bytes."""

    offset: int
    size: int
    prefix: bytes

    @property
    def text(self) -> str:
        """The report of the record, as JSON."""
        prefix = self.prefix[:MAX_PREFIX_BYTES].decode("utf-8", "replace")
        return json.dumps({"at_byte": self.offset, "bytes": self.size, "begins": prefix}, ensure_ascii=False)

    @property
    def reason(self) -> str:
        """Why the record is not read."""
        return f"its record at byte {self.offset} has {self.size} bytes, more than {RECORD_OPTION} allows"


class WholeLines:
    """Turns pieces of bytes into blocks of whole lines; a line that is too long becomes a :class:`LongRecord`.

    Args:
        limits: the maximum length of a line.
        offset: the position of the first byte in the file.
        end: the line separator.
    """

    def __init__(self, limits: Limits, offset: int = 0, end: bytes = b"\n") -> None:
        self._max_bytes = limits.record_bytes
        self._end = end
        # The pieces of the unfinished line, or only its first bytes if it is too long.
        self._pieces: list[bytes] = []
        self._size = 0
        self._offset = offset
        # A partial line separator, if it has several bytes.
        self._tail = b""

    def starting_at(self, offset: int) -> WholeLines:
        """The same for bytes that begin at another position."""
        return WholeLines(Limits(self._max_bytes), offset, self._end)

    @property
    def is_open(self) -> bool:
        """Whether there is an unfinished line."""
        return bool(self._size or self._tail)

    def add(self, piece: bytes) -> Iterator[bytes | LongRecord]:
        """Yield the lines that end in a piece."""
        piece, self._tail = self._tail + piece if self._tail else piece, b""
        for size in range(len(self._end) - 1, 0, -1):
            if piece.endswith(self._end[:size]):
                piece, self._tail = piece[:-size], piece[-size:]
                break
        last = piece.rfind(self._end)
        if last < 0:
            self._buffer(piece)
            return
        last += len(self._end)
        first = 0
        if self._size + piece.index(self._end) > self._max_bytes:
            first = piece.index(self._end) + len(self._end)
            self._buffer(piece[:first])
            yield self._take()
        if last > first:
            self._pieces.append(piece[first:last])
            self._offset += self._size + last - first
            block, self._pieces, self._size = b"".join(self._pieces), [], 0
            yield block
        self._buffer(piece[last:])

    def end(self) -> Iterator[bytes | LongRecord]:
        """Yield the unfinished line at the end of the file."""
        self._buffer(self._tail)
        self._tail = b""
        if self._size:
            yield self._take()

    def _buffer(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._max_bytes + len(self._end):
            self._pieces.append(piece)
        else:
            # Keep only the first bytes of a line that is too long.
            begin = b"".join([*self._pieces, piece[:MAX_PREFIX_BYTES]])[:MAX_PREFIX_BYTES]
            self._pieces = [begin]

    def _take(self) -> bytes | LongRecord:
        prefix, size, offset = b"".join(self._pieces), self._size, self._offset
        self._pieces, self._size, self._offset = [], 0, offset + size
        return LongRecord(offset, size, prefix) if size > self._max_bytes + len(self._end) else prefix


def join_blocks(blocks: Iterable[bytes | LongRecord], limits: Limits) -> bytes | LongRecord:
    """Join the blocks of a file that is one record."""
    buffered: list[bytes] = []
    size = 0
    for block in blocks:
        size += block.size if isinstance(block, LongRecord) else len(block)
        prefix = block.prefix if isinstance(block, LongRecord) else block
        if size > limits.record_bytes or isinstance(block, LongRecord):
            buffered = [b"".join([*buffered, prefix[:MAX_PREFIX_BYTES]])[:MAX_PREFIX_BYTES]]
        else:
            buffered.append(block)
    return LongRecord(0, size, b"".join(buffered)) if size > limits.record_bytes else b"".join(buffered)
