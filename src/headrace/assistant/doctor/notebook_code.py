"""The Python code of a notebook, line for line where its file has it, so that edits name lines of the file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.assistant.doctor.findings import lines_of
from headrace.errors import PipelineError
from headrace.model.location import Location, split_cell
from headrace.notebooks import JSON_SUFFIX, Language, read_notebook


@dataclass(frozen=True)
class NotebookCode:
    """The code of the Python cells, without magics.

    Attributes:
        text: as many lines as the file; lines that are no code are empty.
        lines: by number of the cell and line in it, the line of the file, for notebooks in JSON.
    """

    text: str
    lines: Mapping[tuple[int, int], int] = field(default_factory=dict)

    def line_at(self, location: Location) -> int | None:
        """The line of the file for a location; None if the file does not show it as a line."""
        _, number = split_cell(location.file)
        return self.lines.get((number, location.line)) if number else location.line


def notebook_code(text: str, name: str) -> NotebookCode | None:
    """The code of a notebook; None for an ordinary file, and for one that cannot be read as a notebook."""
    try:
        cells = read_notebook(text, f".{name.rpartition('.')[2]}", name)
    except PipelineError:
        return None
    if cells is None:
        return None
    code = [cell for cell in cells if cell.language is Language.PYTHON]
    found = [""] * len(lines_of(text))
    if not name.endswith(JSON_SUFFIX):
        for cell in code:
            for at, of_cell in enumerate(lines_of(cell.text), cell.line):
                found[at - 1] = of_cell
        return NotebookCode("\n".join(found))
    places = dict(_places(text))
    for cell in code:
        _, number = split_cell(cell.file)
        if any((number, line) not in places for line in range(1, len(lines_of(cell.text)) + 1)):
            continue
        for line, of_cell in enumerate(lines_of(cell.text), 1):
            found[places[number, line] - 1] = of_cell
    return NotebookCode("\n".join(found), places)


def encoded_line(written: str, code: str, changed: str) -> str | None:
    """A line of a notebook in JSON with other code; None if its code is not what the line has."""
    begin, end = written.find('"'), written.rfind('"') + 1
    try:
        value = json.loads(written[begin:end])
    except ValueError:
        return None
    if not isinstance(value, str) or value.removesuffix("\n") != code:
        return None
    line_end = value[len(code) :]
    return f"{written[:begin]}{json.dumps(changed + line_end, ensure_ascii=written.isascii())}{written[end:]}"


def _places(text: str) -> Iterator[tuple[tuple[int, int], int]]:
    """The lines of the file that each have one line of a cell, as editors write notebooks."""
    written = [_string(line) for line in lines_of(text)]
    position = 0
    for number, cell in enumerate(json.loads(text)["cells"], 1):
        source = cell.get("source") if isinstance(cell, dict) else None
        if not isinstance(source, list) or not source:
            continue
        begin = next((at for at in range(position, len(written)) if written[at : at + len(source)] == source), None)
        if begin is None:
            return
        position = begin + len(source)
        yield from (((number, line), begin + line) for line in range(1, len(source) + 1))


def _string(line: str) -> Any:
    try:
        return json.loads(line.strip().removesuffix(","))
    except ValueError:
        return None
