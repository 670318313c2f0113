"""Where the files of the project that is loaded import from, and what they have imported.

There is one import system in a process, so what loading a project has put there is kept for the process too.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.machinery import FileFinder
from pathlib import Path


@dataclass(frozen=True)
class _Imports:
    """What the process imports for one project: modules below *root* that were not there before it was loaded."""

    root: Path
    path_entry: str
    foreign: frozenset[str]

    def undo(self) -> None:
        """Forget the project's modules, also those that a query function imported later."""
        for name, module in list(sys.modules.items()):
            if name not in self.foreign and self._own(getattr(module, "__file__", None)):
                del sys.modules[name]
        if self.path_entry in sys.path:
            sys.path.remove(self.path_entry)

    def _own(self, origin: str | None) -> bool:
        if not origin or "site-packages" in Path(origin).parts:
            return False
        return Path(origin).is_relative_to(self.root) or Path(origin).is_relative_to(self.path_entry)


_current: list[_Imports] = []


def import_from(root: Path, import_root: Path) -> None:
    """Let modules be found in *import_root* first, until the next project is loaded.

    What the project loaded before has imported is forgotten, so that the files are read again: they may declare
    datasets, and another project may have a module of the same name. Modules that the process had imported by itself
    stay, its ``__main__`` among them.
    """
    while _current:
        _current.pop().undo()
    _current.append(_Imports(root, str(import_root), frozenset(sys.modules)))
    sys.path.insert(0, str(import_root))
    # Files may be newer than what Python remembers of their folders. All finders would be asked to forget by
    # `importlib.invalidate_caches`, those of archives as well, which read them again.
    for entry, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, FileFinder) and Path(entry).is_relative_to(import_root):
            finder.invalidate_caches()
