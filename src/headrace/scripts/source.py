"""Reads a script or notebook as compiled cells."""

from __future__ import annotations

import ast
import linecache
import types
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import PipelineError, raise_all
from headrace.model.location import Location, cell_name, split_cell
from headrace.notebooks import JSON_SUFFIX, Cell, Language, Magic, read_notebook
from headrace.project.loading.tool_calls import with_tool_calls

SUFFIXES = (".py", JSON_SUFFIX, ".sql")
_NOTHING_TO_DO = frozenset(("restart_python", "autoreload", "load_ext", "matplotlib"))
_OUTSIDE = "Do it outside of the script, before the script starts, and remove the cell."
_FIXES = {
    "scala": "Write the cell in Python or SQL.",
    "r": "Write the cell in Python or SQL.",
    "sh": _OUTSIDE,
    "bash": _OUTSIDE,
    "!": _OUTSIDE,
    "conda": "Install packages into the Python environment that runs the script.",
    "pip": "Only %pip install is supported. Headrace compares it with the Python environment that runs the script.",
    "fs": "Call dbutils.fs.",
    "run": "Give %run a cell of its own, with the path of another notebook relative to this one.",
}
_OTHER = "Remove the line, or write it in Python."


@dataclass(frozen=True)
class Step:
    """A cell with its compiled code; only Python cells have code."""

    cell: Cell
    code: types.CodeType | None = None
    tree: ast.AST | None = None


@dataclass(frozen=True)
class Source:
    """A script as steps in execution order.

    ``code_names`` are the file names of its code in tracebacks.
    """

    file: Path
    steps: tuple[Step, ...]
    notebook: bool

    @property
    def code_names(self) -> frozenset[str]:
        """The file names of its code in tracebacks."""
        return frozenset(step.code.co_filename for step in self.steps if step.code is not None)


def read_source(file: Path) -> Source:
    """The script in *file*.

    Raises:
        PipelineError: SCRIPT.NOT_FOUND, SCRIPT.NOT_READABLE; NOTEBOOK.* for a notebook that cannot be read.
        Problems: lines that are not valid Python, and unsupported magics.
    """
    if not file.is_file():
        raise PipelineError("SCRIPT.NOT_FOUND", file=file)
    if file.suffix not in SUFFIXES:
        reason = f"its name does not end in one of {', '.join(SUFFIXES)}"
        raise PipelineError("SCRIPT.NOT_READABLE", file=file, reason=reason)
    try:
        text = file.read_text(encoding="utf-8").removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError("SCRIPT.NOT_READABLE", file=file, reason=error) from error
    cells = read_notebook(text, file.suffix, str(file))
    language = Language.SQL if file.suffix == ".sql" else Language.PYTHON
    problems: list[PipelineError] = []
    steps = [_step(cell, file, problems) for cell in cells or (Cell(language, text, str(file)),)]
    raise_all(problems)
    return Source(file, tuple(steps), notebook=cells is not None)


def _step(cell: Cell, file: Path, problems: list[PipelineError]) -> Step:
    for magic in cell.magics:
        if not _is_supported(cell, magic):
            what = magic.name if magic.name == "!" else f"%{magic.name}"
            fix = _FIXES.get(magic.name, _OTHER)
            problems.append(PipelineError("SCRIPT.MAGIC", location=cell.at(magic), what=what, instead=fix))
    if cell.language is not Language.PYTHON:
        return Step(cell)
    number = split_cell(cell.file)[1]
    code_name = cell_name(str(file), number) if number else str(file)
    if number:
        # Tracebacks show the line, and there is no file with this name.
        linecache.cache[code_name] = (len(cell.text), None, cell.text.splitlines(keepends=True), code_name)
    try:
        text = with_tool_calls(cell.padded)
        tree = ast.parse(text, code_name)
        # Without dont_inherit, this module's future statements would apply to the user's code.
        return Step(cell, compile(text, code_name, "exec", dont_inherit=True), tree)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or cell.line
        reason = getattr(error, "msg", None) or error
        problems.append(PipelineError("FILE.SYNTAX", location=Location(cell.file, line), reason=reason))
        return Step(cell)


def _is_supported(cell: Cell, magic: Magic) -> bool:
    if cell.language is Language.RUN:
        return True
    if cell.language is Language.NONE or magic.name in _NOTHING_TO_DO:
        return True
    return magic.name == "pip" and magic.rest.split(" ")[0] == "install"
