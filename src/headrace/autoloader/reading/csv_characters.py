"""The letters of a line of CSV, and what is taken of them for a value: steps that all separators share.

They are those of univocity's ``CsvParser``, which Spark reads CSV with: what becomes of lines whose quotes are not as
they should be follows from its steps alone, so attributes and branches stand in its order (2.9.1,
``STOP_AT_DELIMITER``).
"""

from __future__ import annotations

import re

from headrace.autoloader.reading.csv_lines import Dialect

# Stands for no quote and no escape, and for a letter that has been dealt with.
NONE = "\0"


class LineEnd(Exception):
    """There are no more letters."""


class Letters:
    """A line, how far it has been read, and what is held of the value at hand.

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
        # Where what stands outside of quotes ends.
        self._delimiter = self._separator
        self._line, self._at = "", 0
        # The letter that is looked at, the one before it, and what has been taken of the value.
        self._letter, self._before = NONE, NONE
        self._held: list[str] = []
        # Of the value at hand: whether spaces at its end go, and whether a quote in it ended nothing.
        self._trims = False
        self._unescaped = False

    def _next(self) -> None:
        if self._at >= len(self._line):
            raise LineEnd
        self._letter = self._line[self._at]
        self._at += 1

    def _hold_to(self, end: int) -> None:
        """Hold the letter that is looked at and all up to a place, and look at that; all there is, if it is none."""
        begin = self._at - 1
        if end < 0:
            self._held.append(self._line[begin:])
            self._at = len(self._line)
            raise LineEnd
        self._held.append(self._line[begin:end])
        self._letter, self._at = self._line[end], end + 1

    def _take_letters(self) -> None:
        """Take what is neither quote nor escape, up to the next one."""
        if self._before == self._escape != NONE:
            self._held.append(self._escape)
        mark = self._marks.search(self._line, self._at - 1)
        self._hold_to(mark.start() if mark else -1)
        self._before = self._letter
        self._next()

    def _take_mark_in_quotes(self) -> None:
        if not self._take_mark():
            self._held.append(self._quote)
            self._before = self._letter
            self._escaped_rest()
        self._before = self._letter
        self._next()

    def _take_mark(self) -> bool:
        """Take a quote or an escape; False where it is an escape behind a quote that ended nothing."""
        if self._letter == self._escape and self._before == self._escaped_escape != NONE:
            self._held.append(self._escape)
            self._letter = NONE
        elif self._before == self._escape:
            if self._letter == self._quote:
                self._held.append(self._quote)
                self._letter = NONE
            else:
                self._held.append(self._before)
        elif self._before == self._quote:
            if self._letter != self._quote:
                return False
            self._held.append(self._quote)
        return True

    def _rest(self) -> None:
        """Hold what there is up to the next separator, behind a quote that has opened nothing."""
        self._held.insert(0, self._quote)
        self._next()
        self._trims = self._trims_right
        self._hold_to(self._line.find(self._delimiter, self._at - 1))

    def _escaped_rest(self) -> None:
        """Hold what there is up to the next separator, escapes seen to; each quote that ends nothing takes one more."""
        depth = 1
        while True:
            if self._letter == self._delimiter:
                depth -= 1
                if not depth:
                    return
            elif self._letter not in (self._quote, self._escape):
                if self._before == self._quote:
                    self._held.append(self._quote)
                self._held.append(self._letter)
            elif not self._take_mark():
                self._held.append(self._quote)
                self._before = self._letter
                depth += 1
                continue
            self._before = self._letter
            self._next()
