"""Plain-text tables for a terminal or a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

from headrace.cli.printable import printable
from headrace.cli.terminal import folded, shortened
from headrace.model.rows import Rows, json_value

WIDEST_CELL = 60
_GAP = 2
# Texts are not shortened further: rows are printed as lists instead.
_NARROWEST = 8


def rows_table(rows: Rows, *, widest: int | None = None, width: int | None = None) -> str:
    """The rows as aligned columns, followed by their number; cells wider than *widest* end in an ellipsis."""
    count = len(rows.rows)
    table = text_table(rows.columns, rows.rows, widest=widest, width=width)
    return f"{table}\n({count} row{'' if count == 1 else 's'})"


def text_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, widest: int | None = None, width: int | None = None
) -> str:
    """Aligned columns with headers; numbers are right-aligned.

    Args:
        columns: the headers.
        rows: their values.
        widest: cells that are wider end in an ellipsis.
        width: the columns of the terminal. In a wider table, the widest texts are folded at words (unless *widest* is
            given) or lose their middles; numbers stay. If that is not enough, each row becomes a list of names and
            values. None for a table of any width.
    """
    values = [tuple(row) for row in rows]
    cells = [[_cut(cell_text(value), widest) for value in row] for row in values]
    names = [_cut(printable(name), widest) for name in columns]
    widths = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    numeric = [
        any(_is_number(row[i]) for row in values) and all(row[i] is None or _is_number(row[i]) for row in values)
        for i in range(len(names))
    ]
    if width is not None and not fits(widths, width):
        limit = _limit(widths, numeric, width)
        if limit is None:
            return _lists(names, [[cell_text(value) for value in row] for row in values])
        widths = [size if right else min(size, limit) for size, right in zip(widths, numeric, strict=True)]
    lines = [*_lines(names, widths, numeric), "  ".join("-" * size for size in widths)]
    for row in cells:
        lines += _lines(row, widths, numeric, folds=widest is None)
    return "\n".join(lines)


def fits(widths: Sequence[int], width: int) -> bool:
    """Whether columns of these widths fit into a line."""
    return sum(widths) + _GAP * (len(widths) - 1) <= width


def _limit(widths: Sequence[int], numeric: Sequence[bool], width: int) -> int | None:
    """The greatest width of texts with which the table fits; None if they would be too short."""
    for limit in range(width, _NARROWEST - 1, -1):
        if fits([size if right else min(size, limit) for size, right in zip(widths, numeric, strict=True)], width):
            return limit
    return None


def _lists(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Each row as lines of a name and a value."""
    size = max(map(cell_len, names))
    lines = []
    for number, row in enumerate(rows, 1):
        lines.append(f"-- row {number} --")
        lines += [f"{name}{' ' * (size - cell_len(name))}  {cell}" for name, cell in zip(names, row, strict=True)]
    return "\n".join(lines or [", ".join(names)])


def _lines(
    cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool], *, folds: bool = False
) -> Iterator[str]:
    """A row as lines: one, unless cells of several words are folded."""
    stacks = [_stack(cell, width, folds=folds) for cell, width in zip(cells, widths, strict=True)]
    for number in range(max(map(len, stacks))):
        padded = []
        for stack, width, right in zip(stacks, widths, numeric, strict=True):
            text = stack[number] if number < len(stack) else ""
            blanks = " " * (width - cell_len(text))
            padded.append(blanks + text if right else text + blanks)
        yield (" " * _GAP).join(padded).rstrip()


def _stack(cell: str, width: int, *, folds: bool) -> list[str]:
    pieces = [piece.strip() for piece in folded(cell, width).split("\n")] if folds else [cell]
    return [shortened(piece, width) for piece in pieces]


def cell_text(value: Any) -> str:
    """A value as one line of text; structs and maps as ``{name: value}``."""
    plain = json_value(value)
    if plain is None:
        return "null"
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, dict):
        return "{" + ", ".join(f"{printable(str(key))}: {cell_text(item)}" for key, item in plain.items()) + "}"
    if isinstance(plain, list):
        return "[" + ", ".join(map(cell_text, plain)) + "]"
    return printable(str(plain))


def _cut(text: str, widest: int | None) -> str:
    if widest is None or cell_len(text) <= widest:
        return text
    return set_cell_size(text, widest - 1).rstrip() + "…"


def _is_number(value: Any) -> bool:
    # Decimals count as numbers too; only in JSON they are text.
    return not isinstance(value, bool) and (isinstance(value, (int, float)) or hasattr(value, "as_tuple"))
