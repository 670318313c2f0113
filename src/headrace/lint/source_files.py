"""Splits a file or notebook into pieces of Python and SQL, with the location of each line."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from headrace.errors import PipelineError
from headrace.model.location import Location
from headrace.notebooks import JSON_SUFFIX, Cell, Language, read_notebook

_LINE_END = re.compile(r"\r\n|\r|\n")
# Notebook syntax in Python: timed code, assigned magics and commands, other magics, and help queries.
_TIMED = re.compile(
    r"(?P<before>\s*(?:[\w, ]+=\s*)?)(?P<magic>%{1,2}(?:time|timeit|prun|memit)\b\s*)(?P<code>[^\s-].*)"
)
_GIVEN = re.compile(r"(?P<before>\s*[\w, .\[\]]+=\s*)[!%].*")
_MAGIC = re.compile(r"\s*(?:%|!).*")
_HELP = re.compile(r"\s*(?:\?{1,2}[\w.*]+|[\w.*]+\?{1,2})\s*;?\s*(?:#.*)?")
_CELL_MAGIC = re.compile(r"\s*%%(?P<name>\w+)")
# Magics of cells whose text is not Python or SQL.
_OF_OTHER_TEXT = frozenset(
    ("writefile", "file", "html", "javascript", "js", "latex", "svg", "perl", "ruby", "bash", "sh", "script", "cmd")
)

# Calls that only a reader has.
_READS = re.compile(r"\.\s*(?:load|schema|table|json|csv|parquet)\s*\(")

SUFFIXES = (JSON_SUFFIX, ".py", ".sql")


@dataclass(frozen=True)
class Text:
    """Lines of one language in execution order; ``locations`` has the location of each.

    ``notebook`` is True for the cells of a notebook, which share their names and have some predefined; ``problems``
    lists the cells that are not valid Python and are left out.
    """

    language: Language
    lines: tuple[str, ...]
    locations: tuple[Location, ...]
    notebook: bool = False
    problems: tuple[PipelineError, ...] = ()

    @cached_property
    def code(self) -> str:
        """All lines as one text."""
        return "\n".join(self.lines)

    def location(self, line: int) -> Location:
        """The location of a line, counted from 1."""
        return self.locations[min(max(line, 1), len(self.locations)) - 1] if self.locations else Location("", line)

    def parsed(self) -> ast.Module:
        """The text as a syntax tree.

        Raises:
            PipelineError: FILE.SYNTAX.
        """
        try:
            return ast.parse(self.code)
        except (SyntaxError, ValueError) as error:
            raise _problem(error, self.location(_line_of(error))) from error

    def as_chain(self) -> Text | None:
        """The text completed to a method chain if it begins with a dot, as snippets of docs do; otherwise None."""
        first = next((line.strip() for line in self.lines if line.strip() and not line.strip().startswith("#")), "")
        if self.notebook or not first.startswith("."):
            return None
        reads = _READS.search(self.code) is not None
        owner = "spark.readStream" if reads else "streaming_df.writeStream"
        lines, locations = (f"({owner}", *self.lines, ")"), (self.locations[0], *self.locations, self.locations[-1])
        return replace(self, lines=lines, locations=locations)


def texts_of(text: str, suffix: str, name: str) -> tuple[Text, ...]:
    """The pieces of a file: its Python, and each piece of SQL.

    Args:
        text: the file's.
        suffix: the end of its name, one of ``SUFFIXES``.
        name: the file as the reader knows it.

    Raises:
        PipelineError: NOTEBOOK.*: it is a notebook that cannot be read.
    """
    cells = read_notebook(text, suffix, name)
    if cells is not None:
        python = (cell for cell in cells if cell.language is Language.PYTHON)
        sql = (cell for cell in cells if cell.language is Language.SQL)
        return _of([_plain(cell) for cell in python]), *(_of_sql(cell) for cell in sql)
    language = Language.SQL if suffix == ".sql" else Language.PYTHON
    lines = tuple(_LINE_END.split(text.removeprefix("\ufeff")))
    return (Text(language, lines, tuple(Location(name, number) for number in range(1, len(lines) + 1))),)


def _problem(error: Exception, place: Location) -> PipelineError:
    return PipelineError("FILE.SYNTAX", location=place, reason=getattr(error, "msg", None) or error)


def _line_of(error: Exception) -> int:
    return getattr(error, "lineno", None) or 1


def _of(cells: Sequence[tuple[Cell, list[str], PipelineError | None]]) -> Text:
    """The cells in Python as one text."""
    lines = [
        (line, Location(cell.file, cell.line + at)) for cell, written, _ in cells for at, line in enumerate(written)
    ]
    problems = tuple(problem for _, _, problem in cells if problem is not None)
    texts, locations = tuple(line for line, _ in lines), tuple(place for _, place in lines)
    return Text(Language.PYTHON, texts, locations, notebook=True, problems=problems)


def _of_sql(cell: Cell) -> Text:
    lines = tuple(_LINE_END.split(cell.text))
    return Text(Language.SQL, lines, tuple(Location(cell.file, cell.line + at) for at in range(len(lines))), True)  # noqa: FBT003


def _plain(cell: Cell) -> tuple[Cell, list[str], PipelineError | None]:
    """The lines of a cell as plain Python, without notebook syntax; blank lines if they are not valid Python."""
    lines = _LINE_END.split(cell.text)
    nothing = [""] * len(lines)
    begins = _CELL_MAGIC.match(cell.text)
    first = [begins["name"]] if begins is not None else []
    first += [magic.name for magic in cell.magics if not any(lines[: magic.line - cell.line])]
    if any(name in _OF_OTHER_TEXT for name in first):
        return cell, nothing, None
    magics = {magic.line - cell.line for magic in cell.magics}
    # Each iteration fixes one line.
    for _ in range(len(lines) + 1):
        try:
            ast.parse("\n".join(lines))
        except (SyntaxError, ValueError) as error:
            at = _line_of(error) - 1
            if not (_without_magic(lines, at) or _with_body(lines, at, magics)):
                return cell, nothing, _problem(error, Location(cell.file, cell.line + at))
        else:
            break
    return cell, lines, None


def _without_magic(lines: list[str], at: int) -> bool:
    """Turn a line with notebook syntax into plain Python; returns whether it was one."""
    line = lines[at] if at < len(lines) else ""
    timed = _TIMED.fullmatch(line)
    if timed is not None:
        # Timed code keeps its column.
        lines[at] = timed["before"] + " " * len(timed["magic"]) + timed["code"]
    elif (given := _GIVEN.fullmatch(line)) is not None:
        lines[at] = f"{given['before']}None"
    elif _MAGIC.fullmatch(line) or _HELP.fullmatch(line):
        lines[at] = line[: len(line) - len(line.lstrip())] + "pass"
    else:
        return False
    return True


def _with_body(lines: list[str], at: int, magics: set[int]) -> bool:
    """Add ``pass`` to a block whose only line was a magic; returns whether there was one above a line."""
    head = next((number for number in range(min(at, len(lines)) - 1, -1, -1) if lines[number].strip()), None)
    empty = head is not None and head + 1 in magics and lines[head].rstrip().endswith(":")
    if head is None or not empty or lines[head + 1].strip():
        return False
    lines[head + 1] = " " * (len(lines[head]) - len(lines[head].lstrip()) + 4) + "pass"
    return True
