"""The files of a pipeline, found by its ``libraries``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from headrace.errors import PipelineError, raise_all
from headrace.model.location import Location
from headrace.settings.settings import Library, Settings

DEFAULT_PATTERN = "transformations/**"
SUFFIXES = (".ipynb", ".py", ".sql")
# Where the vendor's workspace keeps files; no such folder is here.
_WORKSPACE = ("Repos", "Shared", "Users", "Workspace")


def source_files(settings: Settings) -> tuple[Path, ...]:
    """The .py, .sql and .ipynb files of the pipeline, each once, sorted by their paths.

    Hidden files and ``__pycache__`` are left out of patterns, and so is any other kind of file.

    Raises:
        Problems: a file that is missing, of another kind or outside of the project, a pattern of another form, or no
            file at all.
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
    """Collects files below one root, by what they really are, so that a link adds no file a second time."""

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
        """What was found, sorted."""
        return tuple(sorted(self._found.values(), key=lambda path: path.as_posix()))

    def _add_notebook(self, library: Library) -> None:
        """A notebook, whose path the vendor writes without its ending."""
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
        # A link may lead back to a folder above it.
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
        # Both count: what is written (".." through a missing folder) and where a link leads.
        return path.is_relative_to(self._root) and path.resolve().is_relative_to(self._real_root)

    def _problem(self, code: str, library: Library, **params: str) -> None:
        self.problems.append(PipelineError(code, location=library.location, **params))
