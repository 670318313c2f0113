"""Read blocks of whole lines of a split, as Hadoop's ``LineRecordReader``.

A line belongs to the split in which it begins, so each line of a file is in exactly one split.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import IO

from headrace.autoloader.reading.limits import Limits, LongRecord, WholeLines
from headrace.autoloader.reading.opening import open_decompressed, open_file
from headrace.autoloader.reading.splits import Split, is_compressed

BLOCK_BYTES = 8 * 1024 * 1024
_LINE_END = b"\n"
_DEFAULT = Limits()


def line_blocks(
    split: Split,
    *,
    encoding: str = "utf-8",
    block_bytes: int = BLOCK_BYTES,
    limits: Limits = _DEFAULT,
    end: bytes = _LINE_END,
) -> Iterator[bytes | LongRecord]:
    """Yield the lines of a split in UTF-8, in blocks; each block but the last ends with a line end.

    A line that exceeds the limits becomes a :class:`LongRecord` of its own.

    Raises:
        FileNotFoundError: the file no longer exists.
        CorruptFile: it decompresses to more than the limits allow.
        OSError: it cannot be read.
    """
    block_bytes = min(block_bytes, limits.record_bytes)
    if is_compressed(split.path) or not _is_plain(encoding):
        # Such a file is one split.
        yield from _of_stream(split.path, encoding, block_bytes, limits, end)
        return
    with open_file(split.path) as file:
        yield from _of_part(file, split, block_bytes, WholeLines(limits, split.start, end))


def _of_part(file: IO[bytes], split: Split, block_bytes: int, lines: WholeLines) -> Iterator[bytes | LongRecord]:
    at = split.start
    if at:
        # A line that begins exactly here belongs to this split; the byte before tells.
        file.seek(at - 1)
        at = at - 1 + _passed_line(file, block_bytes)
        lines = lines.starting_at(at)
    while at < split.end:
        block = file.read(min(block_bytes, split.end - at))
        if not block:
            break
        at += len(block)
        yield from lines.add(block)
    # The last line ends after the split.
    while lines.is_open and (piece := file.readline(block_bytes)):
        yield from lines.add(piece)
    yield from lines.end()


def _passed_line(file: IO[bytes], block_bytes: int) -> int:
    """Skip the rest of a line and return its size in bytes."""
    passed = 0
    while piece := file.readline(block_bytes):
        passed += len(piece)
        if piece.endswith(_LINE_END):
            break
    return passed


def _of_stream(path: str, encoding: str, block_bytes: int, limits: Limits, end: bytes) -> Iterator[bytes | LongRecord]:
    lines = WholeLines(limits, 0, end)
    decoder = None if _is_plain(encoding) else getincrementaldecoder(encoding)("replace")
    with open_decompressed(path, limits) as stream:
        while chunk := stream.read(block_bytes):
            yield from lines.add(chunk if decoder is None else decoder.decode(chunk).encode())
        if decoder is not None:
            yield from lines.add(decoder.decode(b"", final=True).encode())
    yield from lines.end()


def _is_plain(encoding: str) -> bool:
    return encoding.casefold().replace("-", "") in ("utf8", "usascii")


def parts(text: bytes, size: int) -> Iterator[bytes]:
    """Whole lines of a text, in parts of about a size."""
    begin = 0
    while begin < len(text):
        end = text.find(b"\n", begin + size) + 1 or len(text)
        yield text[begin:end]
        begin = end
