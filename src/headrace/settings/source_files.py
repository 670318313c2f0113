"""Finds the files of a pipeline by its ``libraries``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from headrace.errors import PipelineError, raise_all
from headrace.model.location import Location
from headrace.settings.settings import Library, Settings

DEFAULT_PATTERN = "transformations/**"
SUFFIXES = (".ipynb", ".py", ".sql")
# Folders of the vendor's workspace, which do not exist here.
_WORKSPACE = ("Repos", "Shared", "Users", "Workspace")


def source_files(settings: Settings) -> tuple[Path, ...]:
    """The .py, .sql and .ipynb files of the pipeline, each once, sorted by their paths.

    Patterns omit hidden files, ``__pycache__`` and other kinds of files.

    Raises:
        Problems: a file that is missing, of another kind or outside the project, an unsupported pattern, or no files.
    """
    search = _Search(settings.root)
    for library in settings.libraries or (_default(settings),):
        search.add(library)
    raise_all(search.problems)
    files = search.files()
    if not files:
        patterns = ", ".join(f'"{library.path}"' for library in settings.libraries or (_default(settings),))
        raise_all([PipelineError("SETTINGS.NO_FILES", location=Location(settings.file.name), patterns=patterns)])
    return files


def _default(settings: Settings) -> Library:
    return Library(DEFAULT_PATTERN, pattern=True, location=Location(settings.file.name))


class _Search:
    """Collects files below one root by their real paths, so that a link adds no file twice."""

    def __init__(self, root: Path) -> None:
        self.problems: list[PipelineError] = []
        self._root = root
        self._real_root = root.resolve()
        self._found: dict[Path, Path] = {}

    def add(self, library: Library) -> None:
        """Add the files of one library."""
        text = library.path
        workspace = PurePosixPath(text).parts[1:2] if text.startswith("/") else ()
        if workspace and workspace[0] in _WORKSPACE and not Path(text).exists():
            relative = "/".join(PurePosixPath(text).parts[-2:])
            self._problem("SETTINGS.WORKSPACE_PATH", library, path=text, relative=relative)
            return
        if library.notebook:
            self._add_notebook(library)
            return
        folder = "." if text == "**" else text.removesuffix("/**")
        if library.pattern and folder != text:
            self._add_folder(library, folder)
        elif any(character in text for character in "*?[]{}") and not (self._root / text).is_file():
            self._problem("SETTINGS.PATTERN", library, pattern=text)
        else:
            self._add_file(library, text)

    def files(self) -> tuple[Path, ...]:
        """The files found, sorted."""
        return tuple(sorted(self._found.values(), key=lambda path: path.as_posix()))

    def _add_notebook(self, library: Library) -> None:
        """Add a notebook; the vendor writes its path without the extension."""
        text = library.path
        candidates = [text, *(f"{text}{suffix}" for suffix in SUFFIXES)]
        found = [path for path in candidates if path.endswith(SUFFIXES) and (self._root / path).is_file()]
        if len(found) > 1:
            names = " or ".join(f'"{path}"' for path in found)
            self._problem("SETTINGS.AMBIGUOUS_PATH", library, path=text, candidates=names)
        else:
            self._add_file(library, found[0] if found else text)

    def _add_file(self, library: Library, text: str) -> None:
        file = Path(os.path.normpath(self._root / text))
        if not self._inside(file):
            self._problem("SETTINGS.OUTSIDE", library, path=text)
        elif not file.is_file():
            self._problem("SETTINGS.FILE_NOT_FOUND", library, path=text)
        elif file.suffix not in SUFFIXES:
            self._problem("SETTINGS.FILE_KIND", library, path=text)
        else:
            self._found.setdefault(file.resolve(), file)

    def _add_folder(self, library: Library, text: str) -> None:
        folder = Path(os.path.normpath(self._root / text))
        if not self._inside(folder):
            self._problem("SETTINGS.OUTSIDE", library, path=library.path)
        elif folder.is_dir():
            for file in self._walk(library, folder, set()):
                self._found.setdefault(file.resolve(), file)
        elif library.path != DEFAULT_PATTERN:
            self._problem("SETTINGS.FILE_NOT_FOUND", library, path=text)

    def _walk(self, library: Library, folder: Path, seen: set[Path]) -> Iterator[Path]:
        real = folder.resolve()
        # A link may point to a parent folder.
        if real in seen:
            return
        seen.add(real)
        for path in sorted(folder.iterdir()):
            if path.name.startswith(".") or path.name == "__pycache__":
                continue
            relevant = path.is_dir() or path.suffix in SUFFIXES
            shown = path.relative_to(self._root).as_posix()
            if relevant and not self._inside(path):
                self._problem("SETTINGS.OUTSIDE", library, path=shown)
            elif path.is_dir():
                yield from self._walk(library, path, seen)
            elif relevant and path.is_file():
                yield path

    def _inside(self, path: Path) -> bool:
        # Checks both: the path as written (".." through a missing folder) and the target of a link.
        return path.is_relative_to(self._root) and path.resolve().is_relative_to(self._real_root)

    def _problem(self, code: str, library: Library, **params: str) -> None:
        self.problems.append(PipelineError(code, location=library.location, **params))
