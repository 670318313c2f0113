"""What is looked at, piece by piece: the Python and the SQL of a file or a notebook, with the place of each line."""

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
# What notebooks add to Python: what is timed, what a magic or the system gives, other magics, and questions for help.
_TIMED = re.compile(
    r"(?P<before>\s*(?:[\w, ]+=\s*)?)(?P<magic>%{1,2}(?:time|timeit|prun|memit)\b\s*)(?P<code>[^\s-].*)"
)
_GIVEN = re.compile(r"(?P<before>\s*[\w, .\[\]]+=\s*)[!%].*")
_MAGIC = re.compile(r"\s*(?:%|!).*")
_HELP = re.compile(r"\s*(?:\?{1,2}[\w.*]+|[\w.*]+\?{1,2})\s*;?\s*(?:#.*)?")
_CELL_MAGIC = re.compile(r"\s*%%(?P<name>\w+)")
# Magics of a cell whose text is no program.
_OF_OTHER_TEXT = frozenset(
    ("writefile", "file", "html", "javascript", "js", "latex", "svg", "perl", "ruby", "bash", "sh", "script", "cmd")
)

# What only a reader has.
_READS = re.compile(r"\.\s*(?:load|schema|table|json|csv|parquet)\s*\(")

SUFFIXES = (JSON_SUFFIX, ".py", ".sql")


@dataclass(frozen=True)
class Text:
    """Lines of one language, in the order in which they run; ``places`` says where each of them is in the file.

    ``notebook`` is True for the cells of a notebook, which share their names and may find some ready-made; ``problems``
    says which of them are no Python, and left out.
    """

    language: Language
    lines: tuple[str, ...]
    places: tuple[Location, ...]
    notebook: bool = False
    problems: tuple[PipelineError, ...] = ()

    @cached_property
    def code(self) -> str:
        """All lines as one text."""
        return "\n".join(self.lines)

    def place(self, line: int) -> Location:
        """Where a line stands, which counts from 1."""
        return self.places[min(max(line, 1), len(self.places)) - 1] if self.places else Location("", line)

    def parsed(self) -> ast.Module:
        """The text as Python's own tree.

        Raises:
            PipelineError: FILE.SYNTAX.
        """
        try:
            return ast.parse(self.code)
        except (SyntaxError, ValueError) as error:
            raise _problem(error, self.place(_line_of(error))) from error

    def as_chain(self) -> Text | None:
        """The text as the rest of a chain, where it begins with a dot as pieces of documents do; None otherwise."""
        first = next((line.strip() for line in self.lines if line.strip() and not line.strip().startswith("#")), "")
        if self.notebook or not first.startswith("."):
            return None
        reads = _READS.search(self.code) is not None
        owner = "spark.readStream" if reads else "streaming_df.writeStream"
        lines, places = (f"({owner}", *self.lines, ")"), (self.places[0], *self.places, self.places[-1])
        return replace(self, lines=lines, places=places)


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
        (line, Location(cell.place, cell.line + at)) for cell, written, _ in cells for at, line in enumerate(written)
    ]
    problems = tuple(problem for _, _, problem in cells if problem is not None)
    texts, places = tuple(line for line, _ in lines), tuple(place for _, place in lines)
    return Text(Language.PYTHON, texts, places, notebook=True, problems=problems)


def _of_sql(cell: Cell) -> Text:
    lines = tuple(_LINE_END.split(cell.text))
    return Text(Language.SQL, lines, tuple(Location(cell.place, cell.line + at) for at in range(len(lines))), True)  # noqa: FBT003


def _plain(cell: Cell) -> tuple[Cell, list[str], PipelineError | None]:
    """The lines of a cell as Python has them, with what notebooks add left out; none where they are no Python."""
    lines = _LINE_END.split(cell.text)
    nothing = [""] * len(lines)
    begins = _CELL_MAGIC.match(cell.text)
    first = [begins["name"]] if begins is not None else []
    first += [magic.name for magic in cell.magics if not any(lines[: magic.line - cell.line])]
    if any(name in _OF_OTHER_TEXT for name in first):
        return cell, nothing, None
    magics = {magic.line - cell.line for magic in cell.magics}
    # Each turn makes one line plain.
    for _ in range(len(lines) + 1):
        try:
            ast.parse("\n".join(lines))
        except (SyntaxError, ValueError) as error:
            at = _line_of(error) - 1
            if not (_without_magic(lines, at) or _with_body(lines, at, magics)):
                return cell, nothing, _problem(error, Location(cell.place, cell.line + at))
        else:
            break
    return cell, lines, None


def _without_magic(lines: list[str], at: int) -> bool:
    """Make a line plain Python that is none for what notebooks add; whether it was such a line."""
    line = lines[at] if at < len(lines) else ""
    timed = _TIMED.fullmatch(line)
    if timed is not None:
        # What is timed stays where it is.
        lines[at] = timed["before"] + " " * len(timed["magic"]) + timed["code"]
    elif (given := _GIVEN.fullmatch(line)) is not None:
        lines[at] = f"{given['before']}None"
    elif _MAGIC.fullmatch(line) or _HELP.fullmatch(line):
        lines[at] = line[: len(line) - len(line.lstrip())] + "pass"
    else:
        return False
    return True


def _with_body(lines: list[str], at: int, magics: set[int]) -> bool:
    """Give a block something to do of which a magic was all; whether there was one above a line."""
    head = next((number for number in range(min(at, len(lines)) - 1, -1, -1) if lines[number].strip()), None)
    empty = head is not None and head + 1 in magics and lines[head].rstrip().endswith(":")
    if head is None or not empty or lines[head + 1].strip():
        return False
    lines[head + 1] = " " * (len(lines[head]) - len(lines[head].lstrip()) + 4) + "pass"
    return True
