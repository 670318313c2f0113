"""Open the contents of files from any store, and tell store failures from damaged files.

A store that does not answer may answer the next time; a damaged file can be skipped if the options say so. Decoders
convert a store's errors into their own, so the opened file records the original error.
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
    # Importing it at run time would take a tenth of a worker's start.
    from typing import Self

_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_DEFAULT = Limits()
_UNSUPPORTED = (".deflate", ".snappy", ".xz")
# Minimum number of bytes per read, as in the stores.
_READ_AHEAD = 1024 * 1024


class CorruptFile(OSError):
    """The contents of a file are invalid, and a retry does not help; the message says why."""


class UnsupportedCompression(OSError):
    """The compression of a file is not supported."""


class _ErrorRecorder(RawIOBase):
    """A raw file that records the error that its store raised."""

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
            # A negative position comes from a damaged file, not from the store.
            if whence != SEEK_SET or offset >= 0:
                self.failure = error
            raise

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()


class OpenedFile(BufferedReader):
    """A file opened for random access, which records errors of its store."""

    def __init__(self, file: BinaryIO) -> None:
        self._recorder = _ErrorRecorder(file)
        super().__init__(self._recorder, _READ_AHEAD)

    @property
    def failure(self) -> Exception | None:
        """The error that the store raised while reading; None if there was none."""
        return self._recorder.failure


def open_file(path: str) -> OpenedFile:
    """Open a file for random access.

    Raises:
        FileNotFoundError: it no longer exists.
        OSError: the store cannot return it.
    """
    return OpenedFile(store_of(path).open_binary(path))


@contextmanager
def translating_errors(path: str, file: OpenedFile, *others: type[Exception]) -> Iterator[None]:
    """Translate errors of Arrow, or of a decoder that raises *others*, while reading a file.

    Raises:
        CorruptFile: the contents are invalid.
        OSError: the store failed to return them.
    """
    try:
        yield
    except CorruptFile:
        raise
    except (OSError, pa.ArrowException, *others) as error:
        if file.failure is not None:
            # The store's error says more than the decoder's.
            raise file.failure from None
        if isinstance(error, (MemoryError, pa.ArrowCancelled)):
            raise
        reason = str(error) if isinstance(error, (OSError, pa.ArrowException)) else f"{type(error).__name__}: {error}"
        raise CorruptFile(f"{path} cannot be read: {reason}") from error


class DecompressedFile:
    """A decompressed file, read from the beginning."""

    def __init__(self, path: str, codec: str, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._total = 0
        self._file = open_file(path)
        self._stream = pa.CompressedInputStream(self._file, codec)

    def read(self, size: int | None = None) -> bytes:
        """Read *size* bytes, or all that remain.

        Raises:
            CorruptFile: the data cannot be decompressed, or exceeds the limits.
            OSError: the store failed to return it.
        """
        with translating_errors(self._path, self._file):
            data = bytes(self._stream.read(size))
            self._total += len(data)
            if self._total > max(self._limits.record_bytes, self._file.tell() * self._limits.expansion):
                most = f"{self._limits.expansion} times its size, the limit of {EXPANSION_OPTION}"
                raise CorruptFile(f"{self._path} expands to more than {most}")
            return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        self._file.close()


def open_decompressed(path: str, limits: Limits = _DEFAULT) -> OpenedFile | DecompressedFile:
    """Open a file for reading from the beginning, decompressed according to its name.

    Raises:
        FileNotFoundError: it no longer exists.
        UnsupportedCompression: its compression is not supported.
        OSError: the store cannot return it.
    """
    if path.endswith(_UNSUPPORTED):
        raise UnsupportedCompression(f"{path} uses an unsupported compression; use gzip, bzip2, zstd or lz4")
    codec = next((codec for ending, codec in _CODECS.items() if path.endswith(ending)), None)
    return open_file(path) if codec is None else DecompressedFile(path, codec, limits)
