"""Parse CSV lines with a separator of several characters, as univocity's ``CsvParser`` does.

Its steps differ from those for a single character: a partial separator is put back into the value.
"""

from __future__ import annotations

from headrace.autoloader.reading.csv.characters import NONE
from headrace.autoloader.reading.csv.lines import SPACES, Dialect
from headrace.autoloader.reading.csv.values import LineParser


def create_parser(dialect: Dialect) -> LineParser:
    """The line parser for a dialect."""
    return (LineParser if len(dialect.separator) == 1 else LongSeparatorParser)(dialect)


class LongSeparatorParser(LineParser):
    """Parses line after line, for a separator of more than one character.

    As in univocity, some state carries over: the last value of a line is trimmed as the last quoted value was.
    """

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        # After a stray quote, univocity looks for a separator of one character, in vain.
        self._delimiter = NONE
        self._matched = 0
        first, others = self._separator[0], self._separator[1:]
        # Otherwise a separator that begins inside a partial separator is not found.
        self._is_plain = first not in others or set(others) == {first}

    @property
    def _splits(self) -> bool:
        return self._is_plain and super()._splits and not (self._trims_left or self._matched)

    def _record(self) -> None:
        while True:
            if self._trims_left:
                self._skip_spaces()
            if self._is_separator():
                self._values.append(None)
            else:
                self._before, self._unescaped = NONE, False
                if self._character == self._quote and not self._buffer:
                    self._trims = False
                    self._quoted()
                else:
                    self._buffer_to_separator()
                    if self._trims_right:
                        self._buffer = ["".join(self._buffer).rstrip(SPACES)]
                self._add()
            self._next()

    def _skip_spaces(self) -> None:
        while self._character <= " " and self._character != self._quote:
            self._next()
            if self._character == self._separator[0] and self._is_separator():
                self._values.append(None)
                self._next()

    def _is_separator(self) -> bool:
        """Whether a separator begins here; move to its last character, or buffer a partial separator."""
        if self._is_separator_after_quote():
            return True
        self._put_back()
        return False

    def _is_separator_after_quote(self) -> bool:
        while self._character == self._separator[self._matched]:
            self._matched += 1
            if self._matched == len(self._separator):
                self._matched = 0
                return True
            self._next()
        return False

    def _put_back(self) -> None:
        if self._matched:
            self._buffer.append(self._separator[: self._matched])
            self._matched = 0

    def _buffer_to_separator(self) -> None:
        while not self._is_separator_after_quote():
            if self._matched:
                self._put_back()
            else:
                self._buffer.append(self._character)
                self._next()

    def _quoted(self) -> None:
        self._next()
        while self._before != self._quote or self._character > " ":
            if self._before == self._quote and self._is_separator():
                return
            if self._character in (self._quote, self._escape):
                self._take_mark_in_quotes()
            elif self._before == self._quote:
                self._unescaped = True
                self._buffer += (self._quote, self._character)
                self._before = self._character
                self._rest_to_separator()
                return
            else:
                self._take_characters()
        if not self._is_separator_after_quote():
            self._spaces()

    def _rest_to_separator(self) -> None:
        self._buffer.insert(0, self._quote)
        self._next()
        self._trims = self._trims_right
        self._buffer_to_separator()

    def _spaces(self) -> None:
        passed = ""
        while True:
            passed += self._character
            self._next()
            if self._is_separator_after_quote():
                return
            if self._character > " ":
                break
        if not self._is_separator_after_quote():
            self._buffer += (self._quote, passed, self._character)
            self._before = self._character
            self._rest()
