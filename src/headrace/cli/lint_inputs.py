"""The files that lint checks: which they are, and their text."""

from __future__ import annotations

import errno
import io
import os
import stat
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.atomic_write import replace_content
from headrace.cli.invocation import Invocation
from headrace.errors import PipelineError, Problems, raise_all
from headrace.lint.source_files import SUFFIXES
from headrace.model.location import Location
from headrace.settings.source_files import source_files

_ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class LintInput:
    """A file to check; ``in_project`` is True for a file of a pipeline."""

    file: Path
    in_project: bool

    @property
    def name(self) -> str:
        """The path relative to the working directory, if the file is below it."""
        absolute = Path(os.path.normpath(Path.cwd() / self.file))
        return (absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else absolute).as_posix()

    def read(self) -> str:
        """The text, with its own line ends.

        Raises:
            PipelineError: LINT.UNREADABLE.
        """
        try:
            raw = self.file.read_bytes()
            return io.TextIOWrapper(io.BytesIO(raw), encoding=self._encoding(raw), newline="").read()
        except (OSError, UnicodeDecodeError, SyntaxError) as error:
            reason = getattr(error, "strerror", None) or error
            raise PipelineError(
                "LINT.UNREADABLE", location=Location(self.name), file=self.name, reason=reason
            ) from error

    def write(self, text: str, *, old: str) -> None:
        """Replace the text; the encoding and the permissions of the file stay.

        Args:
            text: the new text.
            old: the text that was read.

        Raises:
            PipelineError: LINT.NOT_WRITTEN, LINT.UNREADABLE; the file stays as it is.
        """
        if self.read() not in (old, text):
            raise PipelineError("LINT.NOT_WRITTEN", file=self.name, reason="it has changed since it was checked")
        try:
            # The folder of a file that may not be written can still allow to replace it.
            if not self.file.stat().st_mode & _ANY_WRITE or not os.access(self.file, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            replace_content(self.file, text.encode(self._encoding(self.file.read_bytes())))
        except OSError as error:
            raise PipelineError("LINT.NOT_WRITTEN", file=self.name, reason=error.strerror or error) from error

    def _encoding(self, raw: bytes) -> str:
        """The encoding that a Python file declares."""
        return tokenize.detect_encoding(io.BytesIO(raw).readline)[0] if self.file.suffix == ".py" else "utf-8"


def lint_inputs(invocation: Invocation, files: Sequence[Path]) -> tuple[LintInput, ...]:
    """The named files and those in the named folders; without names, those of the project.

    Raises:
        PipelineError, Problems: a file does not exist or is of another kind, or the project cannot be read.
    """
    own = _own_files(invocation, required=not files)
    known = {file.resolve() for file in own}
    return tuple(LintInput(file, file.resolve() in known) for file in (_walked(files) if files else own))


def _own_files(invocation: Invocation, *, required: bool) -> tuple[Path, ...]:
    """The files of the project that contains the working directory."""
    try:
        return source_files(invocation.location.settings())
    except (PipelineError, Problems):
        if required:
            raise
        # The named files need no project.
        return ()


def _walked(named: Sequence[Path]) -> tuple[Path, ...]:
    """The named files, and those in the named folders."""
    problems: list[PipelineError] = []
    found: dict[Path, None] = {}
    for path in named:
        if path.is_dir():
            found.update(dict.fromkeys(_below(path)))
        elif not path.exists():
            problems.append(PipelineError("LINT.NO_FILE", file=path))
        elif path.suffix not in SUFFIXES:
            problems.append(PipelineError("LINT.FILE_KIND", file=path))
        else:
            found[path] = None
    raise_all(problems)
    # A file may be named twice, or also be in a named folder.
    once: dict[Path, Path] = {}
    for path in found:
        once.setdefault(path.resolve(), path)
    return tuple(once.values())


def _below(folder: Path) -> Iterator[Path]:
    for directory, folders, names in os.walk(folder):
        hidden = ("__pycache__", "node_modules")
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in hidden)
        for name in sorted(names):
            if not name.startswith(".") and name.endswith(SUFFIXES):
                yield Path(directory) / name
