"""Loads notebooks: runs their cells in order, in one namespace."""

from __future__ import annotations

import linecache
import os
import traceback
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import PipelineError, Problems
from headrace.model.location import Location, cell_name, split_cell
from headrace.notebooks import JSON_SUFFIX, Cell, Language, Magic, read_notebook
from headrace.pipelines.registry import Registry
from headrace.project.loading.load_result import PackageChecker, user_exception
from headrace.project.loading.tool_calls import with_tool_calls
from headrace.sql.load import load_statements
from headrace.sql.state import FileState

_SUFFIXES = (JSON_SUFFIX, ".py", ".sql")
_BY_HAND = "Do this outside the pipeline before the update, and remove the cell."
_DATA = "Read data with spark.read, and local files with pathlib."
_UNNEEDED = "Remove the line. Every update reads all files again."
_SHOWN = "Remove the line. A pipeline cannot display plots."
# Magics that a pipeline does not support, and what to do instead.
_FIXES: Mapping[str, str] = {
    "scala": "Write the cell in Python or SQL.",
    "r": "Write the cell in Python or SQL.",
    "sh": _BY_HAND,
    "bash": _BY_HAND,
    "script": _BY_HAND,
    "!": _BY_HAND,
    "fs": _DATA,
    "javascript": "Remove the cell.",
    "js": "Remove the cell.",
    "conda": "Install packages into the Python environment that runs the update.",
    "pip": "Use only %pip install, which is checked against the Python environment of the update.",
    "run": "Put %run in a separate cell.",
    "load_ext": _UNNEEDED,
    "autoreload": _UNNEEDED,
    "matplotlib": _SHOWN,
}
# Magics without effect: nothing is installed, so Python needs no restart.
_NOTHING_TO_DO = frozenset({"restart_python"})
_OTHER = "Remove the line, or write it in Python."


def is_notebook(file: Path) -> bool:
    """True for a file that is read as cells."""
    if file.suffix == JSON_SUFFIX:
        return True
    with file.open("rb") as stream:
        first = stream.readline(200)
    return b"Databricks notebook source" in first


@dataclass
class Notebooks:
    """Runs the notebooks of a project; adds problems to the registry.

    Args:
        registry: receives declarations and problems.
        packages: compares packages with the environment.
        configuration: values of ``${name}`` in SQL.
        parameters: values of ``:name`` in SQL.

    Attributes:
        files: the notebooks that were read.
    """

    registry: Registry
    packages: PackageChecker
    configuration: Mapping[str, str]
    parameters: Mapping[str, str]
    files: list[Path] = field(default_factory=list)

    def load(self, file: Path, module: types.ModuleType) -> None:
        """Run the cells of a notebook in the namespace of *module*."""
        name = self.registry.relative(file)
        state = FileState.at_start(name, self.registry, self.configuration, self.parameters)
        _Run(self, module, state).notebook(file, ())


@dataclass
class _Run:
    """One notebook and all notebooks that it runs: they share a namespace, and the effects of SET and USE."""

    notebooks: Notebooks
    module: types.ModuleType
    state: FileState
    code_names: set[str] = field(default_factory=set)

    @property
    def _problems(self) -> list[PipelineError]:
        return self.notebooks.registry.problems

    def notebook(self, file: Path, callers: tuple[Path, ...]) -> bool:
        """Run a notebook; returns False if its callers cannot continue after a failure."""
        self.notebooks.files.append(file)
        registry = self.notebooks.registry
        try:
            text = file.read_text(encoding="utf-8")
            cells = read_notebook(text, file.suffix, registry.relative(file))
        except PipelineError as error:
            self._problems.append(error)
            return False
        except UnicodeDecodeError as error:
            self._problem("NOTEBOOK.UNREADABLE", Location(registry.relative(file)), file=file.name, reason=error)
            return False
        if cells is None:
            # An ordinary file run by a notebook is one cell.
            language = Language.SQL if file.suffix == ".sql" else Language.PYTHON
            cells = (Cell(language, text.removeprefix("\ufeff"), registry.relative(file)),)
        for cell in cells:
            self._magics(cell, file)
        compiled = [self._compiled(cell, file) for cell in cells]
        if None in compiled:
            return False
        return all(
            self._cell(cell, code, file, callers)
            for cell, code in zip(cells, compiled, strict=True)
            if code is not None
        )

    def _compiled(self, cell: Cell, file: Path) -> types.CodeType | None:
        """The compiled code of a cell, empty unless it is Python; None if it cannot be parsed."""
        number = split_cell(cell.file)[1]
        code_name = cell_name(str(file), number) if number else str(file)
        self.code_names.add(code_name)
        if cell.language is not Language.PYTHON:
            return compile("", code_name, "exec")
        if file.suffix == JSON_SUFFIX:
            # Tracebacks show the line, and there is no file with this name.
            linecache.cache[code_name] = (len(cell.text), None, cell.text.splitlines(keepends=True), code_name)
        try:
            # Without dont_inherit, this module's future statements would apply to the user's code.
            return compile(with_tool_calls(cell.padded), code_name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or cell.line
            self._problem("FILE.SYNTAX", Location(cell.file, line), reason=getattr(error, "msg", None) or error)
            return None

    def _cell(self, cell: Cell, code: types.CodeType, file: Path, callers: tuple[Path, ...]) -> bool:
        if cell.language is Language.SQL:
            self.state.file = cell.file
            load_statements(cell.padded, self.state)
            return True
        if cell.language is Language.RUN:
            return self._run(cell, file, callers)
        return self._execute(code, cell)

    def _magics(self, cell: Cell, file: Path) -> None:
        """Check the magics without running the cell: required packages, and unsupported magics."""
        for magic in cell.magics if cell.language in (Language.PYTHON, Language.OTHER) else ():
            command, _, words = magic.rest.partition(" ")
            if magic.name == "pip" and command == "install":
                self.notebooks.packages.check(words.strip(), file.parent, cell.at(magic))
            elif magic.name not in _NOTHING_TO_DO:
                self._refuse(cell, magic)

    def _run(self, cell: Cell, file: Path, callers: tuple[Path, ...]) -> bool:
        magic = cell.magics[0]
        location = cell.at(magic)
        if any(line.strip() and not line.strip().startswith(("#", "--")) for line in cell.text.split("\n")):
            self._refuse(cell, magic)
            return True
        wanted, arguments = _path_and_arguments(magic.rest)
        if arguments or not wanted:
            reason = "no notebook is named" if not wanted else f'it passes "{arguments}", but %run takes no arguments'
            self._problem("NOTEBOOK.RUN", location, what=magic.rest, reason=reason)
            return True
        try:
            other = self._found(wanted, file.parent)
        except ValueError as error:
            self._problem("NOTEBOOK.RUN", location, what=wanted, reason=error)
            return False
        stack = (*callers, file)
        if other in stack:
            relative = self.notebooks.registry.relative
            path = " runs ".join(f'"{relative(known)}"' for known in (*stack[stack.index(other) :], other))
            self._problem("NOTEBOOK.CYCLE", location, path=path)
            return False
        return self.notebook(other, stack)

    def _found(self, wanted: str, folder: Path) -> Path:
        """The file that a notebook runs; raises ValueError with the reason if there is none."""
        root = self.notebooks.registry.root
        path = Path(os.path.normpath(folder / wanted))
        candidates = [path, *(path.with_name(f"{path.name}{suffix}") for suffix in _SUFFIXES)]
        found = [candidate for candidate in candidates if candidate.suffix in _SUFFIXES and candidate.is_file()]
        if not path.is_relative_to(root) or not all(known.resolve().is_relative_to(root.resolve()) for known in found):
            where = "a Databricks workspace path" if Path(wanted).is_absolute() else "outside the project"
            raise ValueError(f"it is {where}")
        if not found:
            raise ValueError("no such notebook")
        if len(found) > 1:
            names = " and ".join(f'"{candidate.name}"' for candidate in found)
            raise ValueError(f"it matches {names}")
        return found[0]

    def _execute(self, code: types.CodeType, cell: Cell) -> bool:
        try:
            exec(code, self.module.__dict__)  # noqa: S102 - a pipeline file is code (D14)
        except PipelineError as error:
            location = error.location or self._raised_at(error, cell)
            self._problems.append(PipelineError(error.code, location=location, **error.params))
        except Problems as error:
            self._problems.extend(error.errors)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's code raises is its problem
            location = self._raised_at(error, cell)
            self._problems.append(user_exception(error, str(location.to_json()["file"]), location))
        else:
            return True
        return False

    def _raised_at(self, error: BaseException, cell: Cell) -> Location:
        """The line of the user's notebooks that was running, whatever code it called."""
        known = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in self.code_names]
        if not known:
            return Location(cell.file)
        return Location(self.notebooks.registry.relative(Path(known[-1].filename)), known[-1].lineno or 0)

    def _refuse(self, cell: Cell, magic: Magic) -> None:
        fix = _FIXES.get(magic.name, _OTHER)
        what = magic.name if magic.name == "!" else f"%{magic.name}"
        self._problem("NOTEBOOK.MAGIC", cell.at(magic), what=what, instead=fix)

    def _problem(self, code: str, location: Location, **params: object) -> None:
        self._problems.append(PipelineError(code, location=location, **params))


def _path_and_arguments(text: str) -> tuple[str, str]:
    """The path after %run, which may be quoted, and the rest."""
    text = text.strip()
    quote = text[:1]
    if quote in ("'", '"') and quote in text[1:]:
        path, _, rest = text[1:].partition(quote)
        return path, rest.strip()
    path, _, rest = text.partition(" ")
    return path, rest.strip()
