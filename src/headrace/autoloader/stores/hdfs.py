"""Files of HDFS, through a client that needs no JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from typing import BinaryIO, cast

from headrace.autoloader.stores.store import Entry, FoundFile
from headrace.autoloader.stores.uris import percent_encode
from headrace.errors import PipelineError
from headrace.stores.hdfs_files import HdfsFile, HdfsFiles

SCHEME = "hdfs:"
# Minimum number of bytes per request.
_READ_AHEAD = 1024 * 1024
_NS_PER_MS = 1_000_000


class HdfsFileStore:
    """The files of one NameNode or name service, by full path, such as ``hdfs://namenode:8020/folder/name``.

    Queries raise PipelineError (``AUTO_LOADER.STORE_FAILS``) if the NameNode does not answer; reads and changes raise
    OSError.
    """

    def __init__(self, files: HdfsFiles) -> None:
        self._files = files

    @classmethod
    def at(cls, root: str) -> HdfsFileStore:
        """Open the files of a scheme and authority, as the configuration in the environment says.

        Raises:
            PipelineError: ``STORES.NO_HDFS_CLIENT``, ``AUTO_LOADER.STORE_FAILS``.
        """
        with _translating_errors(root):
            return cls(HdfsFiles.at(root))

    def is_file(self, path: str) -> bool:
        """Whether the path is a file."""
        found = self._find(path)
        return found is not None and not found.is_folder

    def is_folder(self, path: str) -> bool:
        """Whether the path is a folder."""
        found = self._find(path)
        return found is not None and found.is_folder

    def stat(self, path: str) -> FoundFile | None:
        """The file's current state; None if it does not exist."""
        found = self._find(path)
        return None if found is None or found.is_folder else _found(found)

    def listing(self, folder: str) -> Iterator[tuple[str, FoundFile]]:
        """Yield all files below a folder, each with its folder; none if the folder does not exist."""
        for entry in self._entries(folder):
            if entry.is_folder:
                yield from self.listing(f"{folder}/{entry.name}")
            else:
                yield folder, _found(entry)

    def entries(self, folder: str) -> Iterator[Entry]:
        """Yield the entries of a folder."""
        for entry in self._entries(folder):
            yield Entry(entry.name, entry.is_folder)

    def identity(self, folder: str) -> tuple[int, int] | None:
        """None: each folder has one path."""
        del folder
        return None

    def open_binary(self, path: str) -> BinaryIO:
        """Open the file; FileNotFoundError if it does not exist."""
        return cast("BinaryIO", BufferedReader(self._files.open(self._path(path)), _READ_AHEAD))

    def delete(self, path: str) -> None:
        """Delete a file."""
        self._files.delete(self._path(path))

    def move(self, path: str, target: str) -> None:
        """Rename a file; FileExistsError if the target exists."""
        self._files.move(self._path(path), self._path(target))

    def uri(self, path: str) -> str:
        """The path as Spark's URI."""
        return self._files.root + percent_encode(path.removeprefix(self._files.root))

    def _find(self, path: str) -> HdfsFile | None:
        with _translating_errors(path):
            return self._files.find(self._path(path))

    def _entries(self, folder: str) -> list[HdfsFile]:
        with _translating_errors(folder):
            return self._files.entries(self._path(folder))

    def _path(self, path: str) -> str:
        return path.removeprefix(self._files.root).rstrip("/") or "/"


def _found(file: HdfsFile) -> FoundFile:
    return FoundFile(file.name, file.size_bytes, file.modified_at_ms * _NS_PER_MS)


@contextmanager
def _translating_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PipelineError("AUTO_LOADER.STORE_FAILS", path=path, reason=error.strerror or str(error)) from error
