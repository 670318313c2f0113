"""The blocks of a document: fenced blocks, notebook cells, and unfenced pieces given by their lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*) *$")
_CELL = re.compile(r"^In \[.*\]:$")
# Ends a cell; a Python comment has a single `#` and is part of the cell.
_HEADING = re.compile(r"^#{2,} ")
_LIKE_CODE = re.compile(
    r"^\s*(\.\w+\(|from [\w.]+ import |import \w|def \w+\(|class \w+[(:]|@\w|return\b|\w+ = |spark\.|\)$|SELECT\b)"
)


@dataclass(frozen=True)
class Block:
    """A piece of a document that may be code.

    Attributes:
        document: the document's number.
        ordinal: the number of the block, from 1, in the order of the lines.
        line: the number of its first line of text.
        form: ``fence``, ``cell`` or ``lines``.
        language: the language of the fence; ``python`` for a cell.
        text: the text without its fence.
    """

    document: str
    ordinal: int
    line: int
    form: str
    language: str
    text: str

    @property
    def name(self) -> str:
        """The name of the block in the mapping and the results."""
        return f"{self.document}-{self.ordinal:02}"

    @property
    def digest(self) -> str:
        """The digest of the text."""
        return sha256(self.text.encode()).hexdigest()[:12]

    @property
    def parses(self) -> bool:
        """Whether it is Python that parses."""
        if self.language != "python":
            return False
        try:
            ast.parse(self.text)
        except SyntaxError:
            return False
        return True


@dataclass(frozen=True)
class Lines:
    """Lines of a document that form a block without a fence, counted from 1, including the last."""

    first: int
    last: int
    language: str = "python"


def blocks_of(document: str, text: str, pieces: Sequence[Lines] = ()) -> list[Block]:
    """Every block of a document, in the order of its lines.

    Args:
        document: the document's number.
        text: the whole text.
        pieces: blocks without a fence.

    Raises:
        ValueError: a fence is not closed, or a piece overlaps another block or lies outside the document.
    """
    lines = text.split("\n")
    taken: dict[int, str] = {}
    found: list[tuple[int, str, str, Sequence[str]]] = []
    for first, form, language, content in (*_fences(lines), *_cells(lines), *_pieces(lines, pieces)):
        for number in range(first, first + len(content)):
            if number in taken:
                raise ValueError(f"line {number + 1} is in a {taken[number]} and in {form}")
            taken[number] = form
        found.append((first, form, language, content))
    return [
        Block(document, ordinal, first + 1, form, language, "\n".join(content))
        for ordinal, (first, form, language, content) in enumerate(sorted(found), 1)
    ]


def code_outside(text: str, blocks: Iterable[Block]) -> list[int]:
    """The numbers, from 1, of lines that look like code but are in no block."""
    inside = {line for block in blocks for line in range(block.line, block.line + block.text.count("\n") + 1)}
    lines = enumerate(text.split("\n"), 1)
    return [number for number, line in lines if number not in inside and _LIKE_CODE.match(line)]


def _fences(lines: Sequence[str]) -> Iterator[tuple[int, str, str, Sequence[str]]]:
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if opened is None:
            opened = number + 1, fence["language"]
        else:
            yield opened[0], "fence", opened[1], lines[opened[0] : number]
            opened = None
    if opened is not None:
        raise ValueError(f"the fence at line {opened[0]} is not closed")


def _cells(lines: Sequence[str]) -> Iterator[tuple[int, str, str, Sequence[str]]]:
    starts = [number + 1 for number, line in enumerate(lines) if _CELL.match(line)]
    for start in starts:
        end = start
        while end < len(lines) and not _CELL.match(lines[end]) and not _HEADING.match(lines[end]):
            end += 1
        while end > start and not lines[end - 1].strip():
            end -= 1
        yield start, "cell", "python", lines[start:end]


def _pieces(lines: Sequence[str], pieces: Iterable[Lines]) -> Iterator[tuple[int, str, str, Sequence[str]]]:
    for piece in pieces:
        if not 1 <= piece.first <= piece.last <= len(lines):
            raise ValueError(f"there are no lines {piece.first} to {piece.last}")
        yield piece.first - 1, "lines", piece.language, lines[piece.first - 1 : piece.last]
