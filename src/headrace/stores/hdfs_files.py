"""Files of HDFS, through a client that needs no JVM: each is written as a draft and renamed, which is atomic."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import SEEK_SET, RawIOBase
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from headrace.errors import PipelineError

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader
    from hdfs_native import FileStatus as Status

_DRAFT = ".headrace-"
_COPY_BYTES = 8 << 20
# For about 30 seconds, in which a second NameNode takes over. The client tries for minutes otherwise, while a user
# waits for the answer of a verb (seen in hdfs-native 0.14.7).
_RETRIES = {"dfs.client.failover.max.attempts": "8", "dfs.client.failover.sleep.max.millis": "5000"}
# What the client says of an exception of the server that it has no class for.
_REMOTE = re.compile(r'RPCError\("([\w.$]+)", "((?:[^"\\]|\\.)*)', re.DOTALL)
_DENIED = ("AccessControlException", "AuthorizationException")


@dataclass(frozen=True)
class HdfsFile:
    """A file or a folder.

    Attributes:
        path: absolute, without the file system.
        is_folder: whether it is a folder.
        size_bytes: the size of a file.
        modified_at_ms: when it was written, by the clock of the NameNode.
    """

    path: str
    is_folder: bool
    size_bytes: int
    modified_at_ms: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class _Bytes(RawIOBase):
    """A file of the client, which has no method that reads into a buffer."""

    def __init__(self, path: str, file: FileReader) -> None:
        self._path = path
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _translating_errors(self._path):
            content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()


class HdfsFiles:
    """The files of one NameNode, or of one name service, by absolute path.

    All methods raise OSError: FileNotFoundError, PermissionError, or ConnectionError with the reason.

    Args:
        root: its URI, such as ``hdfs://namenode:8020``.
        client: of it.
    """

    def __init__(self, root: str, client: Client) -> None:
        self.root = root
        self._client = client

    @classmethod
    def at(cls, root: str) -> HdfsFiles:
        """Open the files of a URI, with the configuration and the user that the environment names for Hadoop.

        A URI without a NameNode is that of the default file system.

        Raises:
            PipelineError: STORES.NO_HDFS_CLIENT: its package is not installed.
        """
        try:
            from hdfs_native import Client  # noqa: PLC0415 - an extra that only users of HDFS need
        except ImportError as error:
            raise PipelineError("STORES.NO_HDFS_CLIENT", place=root) from error
        with _translating_errors(root):
            return cls(root, Client(root if urlsplit(root).netloc else None, _RETRIES))

    def find(self, path: str) -> HdfsFile | None:
        """The file or folder at a path; None if it does not exist."""
        try:
            with _translating_errors(path):
                return _file(self._client.get_file_info(path))
        except FileNotFoundError:
            return None

    def entries(self, folder: str) -> list[HdfsFile]:
        """What is in a folder, without drafts, in the order of names; nothing if it does not exist."""
        try:
            with _translating_errors(folder):
                found = [_file(one) for one in self._client.list_status(folder)]
        except FileNotFoundError:
            return []
        return sorted((one for one in found if not one.name.startswith(_DRAFT)), key=lambda one: one.name)

    def read(self, path: str) -> bytes:
        """The content of a file."""
        with _translating_errors(path):
            return bytes(self._client.read(path).readall())

    def open(self, path: str) -> RawIOBase:
        """A file to read from any position."""
        with _translating_errors(path):
            return _Bytes(path, self._client.read(path))

    def draft(self, target: str, content: bytes) -> HdfsFile:
        """A new file that no listing shows, beside the place that it is for; its folder is created."""
        draft = _draft_of(target)
        with _translating_errors(target):
            with self._client.create(draft) as writer:
                writer.write(content)
            return _file(self._client.get_file_info(draft))

    def put(self, draft: HdfsFile, target: str, *, replaces: bool) -> bool:
        """Rename a draft; returns False, and deletes it, if the name is taken and must not be replaced.

        Law: of all drafts for one name that replace nothing, exactly one gets it.
        """
        try:
            with _translating_errors(target):
                self._client.rename(draft.path, target, replaces)
        except FileExistsError:
            self.delete(draft.path)
            return False
        except FileNotFoundError:
            # The answer to the first request was lost, and the client asked again.
            found = self.find(target)
            if found is None or (found.size_bytes, found.modified_at_ms) != (draft.size_bytes, draft.modified_at_ms):
                raise
        except OSError:
            with suppress(OSError):
                self.delete(draft.path)
            raise
        return True

    def copy(self, source: str, target: str) -> None:
        """Copy a file in place of one that is there; the content passes through this machine."""
        draft = _draft_of(target)
        with _translating_errors(source):
            reader = self._client.read(source)
            with self._client.create(draft) as writer:
                while chunk := reader.read(_COPY_BYTES):
                    writer.write(chunk)
            written = _file(self._client.get_file_info(draft))
        self.put(written, target, replaces=True)

    def move(self, source: str, target: str) -> None:
        """Rename a file, and create missing folders.

        Raises:
            FileExistsError: the target exists.
        """
        with _translating_errors(target):
            self._client.mkdirs(target.rpartition("/")[0] or "/", create_parent=True)
            self._client.rename(source, target)

    def remove(self, path: str) -> bool:
        """Delete a file; False if it does not exist, so that of several callers one gets True."""
        draft = _draft_of(path)
        try:
            with _translating_errors(path):
                self._client.rename(path, draft)
        except FileNotFoundError:
            return False
        self.delete(draft)
        return True

    def delete(self, path: str) -> None:
        """Delete a file, or a folder and all below it; nothing happens if it does not exist."""
        with _translating_errors(path):
            self._client.delete(path, recursive=True)


def _draft_of(target: str) -> str:
    folder = target.rpartition("/")[0]
    return f"{folder}/{_DRAFT}{uuid.uuid4().hex}"


def _file(found: Status) -> HdfsFile:
    return HdfsFile(found.path, found.isdir, found.length, found.modification_time)


@contextmanager
def _translating_errors(place: str) -> Iterator[None]:
    """Translate the client's errors into OSError; of a reason, the lines after the first are the server's stack."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(2, "it does not exist", place) from error
    except FileExistsError as error:
        raise FileExistsError(17, "it exists", place) from error
    except OSError as error:
        raise ConnectionError(5, _first_line(str(error)), place) from error
    except (RuntimeError, NotImplementedError) as error:
        remote = _REMOTE.search(str(error))
        if remote is None:
            raise ConnectionError(5, _first_line(str(error)), place) from error
        reason = _first_line(remote[2].replace("\\n", "\n").replace('\\"', '"'))
        if remote[1].rpartition(".")[2] in _DENIED:
            raise PermissionError(13, reason, place) from error
        raise ConnectionError(5, reason, place) from error


def _first_line(text: str) -> str:
    return text.partition("\n")[0].strip() or "the client gave no reason"
