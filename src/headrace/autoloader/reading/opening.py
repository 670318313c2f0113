"""The one place where the contents of files are opened, whichever store they lie in."""

from __future__ import annotations

from typing import Any, BinaryIO

import pyarrow as pa

from headrace.autoloader.stores.paths import store_of

_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_UNREAD = (".deflate", ".snappy", ".xz")


def open_file(path: str) -> BinaryIO:
    """The bytes of a file, which can be read from any place in it.

    Raises:
        FileNotFoundError: it has gone.
        OSError: it cannot be read.
    """
    return store_of(path).opened(path)


def open_decompressed(path: str) -> Any:
    """The bytes of a file from its beginning, without the compression that its name tells of.

    Raises:
        FileNotFoundError: it has gone.
        OSError: it cannot be read, or is compressed in a way that is not.
    """
    if path.endswith(_UNREAD):
        raise OSError(f"{path} is compressed in a way that is not read; gzip, bzip2, zstd and lz4 are")
    codec = next((codec for ending, codec in _CODECS.items() if path.endswith(ending)), None)
    opened = open_file(path)
    return opened if codec is None else pa.CompressedInputStream(opened, codec)
