"""Reads notebooks as cells: their code, language, and the location of each line.

Supports nbformat 4 (``.ipynb``) and the vendor's source format, a ``.py`` or ``.sql`` file with a marker in its first
line. Runs nothing and opens no file.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from headrace.errors import PipelineError
from headrace.model.location import Location, cell_name

JSON_SUFFIX = ".ipynb"
_MARK = "Databricks notebook source"
_CELL_ENDS = "COMMAND ----------"
_TITLE = "DBTITLE"
_MAGIC = "MAGIC"
_LINE_END = re.compile(r"\r\n|\r|\n")
_CELL_MAGIC = re.compile(r"\s*%{1,2}(?P<name>[\w-]+)(?P<rest>.*)")
_LINE_MAGIC = re.compile(r"\s*(?:%{1,2}(?P<name>[\w-]+)|!)(?P<rest>.*)")
_PROSE = frozenset({"md", "md-sandbox", "markdown", "html"})
_METADATA = "application/vnd.databricks.v1+notebook"


class Language(str, Enum):
    """The language of a cell; RUN runs another notebook, and NONE is prose."""

    PYTHON = "python"
    SQL = "sql"
    RUN = "run"
    NONE = "none"
    # Languages that a pipeline does not support.
    OTHER = "other"


_COMMENTS = {Language.PYTHON: "#", Language.SQL: "--"}
_SUFFIXES = {".py": Language.PYTHON, ".sql": Language.SQL}
_CELL_MAGICS = {
    **dict.fromkeys(_PROSE, Language.NONE),
    "python": Language.PYTHON,
    "sql": Language.SQL,
    "run": Language.RUN,
    **dict.fromkeys(("scala", "r", "sh", "bash", "fs", "script", "javascript", "js"), Language.OTHER),
}


@dataclass(frozen=True)
class Magic:
    """A line such as ``%pip install x``; ``name`` is ``!`` for a shell command."""

    name: str
    rest: str
    line: int


@dataclass(frozen=True)
class Cell:
    """One cell: its text without magics, and the lines that were magics.

    ``file`` names the file, or the cell in it, in which ``text`` begins at ``line``.
    """

    language: Language
    text: str
    file: str
    line: int = 1
    magics: tuple[Magic, ...] = ()

    def at(self, magic: Magic) -> Location:
        """The location of a magic of this cell."""
        return Location(self.file, magic.line)

    @property
    def padded(self) -> str:
        """The text after blank lines, so that its line numbers are those of the file."""
        return "\n" * (self.line - 1) + self.text


def read_notebook(text: str, suffix: str, name: str) -> tuple[Cell, ...] | None:
    """The cells of a notebook, or None for an ordinary file.

    Args:
        text: the file's.
        suffix: the end of its name, such as ``.py``.
        name: the file as the reader knows it.

    Raises:
        PipelineError: NOTEBOOK.UNREADABLE, NOTEBOOK.OLD_FORMAT or NOTEBOOK.LANGUAGE.
    """
    text = text.removeprefix("\ufeff")
    if suffix == JSON_SUFFIX:
        return tuple(_from_json(text, name))
    language = _SUFFIXES.get(suffix)
    lines = _lines(text)
    if language is None or not lines or lines[0].strip() != f"{_COMMENTS[language]} {_MARK}":
        return None
    return tuple(_from_source(lines, language, name))


def _from_source(lines: Sequence[str], language: Language, name: str) -> Iterator[Cell]:
    comment = _COMMENTS[language]
    ends = [at for at, line in enumerate(lines) if line.strip() == f"{comment} {_CELL_ENDS}"]
    begin = 1
    for end in (*ends, len(lines)):
        text = "\n".join(_source_line(line, comment) for line in lines[begin:end])
        if text.strip():
            yield _classified(Cell(language, text, name, begin + 1))
        begin = end + 1


def _source_line(line: str, comment: str) -> str:
    if line.startswith(f"{comment} {_TITLE} "):
        return ""
    mark = f"{comment} {_MAGIC}"
    if line == mark or line.startswith(f"{mark} "):
        return line[len(mark) + 1 :]
    return line


def _from_json(text: str, name: str) -> Iterator[Cell]:
    try:
        document = json.loads(text)
        form = document["nbformat"]
    except (ValueError, KeyError, TypeError) as error:
        reason = f"it is not JSON: {error}" if isinstance(error, ValueError) else "it has no nbformat"
        raise PipelineError("NOTEBOOK.UNREADABLE", location=Location(name), file=name, reason=reason) from error
    if not isinstance(form, int) or form < 4:
        raise PipelineError("NOTEBOOK.OLD_FORMAT", location=Location(name), file=name, form=form)
    cells = document.get("cells")
    if form > 4 or not isinstance(cells, list):
        reason = f"its nbformat is {form}, but only 4 is supported" if form > 4 else "it has no list of cells"
        raise PipelineError("NOTEBOOK.UNREADABLE", location=Location(name), file=name, reason=reason)
    language = _language(document.get("metadata") or {}, name)
    for number, cell in enumerate(cells, start=1):
        source = cell.get("source", "") if isinstance(cell, dict) else ""
        code = source if isinstance(source, str) else "".join(map(str, source))
        if isinstance(cell, dict) and cell.get("cell_type") == "code" and code.strip():
            yield _classified(Cell(language, code, cell_name(name, number)))


def _language(metadata: dict[str, Any], name: str) -> Language:
    """The language of cells without one of their own."""
    candidates = [
        (metadata.get(_METADATA) or {}).get("language"),
        (metadata.get("language_info") or {}).get("name"),
        (metadata.get("kernelspec") or {}).get("language"),
    ]
    language = next((str(word).lower() for word in candidates if word), Language.PYTHON.value)
    if language in ("python", "ipython", "python3"):
        return Language.PYTHON
    if language == "sql":
        return Language.SQL
    raise PipelineError("NOTEBOOK.LANGUAGE", location=Location(name), file=name, language=language)


def _classified(cell: Cell) -> Cell:
    """The cell in the language of its first line, with its magics removed from the text."""
    lines = _lines(cell.text)
    first = next(at for at, line in enumerate(lines) if line.strip())
    found = _CELL_MAGIC.match(lines[first])
    name = found["name"].lower() if found else ""
    language = _CELL_MAGICS.get(name)
    if found is None or language is None:
        # Lines such as %pip belong to Python, whatever the language of the notebook.
        starts_magic = _LINE_MAGIC.match(lines[first]) is not None
        return _python(replace(cell, language=Language.PYTHON)) if starts_magic else _in_own(cell)
    if language in (Language.PYTHON, Language.SQL):
        text = "\n".join((*lines[:first], found["rest"].strip(), *lines[first + 1 :]))
        code = replace(cell, language=language, text=text)
        return _python(code) if language is Language.PYTHON else code
    behind = "\n".join(lines[first + 1 :]) if language is Language.RUN else ""
    magic = Magic(name, found["rest"].strip(), cell.line + first)
    return replace(cell, language=language, text=behind, magics=(magic,))


def _in_own(cell: Cell) -> Cell:
    return _python(cell) if cell.language is Language.PYTHON else cell


def _python(cell: Cell) -> Cell:
    """A Python cell without its line magics: lines that start like one and that Python cannot parse."""
    lines = _lines(cell.text)
    magics: list[Magic] = []
    while any(_LINE_MAGIC.match(line) for line in lines):
        try:
            ast.parse("\n".join(lines))
        except SyntaxError as error:
            at = (error.lineno or 1) - 1
            found = _LINE_MAGIC.match(lines[at]) if at < len(lines) else None
            if found is None:
                break
            magics.append(Magic((found["name"] or "!").lower(), found["rest"].strip(), cell.line + at))
            lines[at] = ""
        except ValueError:
            break
        else:
            break
    return replace(cell, text="\n".join(lines), magics=tuple(sorted(magics, key=lambda magic: magic.line)))


def _lines(text: str) -> list[str]:
    """The lines as Python and SQL count them; str.splitlines also splits at a form feed."""
    return _LINE_END.split(text)
