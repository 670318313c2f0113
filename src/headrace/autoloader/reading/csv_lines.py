"""Lines of CSV as values, one line at a time, as Spark reads them.

A value in quotes ends at the quote that a separator, spaces or the line's end follows; inside, the escape character
takes the next quote, or itself, as it is. A quote that something else follows makes the value stand with its quotes, up
to the next separator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class InvalidDialect(ValueError):
    """Options that no reader can follow; the message says why."""


@dataclass(frozen=True)
class Dialect:
    """How values are separated and quoted; ``escape`` and ``quote`` may be empty for none."""

    separator: str = ","
    quote: str = '"'
    escape: str = "\\"
    null: str = ""
    comment: str = ""
    trims_left: bool = False
    trims_right: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Dialect:
        """What the options of a reader say.

        Raises:
            InvalidDialect: a separator is empty, a quote longer than one character, or one is the other.
        """
        separator = options.get("sep", options.get("delimiter", ",")).replace("\\t", "\t")
        quote, escape = options.get("quote", '"'), options.get("escape", "\\")
        if not separator:
            raise InvalidDialect("the separator of CSV is empty")
        if len(quote) > 1 or len(escape) > 1 or len(options.get("comment", "")) > 1:
            raise InvalidDialect("a quote, what escapes it, and what begins a comment, is one character each")
        if quote and quote in separator:
            raise InvalidDialect("the separator has the quote in it")
        if any(end in f"{separator}{quote}" for end in "\r\n"):
            raise InvalidDialect("a line's end is neither separator nor quote")
        return cls(
            separator,
            quote,
            escape,
            options.get("nullValue", ""),
            options.get("comment", ""),
            options.get("ignoreLeadingWhiteSpace") == "true",
            options.get("ignoreTrailingWhiteSpace") == "true",
        )

    @property
    def fits_arrow(self) -> bool:
        """Whether Arrow's reader knows such a separator and quote: one byte each."""
        return len(self.separator) == len(self.quote) == 1 and (self.separator + self.quote).isascii()


def values_of(line: str, dialect: Dialect) -> list[str]:
    """The values of a line."""
    if dialect.quote not in line or not dialect.quote:
        return [_trimmed(value, dialect) for value in line.split(dialect.separator)]
    values, at = [], 0
    while True:
        value, at = _value(line, at, dialect)
        values.append(value)
        if at >= len(line):
            return values
        at += len(dialect.separator)
        if at == len(line):
            return [*values, ""]


def is_left_out(line: str, dialect: Dialect) -> bool:
    """Whether a line holds nothing, or a comment."""
    return not line.strip() or (bool(dialect.comment) and line.startswith(dialect.comment))


def _value(line: str, begin: int, dialect: Dialect) -> tuple[str, int]:
    """The value that begins at a place, and where the separator behind it is, or the end."""
    first = begin
    while dialect.trims_left and line[first : first + 1] == " ":
        first += 1
    if line[first : first + 1] == dialect.quote:
        return _quoted(line, first + 1, dialect)
    end = _end(line, begin, dialect)
    return _trimmed(line[begin:end], dialect), end


def _quoted(line: str, at: int, dialect: Dialect) -> tuple[str, int]:
    """The value behind an opening quote, and where the separator behind it is, or the end.

    Source: ``CsvParser.parseQuotedValue`` of univocity, with ``STOP_AT_DELIMITER``; ``before`` is its ``prev``.
    """
    if at == len(line):
        return dialect.quote, at
    quote, escape = dialect.quote, dialect.escape
    pieces: list[str] = []
    before = ""
    while at < len(line):
        letter = line[at]
        if before == quote and (letter <= " " or line.startswith(dialect.separator, at)):
            return _closed(line, at, pieces, dialect)
        if letter not in (quote, escape):
            if before == quote:
                return _unescaped(line, at, pieces, dialect)
            pieces.append(before if before == escape else "")
            pieces.append(letter)
            before = ""
        elif before == escape and before:
            pieces.append(letter)
            before = ""
        elif before == quote:
            pieces.append(quote)
            before = letter
        else:
            before = letter
        at += 1
    # It is open at the end of the line, and ends there.
    return "".join(pieces), at


def _closed(line: str, at: int, pieces: list[str], dialect: Dialect) -> tuple[str, int]:
    """A value behind whose last quote there is a separator, or spaces and then one; else its quotes are its own."""
    after = at
    while after < len(line) and line[after] <= " " and not line.startswith(dialect.separator, after):
        after += 1
    if after < len(line) and not line.startswith(dialect.separator, after):
        return _unescaped(line, at, pieces, dialect)
    return "".join(pieces), after


def _unescaped(line: str, at: int, pieces: list[str], dialect: Dialect) -> tuple[str, int]:
    """A value with something behind its last quote: all up to the next separator, its quotes included."""
    end = _end(line, at, dialect)
    return f"{dialect.quote}{''.join(pieces)}{dialect.quote}{_trimmed(line[at:end], dialect)}", end


def _end(line: str, begin: int, dialect: Dialect) -> int:
    """Where the next separator is, or the end."""
    end = line.find(dialect.separator, begin)
    return len(line) if end < 0 else end


def _trimmed(value: str, dialect: Dialect) -> str:
    if dialect.trims_left:
        value = value.lstrip(" ")
    return value.rstrip(" ") if dialect.trims_right else value
