"""Blocks of whole lines of a part of a file, as Hadoop's ``LineRecordReader`` divides a file.

A line belongs to the part that it begins in, so that each line of a file is in one part, whatever the parts are.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from headrace.autoloader.reading.splits import Split, is_compressed
from headrace.autoloader.stores.paths import store_of

BLOCK_BYTES = 8 * 1024 * 1024
_LINE_END = b"\n"
# Read at once behind a block, for the end of its last line.
_PEEK_BYTES = 64 * 1024
_COMPRESSIONS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}
_UNREAD = (".deflate", ".snappy", ".xz")


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
    with store_of(split.path).opened(split.path) as file:
        yield from _of_part(file, split.start, split.end, block_bytes)


def _of_part(file: pa.NativeFile, start: int, end: int, block_bytes: int) -> Iterator[bytes]:
    # A line that begins exactly at the start is this part's; the byte before tells.
    at = start - 1 + len(_rest_of_line(file, start - 1)) if start else 0
    file.seek(at)
    while at < end:
        block = file.read(min(block_bytes, end - at))
        if not block:
            return
        at += len(block)
        if not block.endswith(_LINE_END):
            rest = _rest_of_line(file, at)
            block, at = block + rest, at + len(rest)
            file.seek(at)
        yield block


def _rest_of_line(file: pa.NativeFile, at: int) -> bytes:
    """The bytes from a place up to the line's end, which is one of them; the file stands anywhere then."""
    file.seek(at)
    found = []
    while chunk := file.read(_PEEK_BYTES):
        rest, end, _ = chunk.partition(_LINE_END)
        found.append(rest + end)
        if end:
            break
    return b"".join(found)


def _of_stream(path: str, encoding: str, block_bytes: int) -> Iterator[bytes]:
    plain = encoding.casefold().replace("-", "") in ("utf8", "usascii")
    if path.endswith(_UNREAD):
        raise OSError(f"{path} is compressed in a way that is not read; gzip, bzip2, zstd and lz4 are")
    kind = _COMPRESSIONS.get(path.rpartition(".")[2])
    with store_of(path).opened(path) as file, pa.CompressedInputStream(file, kind) if kind else file as stream:
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
