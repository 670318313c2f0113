"""Local disks, and whatever else is mounted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from headrace.autoloader.stores.store import FoundFile
from headrace.autoloader.stores.uris import encoded
from headrace.errors import PipelineError


class LocalStore:
    """Files of this machine's file systems, by absolute paths."""

    def is_file(self, path: str) -> bool:
        """Whether there is a file."""
        return Path(path).is_file()

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder."""
        return Path(path).is_dir()

    def stat(self, path: str) -> FoundFile | None:
        """The file as it is now; None when it has gone, or is a link that leads nowhere."""
        return stat_of(*os.path.split(path))

    def listing(self, folder: str) -> Iterator[tuple[str, FoundFile]] | None:
        """None: a folder that has not changed need not be listed."""
        del folder
        return None

    def entries(self, folder: str) -> Iterator[tuple[str, bool]]:
        """The names in a folder; without links that lead to a folder above, which would never end.

        Raises:
            PipelineError: ``AUTO_LOADER.FILE_NAME``: a name is no text, and the ledger could not hold it.
        """
        try:
            entries = os.scandir(folder)
        except (FileNotFoundError, NotADirectoryError):
            # Gone meanwhile, or a file by now.
            return
        with entries:
            for entry in entries:
                inner = _is_folder(entry)
                if not (inner and _leads_up(entry)):
                    yield _text(entry.name, folder), inner

    def opened(self, path: str) -> BinaryIO:
        """The file; FileNotFoundError when it has gone."""
        return open(path, "rb")  # noqa: PTH123 - a path kept as text; whoever asks closes it

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
    """What a name in a folder stands for now; None when it has gone."""
    try:
        found = os.stat(os.path.join(folder, name))  # noqa: PTH116, PTH118 - for each of a million files
    except OSError:
        # Gone, or a link that leads nowhere.
        return None
    return FoundFile(name, found.st_size, found.st_mtime_ns)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link that leads nowhere.
        return False


def _text(name: str, folder: str) -> str:
    """The name; the ledger holds text, and a name that is none would be missed."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise PipelineError("AUTO_LOADER.FILE_NAME", name=repr(os.fsencode(name)), folder=folder) from None
    return name


def _leads_up(entry: os.DirEntry[str]) -> bool:
    """Whether a link leads to a folder that it lies in, and following it would never end."""
    return entry.is_symlink() and Path(entry.path).absolute().is_relative_to(Path(entry.path).resolve())
