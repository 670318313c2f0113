"""A reading position in a statement, with errors that say what was expected, what was found, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headrace.errors import PipelineError
from headrace.model.location import Location
from headrace.sql.lexer import Kind, Token, closings, unquoted
from headrace.sql.statements import Statement

_NOT_NAMES = ("AS", "SELECT", "WITH", "FROM", "INSERT")
_LONGEST = 40


@dataclass
class Cursor:
    """Reads the tokens of *statement* from ``position`` up to ``end``; ``usage`` is the form in the hints."""

    statement: Statement
    file: str
    usage: str
    position: int = 0
    end: int = -1
    _pairs: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.end < 0:
            self.end = len(self.statement.tokens)
            self._pairs = closings(self.statement.tokens)

    @property
    def done(self) -> bool:
        """True at the end."""
        return self.position >= self.end

    @property
    def rest(self) -> Sequence[Token]:
        """The tokens from here on."""
        return self.statement.tokens[self.position : self.end]

    @property
    def text(self) -> str:
        """The source from here on, from the first token to the last."""
        return self.statement.text[self.rest[0].start : self.rest[-1].end] if self.rest else ""

    @property
    def location(self) -> Location:
        """The line of the next token; at the end, that of the last one."""
        tokens = self.statement.tokens
        return Location(self.file, tokens[min(self.position, len(tokens) - 1)].line)

    def ahead(self, *words: str) -> bool:
        """True when the next tokens are *words*, which are in capitals."""
        rest = self.rest[: len(words)]
        return len(rest) == len(words) and all(token.is_word(word) for token, word in zip(rest, words, strict=True))

    def accept(self, *words: str) -> bool:
        """Step over *words* when they are next."""
        found = self.ahead(*words)
        if found:
            self.position += len(words)
        return found

    def accept_symbol(self, symbol: str) -> bool:
        """Step over *symbol* when it is next."""
        found = not self.done and self.rest[0].is_symbol(symbol)
        if found:
            self.position += 1
        return found

    def expect(self, *words: str) -> None:
        """Step over *words*.

        Raises:
            PipelineError: SQL.SYNTAX when they are not next.
        """
        if not self.accept(*words):
            raise self.failure(" ".join(words))

    def name(self, what: str) -> str:
        """Step over a name of one or more parts; *what* says whose it is. The quotes stay.

        Raises:
            PipelineError: SQL.SYNTAX when no name is next.
        """
        parts: list[str] = []
        while not parts or self.accept_symbol("."):
            token = None if self.done else self.rest[0]
            if token is None or not token.is_name or (not parts and token.is_word(*_NOT_NAMES)):
                raise self.failure(what)
            parts.append(token.text)
            self.position += 1
        return ".".join(parts)

    def string(self, what: str) -> str:
        """Step over a string and give its value; strings in a row are one.

        Raises:
            PipelineError: SQL.SYNTAX when no string is next.
        """
        begin = self.position
        while not self.done and self.rest[0].kind is Kind.STRING:
            self.position += 1
        if self.position == begin:
            raise self.failure(what)
        return "".join(unquoted(token) for token in self.statement.tokens[begin : self.position])

    def brackets(self, what: str) -> Cursor:
        """Step over round brackets and give a cursor on what is inside.

        Raises:
            PipelineError: SQL.SYNTAX when no opening bracket is next, or it is never closed.
        """
        if self.done or not self.rest[0].is_symbol("("):
            raise self.failure(f'"(" and {what}')
        closing = self._pairs.get(self.position)
        if closing is None:
            raise unclosed(self, "(", ")")
        inside = self.part(self.position + 1, closing)
        self.position = closing + 1
        return inside

    def items(self) -> Iterator[Cursor]:
        """A cursor on each item of the rest, which is a list with commas; ``<`` and ``>`` count as brackets."""
        begin = self.position
        angles = 0
        index = begin
        while index < self.end:
            token = self.statement.tokens[index]
            angles = max(0, angles + token.is_symbol("<") - token.is_symbol(">"))
            if token.is_symbol(",") and not angles:
                yield self.part(begin, index)
                begin = index + 1
            index = self._pairs.get(index, index) + 1
        yield self.part(begin, self.end)

    def part(self, begin: int, end: int) -> Cursor:
        """A cursor on a range of the same statement."""
        return Cursor(self.statement, self.file, self.usage, begin, end, self._pairs)

    def failure(self, expected: str) -> PipelineError:
        """SQL.SYNTAX at the next token."""
        tokens = self.statement.tokens
        if self.position >= len(tokens):
            return _syntax(self, expected, "the end of the statement")
        token = tokens[self.position]
        if token.parameter is not None:
            return _syntax(self, expected, f'the value of parameter "{token.parameter}"')
        return _syntax(self, expected, f'"{_short(token.text)}"')


def unclosed(cursor: Cursor, opener: str, closer: str) -> PipelineError:
    """SQL.SYNTAX for a bracket, the next token of *cursor*, that has no partner."""
    return _syntax(cursor, f'"{closer}" for the "{opener}" on this line', "none")


def _syntax(cursor: Cursor, expected: str, found: str) -> PipelineError:
    return PipelineError("SQL.SYNTAX", location=cursor.location, expected=expected, found=found, usage=cursor.usage)


def _short(text: str) -> str:
    """The beginning of a piece, on one line."""
    first, *more = text.splitlines()
    return f"{first[:_LONGEST]}..." if more or len(first) > _LONGEST else first
