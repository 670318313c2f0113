"""Read the characters of a CSV line into values: the steps that all separators share.

These are the steps of univocity's ``CsvParser``, which Spark uses. The result for lines with misplaced quotes depends
on these exact steps, so attributes and branches follow its order (2.9.1, ``STOP_AT_DELIMITER``).
"""

from __future__ import annotations

import re

from headrace.autoloader.reading.csv.lines import Dialect

# Means no quote, no escape, or a character that was already processed.
NONE = "\0"


class LineEnd(Exception):
    """There are no more characters."""


class CharacterReader:
    """A line, the current position, and the buffer of the current value.

    Args:
        dialect: how values are separated and quoted.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._separator = dialect.separator
        self._quote = dialect.quote or NONE
        self._escape = dialect.escape or NONE
        self._escaped_escape = NONE if self._escape == self._quote else self._escape
        self._trims_left = dialect.trims_left
        self._trims_right = dialect.trims_right
        self._marks = re.compile(f"[{re.escape(self._quote + self._escape + self._escaped_escape)}]")
        # What ends a value outside of quotes.
        self._delimiter = self._separator
        self._line, self._at = "", 0
        # The current character, the one before it, and the buffer of the current value.
        self._character, self._before = NONE, NONE
        self._buffer: list[str] = []
        # For the current value: whether to trim trailing spaces, and whether it has an unescaped quote.
        self._trims = False
        self._unescaped = False

    def _next(self) -> None:
        if self._at >= len(self._line):
            raise LineEnd
        self._character = self._line[self._at]
        self._at += 1

    def _buffer_to(self, end: int) -> None:
        """Buffer the line from the current character up to *end*, and move there; the rest if *end* is negative."""
        begin = self._at - 1
        if end < 0:
            self._buffer.append(self._line[begin:])
            self._at = len(self._line)
            raise LineEnd
        self._buffer.append(self._line[begin:end])
        self._character, self._at = self._line[end], end + 1

    def _take_characters(self) -> None:
        """Buffer characters up to the next quote or escape."""
        if self._before == self._escape != NONE:
            self._buffer.append(self._escape)
        mark = self._marks.search(self._line, self._at - 1)
        self._buffer_to(mark.start() if mark else -1)
        self._before = self._character
        self._next()

    def _take_mark_in_quotes(self) -> None:
        if not self._take_mark():
            self._buffer.append(self._quote)
            self._before = self._character
            self._escaped_rest()
        self._before = self._character
        self._next()

    def _take_mark(self) -> bool:
        """Process a quote or an escape; False for an escape after a quote that did not end the value."""
        if self._character == self._escape and self._before == self._escaped_escape != NONE:
            self._buffer.append(self._escape)
            self._character = NONE
        elif self._before == self._escape:
            if self._character == self._quote:
                self._buffer.append(self._quote)
                self._character = NONE
            else:
                self._buffer.append(self._before)
        elif self._before == self._quote:
            if self._character != self._quote:
                return False
            self._buffer.append(self._quote)
        return True

    def _rest(self) -> None:
        """Buffer everything up to the next separator, after a quote that did not open a value."""
        self._buffer.insert(0, self._quote)
        self._next()
        self._trims = self._trims_right
        self._buffer_to(self._line.find(self._delimiter, self._at - 1))

    def _escaped_rest(self) -> None:
        """Buffer up to the next separator and process escapes; each stray quote skips one more separator."""
        depth = 1
        while True:
            if self._character == self._delimiter:
                depth -= 1
                if not depth:
                    return
            elif self._character not in (self._quote, self._escape):
                if self._before == self._quote:
                    self._buffer.append(self._quote)
                self._buffer.append(self._character)
            elif not self._take_mark():
                self._buffer.append(self._quote)
                self._before = self._character
                depth += 1
                continue
            self._before = self._character
            self._next()
