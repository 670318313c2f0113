"""Find the lines of CSV that Arrow reads as Spark does: with as many values as expected, and plain quotes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.autoloader.reading.conversion.utf8 import is_utf8
from headrace.autoloader.reading.csv.lines import Dialect

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_LINE_END, _SPACE, _NUL = 0x0A, 0x20, 0


class CsvLines:
    """The lines of a text, and which of them are plain.

    A plain line is not blank and no comment, has the expected number of values, and each of its quotes begins or ends a
    value, or is one of two in a value if a quote escapes itself. It has no other escapes.

    With *spans_lines*, a line end inside of quotes is part of a value: the lines are records, up to the first one that
    is not plain.

    Attributes:
        begins: where each line begins, and the end of the text.
        is_plain: whether each line is plain.
        is_skipped: whether it is blank or a comment.
    """

    def __init__(self, text: bytes, dialect: Dialect, values: int, *, spans_lines: bool = False) -> None:
        self._text = text if text.endswith(b"\n") else text + b"\n"
        self._letters = np.frombuffer(self._text, dtype=np.uint8)
        self._dialect = dialect
        ends = np.flatnonzero(self._letters == _LINE_END)
        quotes = np.flatnonzero(self._letters == ord(dialect.quote))
        if spans_lines:
            inside = np.searchsorted(quotes, ends) & 1 == 1
            ends = ends[~inside | (ends == len(self._text) - 1)]
        self.begins: Positions = np.concatenate(([0], ends + 1))
        self.is_skipped: Flags = ~np.logical_or.reduceat(self._letters > _SPACE, self.begins[:-1])
        if dialect.comment:
            self.is_skipped |= self._letters[self.begins[:-1]] == ord(dialect.comment)
        self.is_plain: Flags = ~self.is_skipped
        separators = np.flatnonzero(self._letters == ord(dialect.separator))
        if len(quotes):
            self._check_quotes(quotes)
            separators = separators[np.searchsorted(quotes, separators) & 1 == self._parity(quotes, separators)]
        self.is_plain &= np.diff(np.searchsorted(separators, self.begins)) == values - 1
        if dialect.escape and dialect.escape != dialect.quote:
            self._refuse(self._places(dialect.escape.encode()))
        if not is_utf8(self._text):
            self.is_plain &= [
                is_utf8(self._text[begin:end]) for begin, end in zip(self.begins, self.begins[1:], strict=False)
            ]

    def __len__(self) -> int:
        return len(self.begins) - 1

    def _places(self, searched: bytes) -> Positions:
        if len(searched) == 1:
            return np.flatnonzero(self._letters == searched[0])
        found, at = [], self._text.find(searched)
        while at >= 0:
            found.append(at)
            at = self._text.find(searched, at + 1)
        return np.array(found, dtype=np.int64)

    def _rows(self, positions: Positions) -> Positions:
        return np.searchsorted(self.begins, positions, "right") - 1

    def _refuse(self, positions: Positions) -> None:
        self.is_plain[self._rows(positions)] = False

    def _parity(self, quotes: Positions, positions: Positions) -> Positions:
        """For each position, whether an odd number of quotes comes before its line."""
        before: Positions = np.searchsorted(quotes, self.begins) & 1
        return before[self._rows(positions)]

    def _check_quotes(self, quotes: Positions) -> None:
        dialect, letters = self._dialect, self._letters
        if dialect.trims_left or dialect.trims_right or not dialect.quote:
            self._refuse(quotes)
            return
        self._refuse(np.flatnonzero(letters == _NUL))
        counts = np.diff(np.searchsorted(quotes, self.begins))
        self.is_plain &= counts & 1 == 0
        opens = (np.arange(len(quotes)) & 1) == self._parity(quotes, quotes)
        edges = (ord(dialect.separator), _LINE_END)
        before = np.isin(letters[quotes - 1], edges) | (quotes == 0)
        after = np.isin(letters[quotes + 1], edges)
        follows = np.diff(quotes, prepend=-2) == 1
        precedes = np.concatenate((follows[1:], [False]))
        is_edge = np.where(opens, before, after)
        if dialect.escape == dialect.quote:
            # One of two quotes in a value.
            is_edge |= np.where(opens, follows, precedes)
        self._refuse(quotes[~is_edge])
        if dialect.null or not dialect.escape:
            # Spark distinguishes an empty quoted value from none.
            self._refuse(quotes[opens & before & precedes & np.concatenate((after[1:], [False]))])
        if not dialect.escape:
            self._refuse(quotes[precedes])

    def text(self, kept: Flags) -> bytes:
        """The text of some lines."""
        if kept.all():
            return self._text
        return self._letters[np.repeat(kept, np.diff(self.begins))].tobytes()

    def line(self, number: int) -> str:
        """One line, without its end."""
        return self._text[self.begins[number] : self.begins[number + 1] - 1].decode("utf-8", "replace")

    def lines(self) -> list[str]:
        """All lines."""
        return self._text[:-1].decode("utf-8", "replace").split("\n")
