"""The files of a project that its author edits, and which of them a save has changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.settings.settings import Settings
from headrace.stores.uris import is_store_uri

_SUFFIXES = (".py", ".sql", ".ipynb")
_SETTINGS = frozenset(
    ("pipeline.yml", "pipeline.yaml", "pipeline.json", "spark-pipeline.yml", "spark-pipeline.yaml", "databricks.yml")
)
_NO_SOURCES = frozenset(("__pycache__", "node_modules", "site-packages"))
# A folder with this file is a Python environment.
_ENVIRONMENT = "pyvenv.cfg"

# By path: what a save changes of a file, also if it takes less than a tick of the clock, or renames a new file over it.
Files = Mapping[str, tuple[int, int, int]]


@dataclass(frozen=True)
class ProjectFiles:
    """Where the files of a project are.

    Attributes:
        root: the folder of the settings; names are relative to it.
        folders: those in which files are looked for.
        ignored: folders without files of the author: the storage.
    """

    root: Path
    folders: tuple[Path, ...]
    ignored: frozenset[str] = frozenset()

    @classmethod
    def of(cls, settings: Settings) -> ProjectFiles:
        """The files of a pipeline."""
        named = [settings.root / library.path for library in settings.libraries]
        folders = [settings.root, settings.root_path, *(_folder(path) for path in named)]
        ignored = {str(settings.root / ".headrace")}
        if not is_store_uri(settings.storage):
            ignored.add(os.path.realpath(settings.storage))
        return cls(settings.root, _outermost(folder.resolve() for folder in folders), frozenset(ignored))

    def scan(self) -> Files:
        """The files that exist now."""
        found: dict[str, tuple[int, int, int]] = {}
        for folder in self.folders:
            for entry in self._entries(str(folder)):
                try:
                    status = entry.stat()
                except OSError:
                    # Removed meanwhile.
                    continue
                found[entry.path] = status.st_mtime_ns, status.st_size, status.st_ino
        return found

    def changed(self, before: Files, after: Files) -> tuple[str, ...]:
        """The names of the files that differ, relative to the project."""
        paths = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
        return tuple(os.path.relpath(path, self.root) for path in paths)

    def _entries(self, folder: str) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            return
        if any(entry.name == _ENVIRONMENT for entry in entries):
            return
        for entry in entries:
            name = entry.name
            if name.startswith(".") or name in _NO_SOURCES:
                continue
            if name.endswith(_SUFFIXES) or name in _SETTINGS:
                if entry.is_file():
                    yield entry
            elif entry.is_dir(follow_symlinks=False) and entry.path not in self.ignored:
                yield from self._entries(entry.path)


def _folder(path: Path) -> Path:
    """The folder of a library: of a file, or before the first pattern."""
    parts = path.parts
    plain = next((number for number, part in enumerate(parts) if "*" in part), len(parts))
    found = Path(*parts[:plain])
    return found if found.is_dir() else found.parent


def _outermost(folders: Iterable[Path]) -> tuple[Path, ...]:
    """The folders that are in no other one."""
    known = sorted(set(folders))
    return tuple(one for one in known if not any(other in one.parents for other in known))
