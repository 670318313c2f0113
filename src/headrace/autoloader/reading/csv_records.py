"""Which lines of CSV are one record: those that a value in quotes goes on over, as RFC 4180 has it.

A quote that opens a value and does not close it in its line may be a slip, or the value goes on in the next lines. It
goes on where a later line closes it, which by itself has a quote where none belongs, and where no line between has such
a quote. Each line with a quote decides, so that no line is looked at again and again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from headrace.autoloader.reading.csv_lines import Dialect

_SPACES = re.compile(r"[ \t]*")


class _End(Enum):
    """How a line ends: outside of quotes, in a value that is open, or with a quote where none belongs."""

    CLOSED = 1
    OPEN = 2
    BROKEN = 3


class CsvRecords:
    """Finds the lines of records.

    Args:
        dialect: how values are separated and quoted.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._separator, self._quote = dialect.separator, dialect.quote
        self._escape = dialect.escape if dialect.escape != dialect.quote else ""
        self._trims = dialect.trims_left

    def end(self, lines: Sequence[str], begin: int) -> int | None:
        """The place behind the last line of the record that begins at a line; None where the lines do not tell."""
        if not self._quote or self._quote not in lines[begin] or self._ending(lines[begin]) is not _End.OPEN:
            return begin + 1
        for place in range(begin + 1, len(lines)):
            line = lines[place]
            if self._quote not in line:
                continue
            ending = self._ending(line, inside=True)
            if ending is _End.BROKEN or (ending is _End.CLOSED and self._ending(line) is _End.CLOSED):
                # What opened the value was a slip: this line is none of its own parts.
                return begin + 1
            if ending is _End.CLOSED:
                return place + 1
        return None

    def _ending(self, line: str, *, inside: bool = False) -> _End:
        at, broken = 0, False
        while True:
            if inside:
                end = self._closing(line, at)
                if end is None:
                    return _End.OPEN
                at = _SPACES.match(line, end).end()  # type: ignore[union-attr]  # it matches nothing, too
                if at < len(line) and not line.startswith(self._separator, at):
                    return _End.BROKEN
                inside = False
            else:
                begin = _SPACES.match(line, at).end() if self._trims else at  # type: ignore[union-attr]  # as above
                if line.startswith(self._quote, begin):
                    at, inside = begin + 1, True
                    continue
                end = line.find(self._separator, at)
                broken = broken or line.find(self._quote, at, len(line) if end < 0 else end) >= 0
                at = len(line) if end < 0 else end
            if at == len(line):
                return _End.BROKEN if broken else _End.CLOSED
            at += len(self._separator)

    def _closing(self, line: str, at: int) -> int | None:
        """The place behind the quote that closes a value; two in a row, or one behind an escape, close nothing."""
        while (place := line.find(self._quote, at)) >= 0:
            escapes = len(line[at:place]) - len(line[at:place].rstrip(self._escape)) if self._escape else 0
            if escapes % 2:
                at = place + 1
            elif line.startswith(self._quote, place + 1):
                at = place + 2
            else:
                return place + 1
        return None
