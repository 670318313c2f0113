"""Find the structure of lines of JSON without parsing them: numpy finds the strings, brackets and separators.

This does not validate: on a line that is not valid JSON, what is found has no meaning, except that it stays on its
line. Arrow validates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

QUOTE, BACKSLASH, COLON, COMMA = 0x22, 0x5C, 0x3A, 0x2C
OPENS_OBJECT, CLOSES_OBJECT, OPENS_ARRAY, CLOSES_ARRAY = 0x7B, 0x7D, 0x5B, 0x5D
_LINE_END = 0x0A
# Arrow's recursive reader crashes the process if JSON nests too deep.
_DEEPEST = 500
# Maximum number of spaces between two tokens that are skipped.
_MOST_SPACES = 64


def bytes_in(letters: bytes) -> Flags:
    """A table of all bytes: whether each is one of *letters*."""
    table = np.zeros(256, dtype=np.bool_)
    table[list(letters)] = True
    return table


_MARKS = bytes_in(b'"{}[]:,\n')
SPACES = bytes_in(b" \t\r")
DEPTH_STEPS = np.zeros(256, dtype=np.int8)
DEPTH_STEPS[list(b"{[")] = 1
DEPTH_STEPS[list(b"}]")] = -1


@dataclass(frozen=True)
class Level:
    """The tokens directly in containers of one depth, container by container, each from its opening to its closing.

    Attributes:
        tokens: their places in ``JsonLines.positions``.
        kinds: their bytes.
        containers: for each token, the number of its container in this level.
        opens: the places of the opening tokens, by container.
    """

    tokens: Positions
    kinds: Bytes
    containers: Positions
    opens: Positions


class JsonMarks:
    """The tokens of lines of JSON: brackets, colons and commas outside of strings.

    Attributes:
        text: the lines, each with a line end.
        letters: their bytes.
        begins: where each line begins, and the end of the text.
        has_closed_strings: whether the strings on each line are closed. Other lines have no tokens.
        positions, kinds, rows: the tokens' positions, bytes and line numbers.
        quotes, backslashes: the positions of quotes that begin or end strings, and of all backslashes.
        quotes_before: the number of quotes before each token.
        first_quotes: the number of quotes before each line.
    """

    def __init__(self, text: bytes) -> None:
        self.text = text if text.endswith(b"\n") else text + b"\n"
        self.letters: Bytes = np.frombuffer(self.text, dtype=np.uint8)
        marks = np.flatnonzero(_MARKS[self.letters])
        kinds = self.letters[marks]
        self.backslashes: Positions = (
            np.flatnonzero(self.letters == BACKSLASH) if BACKSLASH in text else np.empty(0, dtype=np.int64)
        )
        if len(self.backslashes):
            kept = ~self._escaped(marks) | (kinds != QUOTE)
            marks, kinds = marks[kept], kinds[kept]
        is_quote, is_end = kinds == QUOTE, kinds == _LINE_END
        self.begins: Positions = np.concatenate(([0], marks[is_end] + 1))
        rows = np.cumsum(is_end) - is_end
        quotes_before = np.cumsum(is_quote) - is_quote
        self.first_quotes: Positions = np.concatenate(([0], quotes_before[is_end]))
        inside = (quotes_before - self.first_quotes[rows]) & 1 == 1
        self.has_closed_strings: Flags = np.diff(self.first_quotes) & 1 == 0
        self.quotes: Positions = marks[np.flatnonzero(is_quote)]
        # Places are faster than flags.
        tokens = np.flatnonzero(~(is_quote | is_end | inside) & self.has_closed_strings[rows])
        self.positions: Positions = marks[tokens]
        self.kinds: Bytes = kinds[tokens]
        self.rows: Positions = rows[tokens]
        self.quotes_before: Positions = quotes_before[tokens]

    def _escaped(self, marks: Positions) -> Flags:
        """Whether an odd number of backslashes comes before each position."""
        first = np.concatenate(([True], np.diff(self.backslashes) > 1))
        run_begins = self.backslashes[np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))]
        place = np.searchsorted(self.backslashes, marks) - 1
        last = self.backslashes[place]
        escaped: Flags = (place >= 0) & (last == marks - 1) & ((last - run_begins[place]) & 1 == 0)
        return escaped


class JsonLines(JsonMarks):
    """The tokens of lines of JSON in UTF-8, each of which may be one object.

    Attributes:
        has_object: whether a line can be one object with balanced brackets. Only such lines have tokens.
    """

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self.has_object = self.has_closed_strings
        depths = self._keep_objects()
        # Sorted by the depth of their container, the tokens of a container follow one another.
        depths += DEPTH_STEPS[self.kinds] < 0
        self._order: Positions = np.argsort(depths.astype(np.uint16), kind="stable")
        self._depths = depths[self._order]

    def __len__(self) -> int:
        return len(self.begins) - 1

    def _keep_objects(self) -> Positions:
        """Drop the tokens of lines that are not one object; return the depths after each of the others."""
        depths = np.cumsum(DEPTH_STEPS[self.kinds], dtype=np.int64)
        bounds = np.searchsorted(self.rows, np.arange(len(self) + 1))
        self.has_object &= (np.diff(np.concatenate(([0], depths))[bounds]) == 0) & (np.diff(bounds) > 0)
        if self._drop_others():
            depths = np.cumsum(DEPTH_STEPS[self.kinds], dtype=np.int64)
            bounds = np.searchsorted(self.rows, np.arange(len(self) + 1))
        # Only the last bracket of a record closes all.
        last = bounds[1:][self.has_object] - 1
        wrong = [np.setxor1d(np.flatnonzero(depths <= 0), last, assume_unique=True)]
        first = bounds[:-1][self.has_object]
        wrong += [first[self.kinds[first] != OPENS_OBJECT], np.flatnonzero(depths > _DEEPEST)]
        # Something before the first bracket: a record null there would crash Arrow.
        begins = self._after_spaces(self.begins[:-1][self.has_object])
        wrong += [first[self.positions[first] != begins]]
        self.has_object[self.rows[np.concatenate(wrong)]] = False
        kept = self.has_object[self.rows]
        return depths[kept] if self._drop_others() else depths

    def _drop_others(self) -> bool:
        """Drop the tokens of lines that are not one object; whether there are any."""
        kept = self.has_object[self.rows]
        if kept.all():
            return False
        self.positions, self.kinds = self.positions[kept], self.kinds[kept]
        self.rows, self.quotes_before = self.rows[kept], self.quotes_before[kept]
        return True

    def level(self, depth: int) -> Level:
        """The tokens of the containers at a depth; those of records are at depth 1."""
        begin, end = np.searchsorted(self._depths, [depth, depth + 1])
        tokens = self._order[begin:end]
        kinds = self.kinds[tokens]
        opens = (kinds == OPENS_OBJECT) | (kinds == OPENS_ARRAY)
        return Level(tokens, kinds, np.cumsum(opens) - 1, tokens[opens])

    def names(self, colons: Positions) -> tuple[Positions, Positions, Flags]:
        """The quotes around the names before some colon tokens, and whether each is a plain name without escapes."""
        if not len(self.quotes):
            return colons, colons, np.zeros(len(colons), dtype=np.bool_)
        numbers = self.quotes_before[colons]
        plain = numbers - self.first_quotes[self.rows[colons]] >= 2
        opens, closes = self.quotes[numbers - 2], self.quotes[numbers - 1]
        plain &= self._after_spaces(closes + 1) == self.positions[colons]
        if len(self.backslashes):
            plain &= np.searchsorted(self.backslashes, opens) == np.searchsorted(self.backslashes, closes)
        return opens, closes, plain

    def values(self, begins: Positions, ends: Positions) -> tuple[Positions, Positions]:
        """Where the values between two tokens begin and end, without spaces around them."""
        first, last = self._after_spaces(self.positions[begins] + 1), self.positions[ends].copy()
        for _ in range(_MOST_SPACES):
            active = np.flatnonzero((last > first) & SPACES[self.letters[last - 1]])
            if not len(active):
                break
            last[active] -= 1
        return first, last

    def _after_spaces(self, positions: Positions) -> Positions:
        positions = positions.copy()
        active = np.flatnonzero(SPACES[self.letters[positions]])
        for _ in range(_MOST_SPACES):
            if not len(active):
                break
            positions[active] += 1
            active = active[SPACES[self.letters[positions[active]]]]
        return positions

    def rows_at(self, positions: Positions) -> Positions:
        """The line numbers of positions."""
        return np.searchsorted(self.begins, positions, "right") - 1

    def in_strings(self, positions: Positions) -> Flags:
        """Whether positions are inside of strings."""
        rows = self.rows_at(positions)
        inside: Flags = (np.searchsorted(self.quotes, positions) - self.first_quotes[rows]) & 1 == 1
        return inside

    def texts(self, begins: Positions, ends: Positions) -> pa.StringArray:
        """The texts between positions."""
        lengths = np.maximum(ends - begins, 0)
        offsets = np.zeros(len(begins) + 1, dtype=np.int32)
        np.cumsum(lengths, out=offsets[1:])
        places = np.repeat(begins - offsets[:-1], lengths) + np.arange(offsets[-1])
        return pa.StringArray.from_buffers(len(begins), pa.py_buffer(offsets), pa.py_buffer(self.letters[places]))

    def lines(self, kept: Flags) -> bytes:
        """The text of some lines."""
        if kept.all():
            return self.text
        return self.letters[np.repeat(kept, np.diff(self.begins))].tobytes()

    def line(self, row: int) -> bytes:
        """The text of one line, without its end."""
        return self.text[self.begins[row] : self.begins[row + 1] - 1]
