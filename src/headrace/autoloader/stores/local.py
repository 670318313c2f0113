"""Local disks and other mounted file systems."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from errno import ELOOP, ENOENT, ENOTDIR
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import BinaryIO

from headrace.autoloader.stores.store import Entry, FoundFile
from headrace.autoloader.stores.uris import percent_encode
from headrace.errors import PipelineError

# The path does not exist: no such name, a file where a folder was, a cyclic link.
_GONE = frozenset((ENOENT, ENOTDIR, ELOOP))


class LocalStore:
    """Files of this machine's file systems, by absolute path."""

    def is_file(self, path: str) -> bool:
        """Whether the path is a file."""
        found = stat_path(path)
        return found is not None and S_ISREG(found.st_mode)

    def is_folder(self, path: str) -> bool:
        """Whether the path is a folder."""
        found = stat_path(path)
        return found is not None and S_ISDIR(found.st_mode)

    def stat(self, path: str) -> FoundFile | None:
        """The file's current state; None if it does not exist or is not a regular file."""
        return stat_file(*os.path.split(path))

    def listing(self, folder: str) -> Iterator[tuple[str, FoundFile]] | None:
        """None: local folders are listed one by one, because unchanged ones can be skipped."""
        del folder
        return None

    def entries(self, folder: str) -> Iterator[Entry]:
        """Yield the entries of a folder; none if it does not exist.

        Raises:
            PipelineError: ``AUTO_LOADER.FILE_NAME``: a name is not valid text, so the ledger cannot store it;
                ``AUTO_LOADER.UNREADABLE``: the folder exists and cannot be listed.
        """
        with translating_errors(folder), ExitStack() as opened:
            try:
                entries = opened.enter_context(os.scandir(folder))
            except OSError as error:
                if error.errno in _GONE:
                    return
                raise
            for entry in entries:
                yield _entry(entry, folder)

    def identity(self, folder: str) -> tuple[int, int] | None:
        """Device and inode; None if it does not exist."""
        found = stat_path(folder)
        return None if found is None else (found.st_dev, found.st_ino)

    def open_binary(self, path: str) -> BinaryIO:
        """Open the file; FileNotFoundError if it no longer exists or is not a regular file."""
        # Without the flag, opening a named pipe waits for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise FileNotFoundError(ENOENT, "it is no longer a file", path)
        return os.fdopen(descriptor, "rb")

    def delete(self, path: str) -> None:
        """Delete a file."""
        Path(path).unlink()

    def move(self, path: str, target: str) -> None:
        """Move a file, also to another disk; create missing folders."""
        target_path = Path(target)
        target_path.parent.mkdir(parents=True, exist_ok=True)
        if target_path.exists():
            raise FileExistsError(target)
        shutil.move(path, target)

    def uri(self, path: str) -> str:
        """The path as Spark's URI."""
        return "file:" + percent_encode(path)


def stat_file(folder: str, name: str) -> FoundFile | None:
    """The current state of a file in a folder; None if it does not exist or is not a regular file.

    Raises:
        PipelineError: ``AUTO_LOADER.UNREADABLE``: its status cannot be read.
    """
    found = stat_path(os.path.join(folder, name))  # noqa: PTH118 - for each of a million files
    # Named pipes, sockets and devices are ignored: opening one may block forever.
    if found is None or not S_ISREG(found.st_mode):
        return None
    return FoundFile(name, found.st_size, found.st_mtime_ns)


def stat_path(path: str) -> os.stat_result | None:
    """The status of a path, following links; None if it does not exist.

    Raises:
        PipelineError: ``AUTO_LOADER.UNREADABLE``: the status cannot be read.
    """
    try:
        return os.stat(path)  # noqa: PTH116 - for each of a million files
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise _unreadable(path, error) from error


@contextmanager
def translating_errors(path: str) -> Iterator[None]:
    """Translate errors of the file system into ``AUTO_LOADER.UNREADABLE``."""
    try:
        yield
    except OSError as error:
        raise _unreadable(path, error) from error


def _entry(entry: os.DirEntry[str], folder: str) -> Entry:
    name = _text(entry.name, folder)
    try:
        return Entry(name, entry.is_dir(), entry.is_symlink())
    except OSError as error:
        if error.errno in _GONE:
            # A broken link.
            return Entry(name, is_folder=False, is_link=True)
        return Entry(name, is_folder=False, is_link=True, problem=_unreadable(entry.path, error))


def _unreadable(path: str, error: OSError) -> PipelineError:
    return PipelineError("AUTO_LOADER.UNREADABLE", path=path, reason=error.strerror or str(error))


def _text(name: str, folder: str) -> str:
    """The name, if it is valid text: the ledger cannot store another."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise PipelineError("AUTO_LOADER.FILE_NAME", name=repr(os.fsencode(name)), folder=folder) from None
    return name
