"""Blocks of whole lines of a part of a file, as Hadoop's ``LineRecordReader`` divides a file.

A line belongs to the part that it begins in, so that each line of a file is in one part, whatever the parts are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from headrace.autoloader.reading.opening import open_decompressed, open_file
from headrace.autoloader.reading.splits import Split, is_compressed

BLOCK_BYTES = 8 * 1024 * 1024
_LINE_END = b"\n"


def line_blocks(split: Split, *, encoding: str = "utf-8", block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The lines of a part in UTF-8, some at a time; each block but the last ends with a line end.

    Raises:
        FileNotFoundError: the file has gone.
        OSError: it cannot be read.
    """
    if is_compressed(split.path) or encoding.casefold().replace("-", "") not in ("utf8", "usascii"):
        # One part has all of it.
        yield from _of_stream(split.path, encoding, block_bytes)
        return
    with open_file(split.path) as file:
        yield from _of_part(file, split.start, split.end, block_bytes)


def _of_part(file: IO[bytes], start: int, end: int, block_bytes: int) -> Iterator[bytes]:
    at = start
    if start:
        # A line that begins exactly here is this part's; the byte before tells.
        file.seek(start - 1)
        at = start - 1 + len(file.readline())
    while at < end:
        block = file.read(min(block_bytes, end - at))
        if not block:
            return
        at += len(block)
        if not block.endswith(_LINE_END):
            rest = file.readline()
            block, at = block + rest, at + len(rest)
        yield block


def _of_stream(path: str, encoding: str, block_bytes: int) -> Iterator[bytes]:
    plain = encoding.casefold().replace("-", "") in ("utf8", "usascii")
    with open_decompressed(path) as stream:
        if not plain:
            yield stream.read().decode(encoding, "replace").encode()
            return
        rest = b""
        while chunk := stream.read(block_bytes):
            whole, end, rest = (rest + chunk).rpartition(_LINE_END)
            if end:
                yield whole + end
        if rest:
            yield rest
