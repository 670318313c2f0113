"""The values of a line of CSV whose separator has several characters, as univocity's ``CsvParser`` finds them.

Its steps are others than for a separator of one: what looks like the beginning of a separator is put back as it goes.
"""

from __future__ import annotations

from headrace.autoloader.reading.csv_characters import NONE
from headrace.autoloader.reading.csv_lines import SPACES, Dialect
from headrace.autoloader.reading.csv_values import LineParser


def parser_of(dialect: Dialect) -> LineParser:
    """What finds the values of the lines of one file, whatever separates them."""
    return (LineParser if len(dialect.separator) == 1 else LongSeparatorParser)(dialect)


class LongSeparatorParser(LineParser):
    """Finds the values of one line after the other, where the separator is more than one character.

    There, some state goes from line to line: the last value of a line is trimmed as the last one in quotes was.
    """

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        # Past a quote that ends nothing, that parser looks for a separator of one character, and there is none.
        self._delimiter = NONE
        self._matched = 0
        first, others = self._separator[0], self._separator[1:]
        # Else a separator that begins within the beginning of another is not found.
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
                if self._letter == self._quote and not self._held:
                    self._trims = False
                    self._quoted()
                else:
                    self._hold_to_separator()
                    if self._trims_right:
                        self._held = ["".join(self._held).rstrip(SPACES)]
                self._add()
            self._next()

    def _skip_spaces(self) -> None:
        while self._letter <= " " and self._letter != self._quote:
            self._next()
            if self._letter == self._separator[0] and self._is_separator():
                self._values.append(None)
                self._next()

    def _is_separator(self) -> bool:
        """Whether a separator begins here; its last letter is then looked at; what looked like it is held."""
        if self._is_separator_after_quote():
            return True
        self._put_back()
        return False

    def _is_separator_after_quote(self) -> bool:
        while self._letter == self._separator[self._matched]:
            self._matched += 1
            if self._matched == len(self._separator):
                self._matched = 0
                return True
            self._next()
        return False

    def _put_back(self) -> None:
        if self._matched:
            self._held.append(self._separator[: self._matched])
            self._matched = 0

    def _hold_to_separator(self) -> None:
        while not self._is_separator_after_quote():
            if self._matched:
                self._put_back()
            else:
                self._held.append(self._letter)
                self._next()

    def _quoted(self) -> None:
        self._next()
        while self._before != self._quote or self._letter > " ":
            if self._before == self._quote and self._is_separator():
                return
            if self._letter in (self._quote, self._escape):
                self._take_mark_in_quotes()
            elif self._before == self._quote:
                self._unescaped = True
                self._held += (self._quote, self._letter)
                self._before = self._letter
                self._rest_to_separator()
                return
            else:
                self._take_letters()
        if not self._is_separator_after_quote():
            self._spaces()

    def _rest_to_separator(self) -> None:
        self._held.insert(0, self._quote)
        self._next()
        self._trims = self._trims_right
        self._hold_to_separator()

    def _spaces(self) -> None:
        passed = ""
        while True:
            passed += self._letter
            self._next()
            if self._is_separator_after_quote():
                return
            if self._letter > " ":
                break
        if not self._is_separator_after_quote():
            self._held += (self._quote, passed, self._letter)
            self._before = self._letter
            self._rest()
