"""Object stores, through pyarrow's file systems; credentials come from the environment.

A listing takes one request per thousand objects, regardless of folders.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from typing import Any, BinaryIO, cast

import pyarrow as pa
from pyarrow import fs

from headrace.autoloader.stores.file_systems import named_file_system
from headrace.autoloader.stores.store import Entry, FoundFile
from headrace.autoloader.stores.uris import percent_encode
from headrace.errors import PipelineError

# Schemes as pyarrow names them; the schemes of Hadoop's S3 connectors mean the same objects.
SCHEMES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfs": "abfs", "abfss": "abfss", "hdfs": "hdfs"}
# Minimum number of bytes per request.
_READ_AHEAD = 1024 * 1024


class _Bytes(RawIOBase):
    """Wraps a pyarrow file as a raw Python file."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return int(self._file.readinto(buffer))

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._file.close()
        super().close()


class ObjectStore:
    """The objects of one bucket or container, by full path, such as ``s3://bucket/folder/name``.

    Queries raise PipelineError (``AUTO_LOADER.STORE_FAILS``) if the store does not answer; reads and changes raise
    OSError.
    """

    def __init__(self, root: str, files: fs.FileSystem, root_key: str) -> None:
        """``root`` is the scheme with the authority; ``root_key`` is pyarrow's path of it."""
        self._root = root
        self._fs = files
        self._root_key = root_key.rstrip("/")

    @classmethod
    def at(cls, root: str) -> ObjectStore:
        """Open the store of a scheme and authority, such as ``s3://bucket``; settings may say how it is reached."""
        try:
            files, key = named_file_system(root) or fs.FileSystem.from_uri(root + "/")
        except (OSError, ValueError, pa.ArrowException) as error:
            raise PipelineError("AUTO_LOADER.STORE_FAILS", path=root, reason=str(error)) from error
        return cls(root, files, key)

    def is_file(self, path: str) -> bool:
        """Whether the path is an object."""
        return bool(self._info(path).type == fs.FileType.File)

    def is_folder(self, path: str) -> bool:
        """Whether the path is a folder; in an object store every folder of an existing bucket exists, even empty."""
        kind = self._info(path).type
        if kind == fs.FileType.NotFound:
            kind = self._info(self._root).type
        return bool(kind == fs.FileType.Directory)

    def stat(self, path: str) -> FoundFile | None:
        """The object's current state; None if it does not exist."""
        info = self._info(path)
        return _found(self._root, info) if info.type == fs.FileType.File else None

    def listing(self, folder: str) -> Iterator[tuple[str, FoundFile]]:
        """Yield all objects below a folder, in no order; none if the folder does not exist."""
        for info in self._file_infos(folder, fs.FileSelector(self._key(folder), recursive=True, allow_not_found=True)):
            if info.type == fs.FileType.File:
                path = self._root + info.path.removeprefix(self._root_key)
                yield path.rpartition("/")[0], _found(self._root, info)

    def entries(self, folder: str) -> Iterator[Entry]:
        """Yield the entries of a folder."""
        for info in self._file_infos(folder, fs.FileSelector(self._key(folder), recursive=False, allow_not_found=True)):
            yield Entry(info.base_name, info.type == fs.FileType.Directory)

    def identity(self, folder: str) -> tuple[int, int] | None:
        """None: object stores have no links."""
        del folder
        return None

    def open_binary(self, path: str) -> BinaryIO:
        """Open the object; FileNotFoundError if it does not exist."""
        return cast("BinaryIO", BufferedReader(_Bytes(self._fs.open_input_file(self._key(path))), _READ_AHEAD))

    def delete(self, path: str) -> None:
        """Delete an object."""
        self._fs.delete_file(self._key(path))

    def move(self, path: str, target: str) -> None:
        """Copy an object and delete it."""
        if self._info(target).type != fs.FileType.NotFound:
            raise FileExistsError(target)
        self._fs.move(self._key(path), self._key(target))

    def uri(self, path: str) -> str:
        """The path as Spark's URI."""
        return self._root + percent_encode(path.removeprefix(self._root))

    def _info(self, path: str) -> fs.FileInfo:
        (info,) = self._file_infos(path, [self._key(path)])
        return info

    def _file_infos(self, path: str, selection: Any) -> list[fs.FileInfo]:
        try:
            return list(self._fs.get_file_info(selection))
        except (OSError, pa.ArrowException) as error:
            raise PipelineError("AUTO_LOADER.STORE_FAILS", path=path, reason=str(error)) from error

    def _key(self, path: str) -> str:
        return self._root_key + path.removeprefix(self._root).rstrip("/") or "/"


def _found(root: str, info: fs.FileInfo) -> FoundFile:
    """A file; S3 times are truncated to seconds, because a listing can be more precise than a HEAD request."""
    mtime_ns = int(info.mtime_ns or 0)
    if root.startswith("s3:"):
        mtime_ns -= mtime_ns % 1_000_000_000
    return FoundFile(info.base_name, int(info.size or 0), mtime_ns)
