"""The import path of the loaded project, and the modules that it imported.

A process has one import system, so this state is global too.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.machinery import FileFinder
from pathlib import Path


@dataclass(frozen=True)
class _Imports:
    """The imports of one project: modules below *root* that did not exist before it was loaded."""

    root: Path
    path_entry: str
    foreign: frozenset[str]

    def undo(self) -> None:
        """Remove the project's modules, including those that a query function imported later."""
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
    """Put *import_root* first on the import path, until the next project is loaded.

    Removes the modules of the previously loaded project, so that its files are read again: they may declare datasets,
    and another project may have a module with the same name. Modules that the process itself imported stay, including
    ``__main__``.
    """
    while _current:
        _current.pop().undo()
    _current.append(_Imports(root, str(import_root), frozenset(sys.modules)))
    sys.path.insert(0, str(import_root))
    # Files may be newer than Python's cached folder listings. `importlib.invalidate_caches` would clear all finders,
    # also those of archives, which would read them again.
    for entry, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, FileFinder) and Path(entry).is_relative_to(import_root):
            finder.invalidate_caches()
