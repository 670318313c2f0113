"""The files that Spark's file source would list, found by Python."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from headrace.model.local_path import local_path


def listed_files(detail: str) -> frozenset[str]:
    """The files that Spark's file source would list (``InMemoryFileIndex.allFiles``).

    Files directly below the paths; those in subfolders only if the listing is recursive or the folders are partitions.

    Args:
        detail: the ``detail`` of a source of kind ``FILES``.

    Raises:
        OSError: a path does not exist, or is an unreadable folder or a symbolic link. Spark follows a link that leads
            upwards without end.
    """
    source = json.loads(detail)
    found: set[str] = set()
    for pattern in source["paths"]:
        roots = _matches(local_path(pattern))
        if not roots:
            raise FileNotFoundError(0, "no such path", pattern)
        for root in roots:
            if root.is_dir():
                found.update(_files_below(str(root), recursive=source["recursive"]))
            elif not _hidden(root.name):
                found.add(str(root))
    return frozenset(found)


def paths_text(detail: str) -> str:
    """The paths of a source of kind ``FILES``, for messages."""
    return ", ".join(json.loads(detail)["paths"])


def _matches(pattern: str) -> list[Path]:
    """The paths that a pattern of ``*`` and ``?`` matches; Hadoop's patterns also match names with a leading dot."""
    roots = [Path("/")]
    for part in Path(pattern).parts[1:]:
        if "*" in part or "?" in part:
            folders = [root for root in roots if root.is_dir()]
            roots = [entry for folder in folders for entry in folder.iterdir() if fnmatchcase(entry.name, part)]
        else:
            roots = [root / part for root in roots if (root / part).exists()]
    return roots


def _files_below(root: str, *, recursive: bool) -> Iterator[str]:
    def refuse(error: OSError) -> None:
        raise error

    for folder, folders, files in os.walk(root, onerror=refuse):
        yield from (f"{folder}/{name}" for name in files if not _hidden(name))
        folders[:] = [name for name in folders if not _hidden(name) and (recursive or "=" in name)]
        for name in folders:
            if Path(folder, name).is_symlink():
                raise OSError(0, "is a link", f"{folder}/{name}")


def _hidden(name: str) -> bool:
    """True for names that Spark does not list (``HadoopFSUtils.shouldFilterOutPathName``)."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")
