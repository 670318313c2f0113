"""``dbutils.fs``: files, under the paths that the session uses."""

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
from headrace.spark.notebook.path_mapping import MOUNTS, PathMapping, default_paths

_MOUNT = "Say what it stands for: headrace exec --path /mnt/NAME=PLACE, or paths in the settings of a project."
_FIXES: Mapping[str, str] = {
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

    def __init__(self, mapping: PathMapping) -> None:
        self._mapping = mapping

    def ls(self, path: str) -> list[FileInfo]:
        """What is in a folder, or the one file."""
        resolved = self._existing(path)
        found = sorted(resolved.iterdir()) if resolved.is_dir() else [resolved]
        base = _vendor_path(path).rstrip("/") if resolved.is_dir() else _vendor_path(path).rpartition("/")[0]
        return [_info(base, item) for item in found]

    def head(self, file: str, maxBytes: int = 65536) -> str:  # noqa: N803 - the vendor's name
        """The beginning of a file, as UTF-8."""
        with self._existing(file).open("rb") as stream:
            return stream.read(maxBytes).decode(errors="replace")

    def put(self, file: str, contents: str, overwrite: bool = False) -> bool:  # noqa: FBT001, FBT002 - the vendor's
        """Write a file; its folder is made."""
        resolved = self._resolve(file)
        if resolved.exists() and not overwrite:
            raise PipelineError("SCRIPT.FILE_EXISTS", path=file)
        resolved.parent.mkdir(parents=True, exist_ok=True)
        resolved.write_text(contents, encoding="utf-8")
        return True

    def mkdirs(self, path: str) -> bool:
        """Make a folder and those above it."""
        self._resolve(path).mkdir(parents=True, exist_ok=True)
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
        resolved = self._resolve(path)
        if not os.path.lexists(resolved):
            return False
        if resolved.is_symlink() or not resolved.is_dir():
            # Deletes the link, not its target.
            resolved.unlink()
        elif not recurse and any(resolved.iterdir()):
            raise PipelineError("SCRIPT.IS_FOLDER", path=path)
        elif recurse:
            # Renames first, so that the deletion is atomic for concurrent writers, e.g. a stream with this checkpoint.
            renamed = resolved.rename(resolved.with_name(f".{resolved.name}.{uuid.uuid4().hex}"))
            # A file that was being created during the rename can make this fail.
            shutil.rmtree(renamed, ignore_errors=True)
            if renamed.exists():
                shutil.rmtree(renamed)
        else:
            resolved.rmdir()
        return True

    def has_file(self, path: str) -> bool:
        """True when there is a file of this name."""
        return self._resolve(path).is_file()

    def help(self, method: str | None = None) -> None:
        """Print what works."""
        text = getattr(type(self), method).__doc__ if method and method in type(self).__dict__ else _WORKING
        print(text)  # noqa: T201 - it is asked for

    def _resolve(self, path: str) -> Path:
        mapped = self._mapping.map_path(path)
        scheme, colon, rest = mapped.partition(":")
        if colon and "/" not in scheme:
            if scheme.casefold() != "file":
                fix = "Of other stores than local disks, read and write files with Spark."
                refuse(f"fs with {scheme}: paths", fix)
            mapped = unquote("/" + rest.lstrip("/"))
        return Path(mapped)

    def _existing(self, path: str) -> Path:
        resolved = self._resolve(path)
        if not resolved.exists():
            raise PipelineError("SCRIPT.NO_FILE", path=path, place=resolved)
        return resolved

    def _from_and_to(self, from_: str, to: str, *, recurse: bool) -> tuple[Path, Path]:
        """The source and the target: a file and its new path, or a folder and the folder for its contents."""
        source, target = self._existing(from_), self._resolve(to)
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
        refuse(f"fs.{name}", _FIXES.get(name, _WORKING))

    def __repr__(self) -> str:
        return "dbutils.fs"


def files_of(storage: str, paths: Mapping[str, str], say: Callable[[str], None]) -> FileSystem:
    """The file system of scripts whose tables are in a storage.

    Args:
        storage: a path.
        paths: path prefixes and their targets, in addition to those of the vendor's file system.
        say: prints a notice.
    """
    return FileSystem(PathMapping({**default_paths(storage), **paths}, Notices(say)))


def _vendor_path(path: str) -> str:
    """The path as the vendor's ls shows it: a mount has the scheme ``dbfs:``."""
    if path.startswith(MOUNTS) or path == MOUNTS.rstrip("/"):
        return f"{_DBFS}{path}"
    return path


def _info(base: str, item: Path) -> FileInfo:
    found, end = item.stat(), "/" if item.is_dir() else ""
    name = f"{item.name}{end}"
    return FileInfo(f"{base}/{name}", name, 0 if end else found.st_size, int(found.st_mtime * 1000))
