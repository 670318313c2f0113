"""Find the lines of a CSV record: a quoted value can span lines, as in RFC 4180.

An opening quote without a closing one on its line is either a stray quote, or the value continues on the next lines. It
continues if a later line closes it and has a stray quote when read on its own, and no line between has a stray quote.
Each line with a quote decides, so no line is examined repeatedly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from headrace.autoloader.reading.csv.lines import Dialect

_SPACES = re.compile(r"[ \t]*")


class _LineState(Enum):
    """The state at the end of a line: outside of quotes, inside an open value, or with a stray quote."""

    CLOSED = 1
    OPEN = 2
    STRAY_QUOTE = 3


class CsvRecords:
    """Finds the lines of records.

    Args:
        dialect: how values are separated and quoted.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._separator, self._quote = dialect.separator, dialect.quote
        self._escape = dialect.escape if dialect.escape != dialect.quote else ""
        self._trims = dialect.trims_left

    def end(self, lines: Sequence[str], first: int) -> int | None:
        """The line number after the record that begins at line *first*; None if more lines are needed to tell."""
        if not self._quote or self._quote not in lines[first] or self._line_state(lines[first]) is not _LineState.OPEN:
            return first + 1
        for number in range(first + 1, len(lines)):
            line = lines[number]
            if self._quote not in line:
                continue
            state = self._line_state(line, inside=True)
            if state is _LineState.STRAY_QUOTE or (
                state is _LineState.CLOSED and self._line_state(line) is _LineState.CLOSED
            ):
                # The opening quote was stray: this line is not part of that record.
                return first + 1
            if state is _LineState.CLOSED:
                return number + 1
        return None

    def _line_state(self, line: str, *, inside: bool = False) -> _LineState:
        at, has_stray_quote = 0, False
        while True:
            if inside:
                end = self._after_closing_quote(line, at)
                if end is None:
                    return _LineState.OPEN
                at = _SPACES.match(line, end).end()  # type: ignore[union-attr]  # it matches nothing, too
                if at < len(line) and not line.startswith(self._separator, at):
                    return _LineState.STRAY_QUOTE
                inside = False
            else:
                start = _SPACES.match(line, at).end() if self._trims else at  # type: ignore[union-attr]  # as above
                if line.startswith(self._quote, start):
                    at, inside = start + 1, True
                    continue
                end = line.find(self._separator, at)
                has_stray_quote = has_stray_quote or line.find(self._quote, at, len(line) if end < 0 else end) >= 0
                at = len(line) if end < 0 else end
            if at == len(line):
                return _LineState.STRAY_QUOTE if has_stray_quote else _LineState.CLOSED
            at += len(self._separator)

    def _after_closing_quote(self, line: str, at: int) -> int | None:
        """The position after the closing quote; doubled and escaped quotes do not close; None without one."""
        while (position := line.find(self._quote, at)) >= 0:
            escapes = len(line[at:position]) - len(line[at:position].rstrip(self._escape)) if self._escape else 0
            if escapes % 2:
                at = position + 1
            elif line.startswith(self._quote, position + 1):
                at = position + 2
            else:
                return position + 1
        return None
