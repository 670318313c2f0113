"""The dialect of CSV lines, and which lines are skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Characters that are trimmed, and that can follow a closing quote.
SPACES = "".join(map(chr, range(ord(" ") + 1)))


class InvalidDialect(ValueError):
    """The options contradict each other or are invalid; the message says why."""


@dataclass(frozen=True)
class Dialect:
    """How values are separated and quoted; empty ``escape`` or ``quote`` means none."""

    separator: str = ","
    quote: str = '"'
    escape: str = "\\"
    null: str = ""
    comment: str = ""
    trims_left: bool = False
    trims_right: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Dialect:
        """The dialect in a reader's options.

        Raises:
            InvalidDialect: the separator is empty or contains the quote, or a quote is longer than one character.
        """
        separator = options.get("sep", options.get("delimiter", ",")).replace("\\t", "\t")
        quote, escape = options.get("quote", '"'), options.get("escape", "\\")
        if not separator:
            raise InvalidDialect("the separator is empty")
        if len(quote) > 1 or len(escape) > 1 or len(options.get("comment", "")) > 1:
            raise InvalidDialect("quote, escape and comment must be one character each")
        if quote and quote in separator:
            raise InvalidDialect("the separator contains the quote")
        if any(end in f"{separator}{quote}" for end in "\r\n"):
            raise InvalidDialect("separator and quote must not contain line breaks")
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
        """Whether Arrow's reader supports the separator and quote: one byte each."""
        return len(self.separator) == len(self.quote) == 1 and (self.separator + self.quote).isascii()


def is_skipped(line: str, dialect: Dialect) -> bool:
    """Whether a line is blank or a comment."""
    return not line.strip(SPACES) or (bool(dialect.comment) and line.startswith(dialect.comment))
