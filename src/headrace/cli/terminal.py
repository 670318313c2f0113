"""Fits text to a terminal: folds lines at words, and shortens names in the middle.

Only a terminal has a width. In a pipe or a file, lines stay whole, so that programs can read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

if TYPE_CHECKING:
    from rich.console import Console

_ELLIPSIS = "…"
# Where the text after a label or after columns starts, if it starts so early.
_COLUMN = re.compile(r"(?<=\S) {2,}(?=\S)")
_LABEL = re.compile(r" +(?:= )?[\w-]+: ")
_LAST_COLUMN = 44
_CONTINUATION = 4
# A command in backticks is copied, so it is not divided.
_WORD = re.compile(r" *(?:`[^`]*`|[^ ])+")


def terminal_width(stream: IO[str]) -> int | None:
    """The columns of the terminal that *stream* prints to; None if it is no terminal."""
    if not stream.isatty():
        return None
    from rich.console import Console  # noqa: PLC0415 - slow to import, and pipes need none of it

    return Console(file=stream).width


def width_of(console: Console) -> int | None:
    """The columns of the terminal of a console; None if it prints to something else."""
    return console.width if console.file.isatty() else None


def folded(text: str, width: int | None) -> str:
    """The text with long lines folded at words.

    What follows a label or a column is indented to it. A single word that is longer than a line, such as a path, stays
    whole, so that it can be copied, and so do commands in backticks. Without a width, the text stays as it is.
    """
    if width is None:
        return text
    return "\n".join(piece for line in text.split("\n") for piece in _pieces(line, width))


def shortened(text: str, width: int) -> str:
    """The text in at most *width* columns: without its middle, because the ends tell names and paths apart."""
    if cell_len(text) <= width:
        return text
    head = width // 2
    tail = ""
    for char in reversed(text):
        if cell_len(char + tail) > width - head - 1:
            break
        tail = char + tail
    # Half of a wide character becomes a blank.
    return set_cell_size(text, head).rstrip() + _ELLIPSIS + tail.lstrip()


def _pieces(line: str, width: int) -> Iterator[str]:
    if cell_len(line) <= width:
        yield line
        return
    margin = " " * _indent(line, width)
    piece = ""
    for word in _WORD.findall(line):
        if piece.strip() and cell_len(piece + word) > width:
            yield piece
            piece = margin + word.lstrip()
        else:
            piece += word
    yield piece


def _indent(line: str, width: int) -> int:
    """The indentation of the lines that continue a line."""
    columns = [match.end() for match in _COLUMN.finditer(line, 0, min(_LAST_COLUMN, width // 2))]
    label = _LABEL.match(line)
    if columns:
        return cell_len(line[: columns[-1]])
    return label.end() if label else len(line) - len(line.lstrip(" ")) + _CONTINUATION
