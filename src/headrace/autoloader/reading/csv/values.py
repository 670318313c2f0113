"""Parse the values of CSV lines, as univocity's ``CsvParser``, which Spark uses.

A quoted value ends at a quote that is followed by a separator, spaces or the line's end; inside, the escape character
escapes a quote or itself. If something else follows a quote, the value keeps its quotes, up to the next separator.
"""

from __future__ import annotations

from headrace.autoloader.reading.csv.characters import NONE, CharacterReader, LineEnd
from headrace.autoloader.reading.csv.lines import SPACES, Dialect


class LineParser(CharacterReader):
    """Parses line after line, for a separator of one character.

    Args:
        dialect: how values are separated and quoted.
    """

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._values: list[str | None] = []

    def values(self, line: str) -> list[str | None]:
        """The values of a line that is not blank: None for an empty value, "" for an empty quoted value.

        Law: for the lines of a file in order, one parser gives the values that Spark reads from that file.
        """
        if self._quote not in line and self._splits:
            return [self._trimmed(value) or None for value in line.split(self._separator)]
        self._line, self._at = line, 0
        self._buffer, self._values = [], []
        try:
            self._next()
            self._record()
        except LineEnd:
            self._end()
        return self._values

    @property
    def _splits(self) -> bool:
        """Whether a line without quotes can simply be split at its separators."""
        # With trailing trimming only, a last value of spaces is "" and not None.
        return self._before == NONE and (self._trims_left or not self._trims_right)

    def _trimmed(self, value: str) -> str:
        if self._trims_left:
            value = value.lstrip(SPACES)
        return value.rstrip(SPACES) if self._trims_right else value

    def _record(self) -> None:
        while True:
            while self._trims_left and self._character <= " " and self._character not in (self._separator, self._quote):
                self._next()
            if self._character == self._separator:
                self._values.append(None)
            elif self._character != self._quote:
                self._before, self._trims = NONE, self._trims_right
                self._buffer_to(self._line.find(self._separator, self._at))
                self._add()
                # The same as an empty value.
                self._values[-1] = self._values[-1] or None
            elif not self._add_plain():
                self._before, self._unescaped, self._trims = NONE, False, False
                self._quoted()
                self._add()
            self._next()

    def _end(self) -> None:
        """Add the last value, which the line's end terminates; it may be empty."""
        if self._character == self._before == self._quote:
            # The previous character is kept for the next line.
            self._add()
            return
        has_begun = self._before != NONE and self._character != self._delimiter
        if self._character == self._quote and not self._unescaped:
            self._buffer.append(self._quote)
        self._character = self._before = NONE
        self._put_back()
        if has_begun or any(self._buffer):
            self._add()
        else:
            self._values.append(None)

    def _put_back(self) -> None:
        """Buffer a partial separator; a separator of one character has none."""

    def _add(self) -> None:
        value = "".join(self._buffer)
        self._buffer = []
        self._values.append(value.rstrip(SPACES) if self._trims else value)

    def _add_plain(self) -> bool:
        """Add a quoted value without escapes that a separator follows; False if it is not one."""
        end = self._line.find(self._quote, self._at)
        if end < 0 or self._line[end + 1 : end + 2] != self._separator or self._line[end - 1] == self._escape:
            return False
        value = self._line[self._at : end]
        if self._escape + self._escaped_escape in value:
            return False
        self._values.append(value)
        self._before, self._unescaped = NONE, False
        self._character, self._at = self._separator, end + 2
        return True

    def _quoted(self) -> None:
        self._next()
        while self._before != self._quote or not (self._character <= " " or self._character == self._separator):
            if self._character in (self._quote, self._escape):
                self._take_mark_in_quotes()
            elif self._before == self._quote:
                self._unescaped = True
                self._buffer += (self._quote, self._character)
                self._before = self._character
                self._rest()
                return
            else:
                self._take_characters()
        if self._character != self._separator:
            self._spaces()

    def _spaces(self) -> None:
        """Skip spaces after a closing quote; if more than a separator follows, the quote did not close the value."""
        begin = self._at - 1
        while self._character <= " " and self._character != self._separator:
            self._next()
        if self._character != self._separator:
            self._buffer += (self._quote, self._line[begin : self._at])
            self._before = self._character
            self._rest()
