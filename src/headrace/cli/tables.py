"""Plain-text tables for a terminal or a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

from headrace.cli.printable import printable
from headrace.model.rows import Rows, json_value

WIDEST_CELL = 60


def rows_table(rows: Rows, *, widest: int | None = None) -> str:
    """The rows as aligned columns, followed by their number; cells wider than *widest* end in an ellipsis."""
    count = len(rows.rows)
    return f"{text_table(rows.columns, rows.rows, widest=widest)}\n({count} row{'' if count == 1 else 's'})"


def rows_within(rows: Rows, *, width: int, widest: int) -> str:
    """The rows as a table if it fits into *width*, otherwise one line for each value."""
    table = rows_table(rows, widest=widest)
    if max(map(cell_len, table.splitlines())) <= width:
        return table
    names = max(cell_len(printable(name)) for name in rows.columns)
    lines = []
    for number, row in enumerate(rows.rows, 1):
        lines.append(f"row {number}")
        values = zip(rows.columns, row, strict=True)
        lines += [f"  {printable(name):<{names}}  {_shortened(_cell(value), widest)}" for name, value in values]
    return "\n".join([*lines, table.splitlines()[-1]])


def text_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, widest: int | None = None) -> str:
    """Aligned columns with headers; numbers are right-aligned."""
    values = [tuple(row) for row in rows]
    cells = [[_shortened(_cell(value), widest) for value in row] for row in values]
    names = [_shortened(printable(name), widest) for name in columns]
    widths = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    numeric = [
        any(_is_number(row[i]) for row in values) and all(row[i] is None or _is_number(row[i]) for row in values)
        for i in range(len(names))
    ]
    lines = [_line(names, widths, numeric), "  ".join("-" * width for width in widths)]
    lines += [_line(row, widths, numeric) for row in cells]
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = [
        " " * (width - cell_len(cell)) + cell if right else cell + " " * (width - cell_len(cell))
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    ]
    return "  ".join(padded).rstrip()


def _cell(value: Any) -> str:
    plain = json_value(value)
    if plain is None:
        return "null"
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, dict):
        return "{" + ", ".join(f"{printable(str(key))}: {_cell(item)}" for key, item in plain.items()) + "}"
    if isinstance(plain, list):
        return "[" + ", ".join(map(_cell, plain)) + "]"
    return printable(str(plain))


def _shortened(text: str, widest: int | None) -> str:
    if widest is None or cell_len(text) <= widest:
        return text
    return set_cell_size(text, widest - 1).rstrip() + "…"


def _is_number(value: Any) -> bool:
    # Decimals count as numbers too; only in JSON they are text.
    return not isinstance(value, bool) and (isinstance(value, (int, float)) or hasattr(value, "as_tuple"))
