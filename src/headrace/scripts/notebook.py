"""Runs the cells of a script, one after the other, in one namespace."""

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
from headrace.project.load_result import Needs
from headrace.scripts.display import Display
from headrace.scripts.source import SUFFIXES, Source, read_source
from headrace.spark.notebook.notebook_session import NotebookSession
from headrace.sql.statements import split_statements


def run_steps(source: Source, module: types.ModuleType, ready: NotebookSession, above: tuple[Path, ...] = ()) -> None:
    """Run a script's cells in the namespace of *module*.

    Args:
        source: the script.
        module: whose namespace the cells share.
        ready: the session.
        above: the notebooks that are being run and have run this one.

    Raises:
        PipelineError: SCRIPT.RUN for a notebook that cannot be run; whatever the script's code raises.
    """
    _check_packages(source, ready)
    for step in source.steps:
        if step.code is not None:
            exec(step.code, module.__dict__)  # noqa: S102 - the script is what the person wants to run
        elif step.cell.language is Language.SQL:
            _run_sql(step.cell, module, ready)
        elif step.cell.language is Language.RUN:
            run_steps(_run_by(step.cell, source.file, above), module, ready, (*above, source.file))


def trees_of(source: Source, above: tuple[Path, ...] = ()) -> Iterator[ast.AST]:
    """The parsed texts of a script and of the notebooks that it runs; those that cannot be run are told of later."""
    for step in source.steps:
        if step.tree is not None:
            yield step.tree
        elif step.cell.language is Language.RUN:
            with suppress(PipelineError, Problems):
                yield from trees_of(_run_by(step.cell, source.file, above), (*above, source.file))


def _run_by(cell: Cell, file: Path, above: tuple[Path, ...]) -> Source:
    """The notebook that a cell with %run runs."""
    magic = cell.magics[0]
    return found_notebook(magic.rest.strip().strip("'\""), file.parent, (*above, file), cell.at(magic))


def _run_sql(cell: Cell, module: types.ModuleType, ready: NotebookSession) -> None:
    for statement in split_statements(cell.padded, cell.place):
        # The call is the script's own, at the line of its statement.
        call = "\n" * (statement.line - 1) + "_sqldf = spark.sql(_statement)"
        module.__dict__["_statement"] = statement.text
        exec(compile(call, cell.place, "exec"), module.__dict__)  # noqa: S102 - a cell of the script
        frame = module.__dict__["_sqldf"]
        if frame.columns:
            Display(ready)(frame)


def _check_packages(source: Source, ready: NotebookSession) -> None:
    needs = Needs([])
    for step in source.steps:
        for magic in step.cell.magics:
            command, _, words = magic.rest.partition(" ")
            if magic.name == "pip" and command == "install":
                needs.check(words.strip(), source.file.parent, step.cell.at(magic))
    raise_all(needs.problems)
    for _code, text in needs.notices:
        ready.once(text)


def found_notebook(wanted: str, folder: Path, above: tuple[Path, ...] = (), place: Location | None = None) -> Source:
    """The notebook behind a path, which may lack its ending.

    Raises:
        PipelineError: SCRIPT.RUN, when there is none or it is among those *above*; as ``read_source``.
    """
    path = Path(os.path.normpath(folder / wanted))
    candidates = [path, *(path.with_name(f"{path.name}{suffix}") for suffix in SUFFIXES)]
    found = [candidate for candidate in candidates if candidate.suffix in SUFFIXES and candidate.is_file()]
    if not wanted or not found:
        raise PipelineError("SCRIPT.RUN", location=place, what=wanted, reason="There is no such notebook")
    if found[0] in above:
        raise PipelineError("SCRIPT.RUN", location=place, what=wanted, reason="It runs the one that runs it")
    return read_source(found[0])
