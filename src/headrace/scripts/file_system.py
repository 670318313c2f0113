"""``dbutils.fs``: files by the paths that the session reads and writes."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, NoReturn
from urllib.parse import unquote

from headrace.errors import PipelineError
from headrace.settings.dbutils import refuse
from headrace.spark.notebook.notices import Notices
from headrace.spark.notebook.path_mapping import MOUNTS, Places, default_paths

_MOUNT = "Say what it stands for: headrace exec --path /mnt/NAME=PLACE, or paths in the settings of a project."
_INSTEAD: Mapping[str, str] = {
    "mount": _MOUNT,
    "mounts": _MOUNT,
    "refreshMounts": _MOUNT,
    "unmount": _MOUNT,
    "updateMount": _MOUNT,
}
_WORKING = "Of dbutils.fs, ls, head, put, mkdirs, cp, mv, rm and help work."
_DBFS = "dbfs:"


class FileInfo(NamedTuple):
    """An item of ``dbutils.fs.ls``, with the vendor's names."""

    path: str
    name: str
    size: int
    modificationTime: int  # noqa: N815 - the vendor's name

    def isDir(self) -> bool:  # noqa: N802 - the vendor's name
        """True for a folder."""
        return self.name.endswith("/")

    def isFile(self) -> bool:  # noqa: N802 - the vendor's name
        """True for a file."""
        return not self.isDir()


class FileSystem:
    """``dbutils.fs``, with the vendor's names; errors are PipelineError."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def ls(self, path: str) -> list[FileInfo]:
        """What is in a folder, or the one file."""
        place = self._there(path)
        found = sorted(place.iterdir()) if place.is_dir() else [place]
        base = _spelled(path).rstrip("/") if place.is_dir() else _spelled(path).rpartition("/")[0]
        return [_info(base, item) for item in found]

    def head(self, file: str, maxBytes: int = 65536) -> str:  # noqa: N803 - the vendor's name
        """The beginning of a file, as UTF-8."""
        with self._there(file).open("rb") as stream:
            return stream.read(maxBytes).decode(errors="replace")

    def put(self, file: str, contents: str, overwrite: bool = False) -> bool:  # noqa: FBT001, FBT002 - the vendor's
        """Write a file; its folder is made."""
        place = self._place(file)
        if place.exists() and not overwrite:
            raise PipelineError("SCRIPT.FILE_EXISTS", path=file)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(contents, encoding="utf-8")
        return True

    def mkdirs(self, path: str) -> bool:
        """Make a folder and those above it."""
        self._place(path).mkdir(parents=True, exist_ok=True)
        return True

    def cp(self, from_: str, to: str, recurse: bool = False) -> bool:  # noqa: FBT001, FBT002 - the vendor's
        """Copy a file, or with *recurse* what is in a folder, over what has its name there."""
        source, target = self._from_and_to(from_, to, recurse=recurse)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)
        return True

    def mv(self, from_: str, to: str, recurse: bool = False) -> bool:  # noqa: FBT001, FBT002 - the vendor's
        """Move a file, or with *recurse* what is in a folder, over what has its name there."""
        source, target = self._from_and_to(from_, to, recurse=recurse)
        if source.is_dir() and target.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
            shutil.rmtree(source)
        else:
            shutil.move(source, target)
        return True

    def rm(self, path: str, recurse: bool = False) -> bool:  # noqa: FBT001, FBT002 - the vendor's
        """Delete a file, or with *recurse* a folder with what is in it; False when there is none."""
        place = self._place(path)
        if not os.path.lexists(place):
            return False
        if place.is_symlink() or not place.is_dir():
            # Of a link, not what it leads to.
            place.unlink()
        elif not recurse and any(place.iterdir()):
            raise PipelineError("SCRIPT.IS_FOLDER", path=path)
        elif recurse:
            # At once, whoever writes into it meanwhile, such as a stream whose checkpoint it is.
            gone = place.rename(place.with_name(f".{place.name}.{uuid.uuid4().hex}"))
            # What was being made when its name was taken away may come between.
            shutil.rmtree(gone, ignore_errors=True)
            if gone.exists():
                shutil.rmtree(gone)
        else:
            place.rmdir()
        return True

    def has_file(self, path: str) -> bool:
        """True when there is a file of this name."""
        return self._place(path).is_file()

    def help(self, method: str | None = None) -> None:
        """Print what works."""
        text = getattr(type(self), method).__doc__ if method and method in type(self).__dict__ else _WORKING
        print(text)  # noqa: T201 - it is asked for

    def _place(self, path: str) -> Path:
        placed = self._places.placed(path)
        scheme, colon, rest = placed.partition(":")
        if colon and "/" not in scheme:
            if scheme.casefold() != "file":
                instead = "Of other stores than local disks, read and write files with Spark."
                refuse(f"fs with {scheme}: paths", instead)
            placed = unquote("/" + rest.lstrip("/"))
        return Path(placed)

    def _there(self, path: str) -> Path:
        place = self._place(path)
        if not place.exists():
            raise PipelineError("SCRIPT.NO_FILE", path=path, place=place)
        return place

    def _from_and_to(self, from_: str, to: str, *, recurse: bool) -> tuple[Path, Path]:
        """A file and the file that it becomes, or a folder and the folder that what is in it goes to."""
        source, target = self._there(from_), self._place(to)
        if not source.is_dir():
            target = target / source.name if target.is_dir() or to.endswith("/") else target
        else:
            if not recurse:
                raise PipelineError("SCRIPT.IS_FOLDER", path=from_)
            if target.is_file():
                raise PipelineError("SCRIPT.FILE_EXISTS", path=to)
        target.parent.mkdir(parents=True, exist_ok=True)
        return source, target

    def __getattr__(self, name: str) -> NoReturn:
        refuse(f"fs.{name}", _INSTEAD.get(name, _WORKING))

    def __repr__(self) -> str:
        return "dbutils.fs"


def files_of(storage: str, paths: Mapping[str, str], say: Callable[[str], None]) -> FileSystem:
    """The file system of scripts that keep their tables in a storage.

    Args:
        storage: a path.
        paths: what beginnings of paths stand for, beside those of the vendor's file system.
        say: tells the person a remark.
    """
    return FileSystem(Places({**default_paths(storage), **paths}, Notices(say)))


def _spelled(path: str) -> str:
    """The path as the vendor's ls gives it: a mount is in the vendor's file system."""
    if path.startswith(MOUNTS) or path == MOUNTS.rstrip("/"):
        return f"{_DBFS}{path}"
    return path


def _info(base: str, item: Path) -> FileInfo:
    found, end = item.stat(), "/" if item.is_dir() else ""
    name = f"{item.name}{end}"
    return FileInfo(f"{base}/{name}", name, 0 if end else found.st_size, int(found.st_mtime * 1000))
