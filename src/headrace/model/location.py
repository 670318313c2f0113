"""Where in the user's files something was written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

# Cells of a notebook in JSON have no lines of the file's own, so each is a file of its own by this name.
_CELL = re.compile(r"(?P<file>.+\.ipynb) cell (?P<cell>\d+)", re.DOTALL)


@dataclass(frozen=True, order=True)
class Location:
    """A file, relative to the project where possible, and a line that counts from 1 (0: the whole file).

    In a cell of a notebook ``file`` is what :func:`cell_name` gives, and the line counts in the cell.
    """

    file: str
    line: int = 0

    def __str__(self) -> str:
        if split_cell(self.file)[1]:
            return f"{self.file} line {self.line}" if self.line else self.file
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def reading_order(self) -> tuple[str, int, int]:
        """What places are sorted by: file, cell, line."""
        return (*split_cell(self.file), self.line)

    def to_json(self) -> dict[str, Any]:
        """The place as ``{"file", "line"}``, and ``"cell"`` in a notebook; line null: the whole file is meant."""
        file, cell = split_cell(self.file)
        return {"file": file, **({"cell": cell} if cell else {}), "line": self.line or None}


def cell_name(file: str, number: int) -> str:
    """What a cell of a notebook is called where a file is; cells count from 1."""
    return f"{file} cell {number}"


def split_cell(name: str) -> tuple[str, int]:
    """The file behind the name of a file or a cell, and the number of the cell, or 0."""
    found = _CELL.fullmatch(name)
    return (found["file"], int(found["cell"])) if found else (name, 0)
