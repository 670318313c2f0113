"""The one place where the contents of files are opened, whichever store they lie in, and where blame is laid.

A store that does not answer is another thing than a file that is damaged: the first may answer the next time, the
second is left out where the options say so. Decoders turn what a store raises into errors of their own, so the file
that they read from keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import SEEK_SET, BufferedReader, RawIOBase
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from headrace.autoloader.reading.limits import EXPANSION_OPTION, Limits
from headrace.autoloader.stores.paths import store_of

if TYPE_CHECKING:
    # Of the worker's start it would be a tenth.
    from typing import Self

_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_DEFAULT = Limits()
_UNREAD = (".deflate", ".snappy", ".xz")
# Bytes that are asked for at least, as of the stores.
_READ_AHEAD = 1024 * 1024


class CorruptFile(OSError):
    """The contents of a file are not what they should be, however often they are read; the message says why."""


class UnreadCompression(OSError):
    """A file is compressed in a way that is not read."""


class _Noting(RawIOBase):
    """The bytes of a store, which keeps the error that it raised."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.failure: Exception | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._file.readinto(buffer))  # type: ignore[attr-defined]
        except Exception as error:
            self.failure = error
            raise

    def seek(self, offset: int, whence: int = 0) -> int:
        try:
            return self._file.seek(offset, whence)
        except Exception as error:
            # A place before the beginning comes from a damaged file that says so.
            if whence != SEEK_SET or offset >= 0:
                self.failure = error
            raise

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()


class OpenedFile(BufferedReader):
    """The bytes of a file, which can be read from any place in it."""

    def __init__(self, file: BinaryIO) -> None:
        self._noting = _Noting(file)
        super().__init__(self._noting, _READ_AHEAD)

    @property
    def failure(self) -> Exception | None:
        """What the store raised when it was asked for the bytes; None as long as it has given them."""
        return self._noting.failure


def open_file(path: str) -> OpenedFile:
    """The bytes of a file, which can be read from any place in it.

    Raises:
        FileNotFoundError: it has gone.
        OSError: the store cannot give it.
    """
    return OpenedFile(store_of(path).opened(path))


@contextmanager
def judging(path: str, file: OpenedFile, *others: type[Exception]) -> Iterator[None]:
    """What Arrow, or a decoder that raises *others*, cannot make of the bytes of a file.

    Raises:
        CorruptFile: the bytes are there, and are not what they should be.
        OSError: the store did not give them.
    """
    try:
        yield
    except CorruptFile:
        raise
    except (OSError, pa.ArrowException, *others) as error:
        if file.failure is not None:
            # What the decoder made of it says less.
            raise file.failure from None
        if isinstance(error, (MemoryError, pa.ArrowCancelled)):
            raise
        reason = str(error) if isinstance(error, (OSError, pa.ArrowException)) else f"{type(error).__name__}: {error}"
        raise CorruptFile(f"{path} cannot be read: {reason}") from error


class Decompressed:
    """The bytes of a file without its compression, from its beginning."""

    def __init__(self, path: str, codec: str, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._given = 0
        self._file = open_file(path)
        self._stream = pa.CompressedInputStream(self._file, codec)

    def read(self, size: int | None = None) -> bytes:
        """So many bytes, or all that are left.

        Raises:
            CorruptFile: they cannot be decompressed, or are more than the limits allow.
            OSError: the store did not give them.
        """
        with judging(self._path, self._file):
            data = bytes(self._stream.read(size))
            self._given += len(data)
            if self._given > max(self._limits.record_bytes, self._file.tell() * self._limits.expansion):
                most = f"{self._limits.expansion} times its size, which is all that {EXPANSION_OPTION} allows"
                raise CorruptFile(f"{self._path} unpacks into more than {most}")
            return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        self._file.close()


def open_decompressed(path: str, limits: Limits = _DEFAULT) -> OpenedFile | Decompressed:
    """The bytes of a file from its beginning, without the compression that its name tells of.

    Raises:
        FileNotFoundError: it has gone.
        UnreadCompression: its compression is none of those that are read.
        OSError: the store cannot give it.
    """
    if path.endswith(_UNREAD):
        raise UnreadCompression(f"{path} is compressed in a way that is not read; gzip, bzip2, zstd and lz4 are")
    codec = next((codec for ending, codec in _CODECS.items() if path.endswith(ending)), None)
    return open_file(path) if codec is None else Decompressed(path, codec, limits)
