"""How much of a file is held in memory at a time, whatever its author has made of it.

A record that is longer than the limit is not read: what is said of it is where it is, how long, and how it begins.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

RECORD_OPTION, EXPANSION_OPTION = "headrace.maxRecordBytes", "headrace.maxExpansion"
RECORD_BYTES, EXPANSION = 64 * 1024 * 1024, 1000
# What is shown of a record that is too long.
SHOWN_BYTES = 1000
# The name under which it is rescued.
TOO_LONG = "_record_too_long"


@dataclass(frozen=True)
class Limits:
    """The bounds of one reader.

    Attributes:
        record_bytes: of a record, or of a block of Avro, at most.
        expansion: into how many times its bytes a file may unpack, once it has unpacked into ``record_bytes``.
    """

    record_bytes: int = RECORD_BYTES
    expansion: int = EXPANSION

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Limits:
        """What the options of a reader say."""
        return cls(int(options.get(RECORD_OPTION, RECORD_BYTES)), int(options.get(EXPANSION_OPTION, EXPANSION)))


@dataclass(frozen=True)
class LongRecord:
    """A record that is longer than the limit: where it begins in the unpacked file, its bytes, and the first ones."""

    at: int
    size: int
    begins: bytes

    @property
    def text(self) -> str:
        """What is kept of it, as JSON."""
        begins = self.begins[:SHOWN_BYTES].decode("utf-8", "replace")
        return json.dumps({"at_byte": self.at, "bytes": self.size, "begins": begins}, ensure_ascii=False)

    @property
    def reason(self) -> str:
        """Why it is not read."""
        return f"its record at byte {self.at} has {self.size} bytes, more than {RECORD_OPTION} allows"


class WholeLines:
    """Bytes that come in pieces, as blocks of whole lines; a line that is too long comes by itself, unread.

    Args:
        limits: how long a line may be.
        at: the place of the first byte in the file.
        end: what ends a line.
    """

    def __init__(self, limits: Limits, at: int = 0, end: bytes = b"\n") -> None:
        self._most = limits.record_bytes
        self._end = end
        # The line that has no end yet: its pieces, or its beginning where it is too long.
        self._pieces: list[bytes] = []
        self._size = 0
        self._at = at
        # The beginning of what ends a line, if that has several bytes.
        self._tail = b""

    def begun_at(self, at: int) -> WholeLines:
        """The same for bytes that begin at another place."""
        return WholeLines(Limits(self._most), at, self._end)

    @property
    def is_open(self) -> bool:
        """Whether a line has begun that has no end yet."""
        return bool(self._size or self._tail)

    def add(self, piece: bytes) -> Iterator[bytes | LongRecord]:
        """The lines that end in a piece."""
        piece, self._tail = self._tail + piece if self._tail else piece, b""
        for size in range(len(self._end) - 1, 0, -1):
            if piece.endswith(self._end[:size]):
                piece, self._tail = piece[:-size], piece[-size:]
                break
        last = piece.rfind(self._end)
        if last < 0:
            self._hold(piece)
            return
        last += len(self._end)
        first = 0
        if self._size + piece.index(self._end) > self._most:
            first = piece.index(self._end) + len(self._end)
            self._hold(piece[:first])
            yield self._taken()
        if last > first:
            self._pieces.append(piece[first:last])
            self._at += self._size + last - first
            block, self._pieces, self._size = b"".join(self._pieces), [], 0
            yield block
        self._hold(piece[last:])

    def end(self) -> Iterator[bytes | LongRecord]:
        """The line that has no end."""
        self._hold(self._tail)
        self._tail = b""
        if self._size:
            yield self._taken()

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._most + len(self._end):
            self._pieces.append(piece)
        else:
            # Of a line that is too long, how it begins is enough.
            begin = b"".join([*self._pieces, piece[:SHOWN_BYTES]])[:SHOWN_BYTES]
            self._pieces = [begin]

    def _taken(self) -> bytes | LongRecord:
        begins, size, at = b"".join(self._pieces), self._size, self._at
        self._pieces, self._size, self._at = [], 0, at + size
        return LongRecord(at, size, begins) if size > self._most + len(self._end) else begins


def whole(blocks: Iterable[bytes | LongRecord], limits: Limits) -> bytes | LongRecord:
    """The blocks of a file that is one record."""
    held: list[bytes] = []
    size = 0
    for block in blocks:
        size += block.size if isinstance(block, LongRecord) else len(block)
        begins = block.begins if isinstance(block, LongRecord) else block
        if size > limits.record_bytes or isinstance(block, LongRecord):
            held = [b"".join([*held, begins[:SHOWN_BYTES]])[:SHOWN_BYTES]]
        else:
            held.append(block)
    return LongRecord(0, size, b"".join(held)) if size > limits.record_bytes else b"".join(held)
