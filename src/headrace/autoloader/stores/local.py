"""Local disks, and whatever else is mounted."""

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
from headrace.autoloader.stores.uris import encoded
from headrace.errors import PipelineError

# Nothing is there: no such name, a file where a folder was, a link that leads to itself.
_GONE = frozenset((ENOENT, ENOTDIR, ELOOP))


class LocalStore:
    """Files of this machine's file systems, by absolute paths."""

    def is_file(self, path: str) -> bool:
        """Whether there is a file."""
        found = status(path)
        return found is not None and S_ISREG(found.st_mode)

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder."""
        found = status(path)
        return found is not None and S_ISDIR(found.st_mode)

    def stat(self, path: str) -> FoundFile | None:
        """The file as it is now; None when it has gone, or is no file that has contents."""
        return stat_of(*os.path.split(path))

    def listing(self, folder: str) -> Iterator[tuple[str, FoundFile]] | None:
        """None: a folder that has not changed need not be listed."""
        del folder
        return None

    def entries(self, folder: str) -> Iterator[Entry]:
        """The names in a folder.

        Raises:
            PipelineError: ``AUTO_LOADER.FILE_NAME``: a name is no text, and the ledger could not hold it;
                ``AUTO_LOADER.UNREADABLE``: the folder is there and cannot be listed.
        """
        with reading(folder), ExitStack() as opened:
            try:
                entries = opened.enter_context(os.scandir(folder))
            except OSError as error:
                if error.errno in _GONE:
                    return
                raise
            for entry in entries:
                yield _entry(entry, folder)

    def identity(self, folder: str) -> tuple[int, int] | None:
        """Device and inode; None when it has gone."""
        found = status(folder)
        return None if found is None else (found.st_dev, found.st_ino)

    def opened(self, path: str) -> BinaryIO:
        """The file; FileNotFoundError when it has gone, or has become something that would be waited for."""
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
        """Move a file, to another disk too; folders that lack are made."""
        place = Path(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():
            raise FileExistsError(target)
        shutil.move(path, target)

    def uri(self, path: str) -> str:
        """The path as Spark writes it."""
        return "file:" + encoded(path)


def stat_of(folder: str, name: str) -> FoundFile | None:
    """The file behind a name in a folder; None when it has gone, or is no file that has contents.

    Raises:
        PipelineError: ``AUTO_LOADER.UNREADABLE``: whether it is there cannot be told.
    """
    found = status(os.path.join(folder, name))  # noqa: PTH118 - for each of a million files
    # Of a named pipe, a socket or a device nothing is read: whoever opens one may wait for ever.
    if found is None or not S_ISREG(found.st_mode):
        return None
    return FoundFile(name, found.st_size, found.st_mtime_ns)


def status(path: str) -> os.stat_result | None:
    """What the file system says of a path, through links; None when nothing is there.

    Raises:
        PipelineError: ``AUTO_LOADER.UNREADABLE``: it does not say.
    """
    try:
        return os.stat(path)  # noqa: PTH116 - for each of a million files
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise _unreadable(path, error) from error


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Raises what the file system does not let us know of a path as ``AUTO_LOADER.UNREADABLE``."""
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
            # A link that leads nowhere.
            return Entry(name, is_folder=False, is_link=True)
        return Entry(name, is_folder=False, is_link=True, problem=_unreadable(entry.path, error))


def _unreadable(path: str, error: OSError) -> PipelineError:
    return PipelineError("AUTO_LOADER.UNREADABLE", path=path, reason=error.strerror or str(error))


def _text(name: str, folder: str) -> str:
    """The name; the ledger holds text, and a name that is none would be missed."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise PipelineError("AUTO_LOADER.FILE_NAME", name=repr(os.fsencode(name)), folder=folder) from None
    return name
