"""Locations in the user's files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

# Cells of a JSON notebook have no lines in the file, so each counts as a file with this name.
_CELL = re.compile(r"(?P<file>.+\.ipynb) cell (?P<cell>\d+)", re.DOTALL)


@dataclass(frozen=True, order=True)
class Location:
    """A file, relative to the project if possible, and a line number from 1 (0: the whole file).

    In a notebook cell, ``file`` is the result of :func:`cell_name`, and the line counts within the cell.
    """

    file: str
    line: int = 0

    def __str__(self) -> str:
        if split_cell(self.file)[1]:
            return f"{self.file} line {self.line}" if self.line else self.file
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def reading_order(self) -> tuple[str, int, int]:
        """The sort key: file, cell, line."""
        return (*split_cell(self.file), self.line)

    def to_json(self) -> dict[str, Any]:
        """The location as ``{"file", "line"}``, with ``"cell"`` in a notebook; line null means the whole file."""
        file, cell = split_cell(self.file)
        return {"file": file, **({"cell": cell} if cell else {}), "line": self.line or None}


def cell_name(file: str, number: int) -> str:
    """The name of a notebook cell in place of a file; cells count from 1."""
    return f"{file} cell {number}"


def split_cell(name: str) -> tuple[str, int]:
    """The file of a file name or cell name, and the number of the cell, or 0."""
    found = _CELL.fullmatch(name)
    return (found["file"], int(found["cell"])) if found else (name, 0)
