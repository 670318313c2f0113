"""Runs the cells of a script in order, in one namespace."""

from __future__ import annotations

import ast
import os
import types
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from headrace.errors import PipelineError, Problems, raise_all
from headrace.model.location import Location
from headrace.notebooks import Cell, Language
from headrace.project.loading.load_result import PackageChecker
from headrace.scripts.display import Display
from headrace.scripts.source import SUFFIXES, Source, read_source
from headrace.spark.notebook.notebook_session import NotebookSession
from headrace.sql.statements import split_statements


def run_steps(
    source: Source, module: types.ModuleType, notebook_session: NotebookSession, callers: tuple[Path, ...] = ()
) -> None:
    """Run a script's cells in the namespace of *module*.

    Args:
        source: the script.
        module: whose namespace the cells share.
        notebook_session: the session.
        callers: the running notebooks that led to this one.

    Raises:
        PipelineError: SCRIPT.RUN for a notebook that cannot be run; also whatever the script's code raises.
    """
    _check_packages(source, notebook_session)
    for step in source.steps:
        if step.code is not None:
            exec(step.code, module.__dict__)  # noqa: S102 - the script is what the person wants to run
        elif step.cell.language is Language.SQL:
            _run_sql(step.cell, module, notebook_session)
        elif step.cell.language is Language.RUN:
            run_steps(_run_by(step.cell, source.file, callers), module, notebook_session, (*callers, source.file))


def trees_of(source: Source, callers: tuple[Path, ...] = ()) -> Iterator[ast.AST]:
    """The parsed texts of a script and of the notebooks that it runs; invalid %run cells are reported later."""
    for step in source.steps:
        if step.tree is not None:
            yield step.tree
        elif step.cell.language is Language.RUN:
            with suppress(PipelineError, Problems):
                yield from trees_of(_run_by(step.cell, source.file, callers), (*callers, source.file))


def _run_by(cell: Cell, file: Path, callers: tuple[Path, ...]) -> Source:
    """The notebook that a cell with %run runs."""
    magic = cell.magics[0]
    return find_notebook(magic.rest.strip().strip("'\""), file.parent, (*callers, file), cell.at(magic))


def _run_sql(cell: Cell, module: types.ModuleType, notebook_session: NotebookSession) -> None:
    for statement in split_statements(cell.padded, cell.file):
        # The call has the location of the statement in the script.
        call = "\n" * (statement.line - 1) + "_sqldf = spark.sql(_statement)"
        module.__dict__["_statement"] = statement.text
        exec(compile(call, cell.file, "exec"), module.__dict__)  # noqa: S102 - a cell of the script
        frame = module.__dict__["_sqldf"]
        if frame.columns:
            Display(notebook_session)(frame)


def _check_packages(source: Source, notebook_session: NotebookSession) -> None:
    packages = PackageChecker([])
    for step in source.steps:
        for magic in step.cell.magics:
            command, _, words = magic.rest.partition(" ")
            if magic.name == "pip" and command == "install":
                packages.check(words.strip(), source.file.parent, step.cell.at(magic))
    raise_all(packages.problems)
    for _code, text in packages.notices:
        notebook_session.once(text)


def find_notebook(
    wanted: str, folder: Path, callers: tuple[Path, ...] = (), location: Location | None = None
) -> Source:
    """The notebook at a path; the file extension is optional.

    Raises:
        PipelineError: SCRIPT.RUN if there is none or it is one of the *callers*; also those of ``read_source``.
    """
    path = Path(os.path.normpath(folder / wanted))
    candidates = [path, *(path.with_name(f"{path.name}{suffix}") for suffix in SUFFIXES)]
    found = [candidate for candidate in candidates if candidate.suffix in SUFFIXES and candidate.is_file()]
    if not wanted or not found:
        raise PipelineError("SCRIPT.RUN", location=location, what=wanted, reason="The notebook does not exist")
    if found[0] in callers:
        reason = "It is already running, so %run would never end"
        raise PipelineError("SCRIPT.RUN", location=location, what=wanted, reason=reason)
    return read_source(found[0])
