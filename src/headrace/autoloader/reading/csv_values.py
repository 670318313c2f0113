"""The values of a line of CSV, as univocity's ``CsvParser`` finds them, which Spark reads CSV with.

A value in quotes ends at the quote that a separator, spaces or the line's end follows; inside, the escape character
takes the next quote, or itself, as it is. A quote that something else follows makes the value stand with its quotes, up
to the next separator.
"""

from __future__ import annotations

from headrace.autoloader.reading.csv_characters import NONE, Letters, LineEnd
from headrace.autoloader.reading.csv_lines import SPACES, Dialect


class LineParser(Letters):
    """Finds the values of one line after the other, where the separator is one character.

    Args:
        dialect: how values are separated and quoted.
    """

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._values: list[str | None] = []

    def values(self, line: str) -> list[str | None]:
        """The values of a line that holds something: None where there is nothing, "" where it is in quotes.

        Law: lines that are given to one parser in the order of a file have the values that Spark finds in that file.
        """
        if self._quote not in line and self._splits:
            return [self._trimmed(value) or None for value in line.split(self._separator)]
        self._line, self._at = line, 0
        self._held, self._values = [], []
        try:
            self._next()
            self._record()
        except LineEnd:
            self._end()
        return self._values

    @property
    def _splits(self) -> bool:
        """Whether the values of a line without quotes are simply what is between its separators."""
        # A last value of nothing but spaces is another nothing where those at its end alone go.
        return self._before == NONE and (self._trims_left or not self._trims_right)

    def _trimmed(self, value: str) -> str:
        if self._trims_left:
            value = value.lstrip(SPACES)
        return value.rstrip(SPACES) if self._trims_right else value

    def _record(self) -> None:
        while True:
            while self._trims_left and self._letter <= " " and self._letter not in (self._separator, self._quote):
                self._next()
            if self._letter == self._separator:
                self._values.append(None)
            elif self._letter != self._quote:
                self._before, self._trims = NONE, self._trims_right
                self._hold_to(self._line.find(self._separator, self._at))
                self._add()
                # As where there is nothing at all.
                self._values[-1] = self._values[-1] or None
            elif not self._add_plain():
                self._before, self._unescaped, self._trims = NONE, False, False
                self._quoted()
                self._add()
            self._next()

    def _end(self) -> None:
        """Add the value that the line's end has cut off, be it nothing."""
        if self._letter == self._before == self._quote:
            # What came before goes on being that for the next line.
            self._add()
            return
        begun = self._before != NONE and self._letter != self._delimiter
        if self._letter == self._quote and not self._unescaped:
            self._held.append(self._quote)
        self._letter = self._before = NONE
        self._put_back()
        if begun or any(self._held):
            self._add()
        else:
            self._values.append(None)

    def _put_back(self) -> None:
        """Hold what looked like the beginning of a separator; one of one character has no beginning."""

    def _add(self) -> None:
        value = "".join(self._held)
        self._held = []
        self._values.append(value.rstrip(SPACES) if self._trims else value)

    def _add_plain(self) -> bool:
        """Add a value with nothing to see to between its quotes, if it is one, and a separator behind it."""
        end = self._line.find(self._quote, self._at)
        if end < 0 or self._line[end + 1 : end + 2] != self._separator or self._line[end - 1] == self._escape:
            return False
        value = self._line[self._at : end]
        if self._escape + self._escaped_escape in value:
            return False
        self._values.append(value)
        self._before, self._unescaped = NONE, False
        self._letter, self._at = self._separator, end + 2
        return True

    def _quoted(self) -> None:
        self._next()
        while self._before != self._quote or not (self._letter <= " " or self._letter == self._separator):
            if self._letter in (self._quote, self._escape):
                self._take_mark_in_quotes()
            elif self._before == self._quote:
                self._unescaped = True
                self._held += (self._quote, self._letter)
                self._before = self._letter
                self._rest()
                return
            else:
                self._take_letters()
        if self._letter != self._separator:
            self._spaces()

    def _spaces(self) -> None:
        """Pass over spaces behind a closing quote; it has closed nothing where more than a separator follows them."""
        begin = self._at - 1
        while self._letter <= " " and self._letter != self._separator:
            self._next()
        if self._letter != self._separator:
            self._held += (self._quote, self._line[begin : self._at])
            self._before = self._letter
            self._rest()
