"""Whether the code that the worker has imported is still what a new process would import."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

_Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class ImportedCode:
    """The files of all imported modules, and the folders of the module path, as they were when they were read."""

    stamps: dict[str, _Stamp | None]

    @staticmethod
    def now() -> ImportedCode:
        """The code of this process."""
        return ImportedCode({file: _stamp(file) for file in _files()})

    def changed(self) -> str | None:
        """The first file or folder that has changed since; None if none has."""
        return next((file for file, stamp in self.stamps.items() if _stamp(file) != stamp), None)


def _files() -> Iterator[str]:
    for module in tuple(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield file
    # An installed or removed package changes the folder that it is in.
    yield from (folder for folder in sys.path if os.path.isdir(folder))  # noqa: PTH112 - two thousand files each time


def _stamp(file: str) -> _Stamp | None:
    try:
        found = os.stat(file)  # noqa: PTH116 - the same
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
