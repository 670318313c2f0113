"""A cursor in a statement, with errors that name the expected and the found token and the location."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headrace.errors import PipelineError
from headrace.model.location import Location
from headrace.sql.lexer import Kind, Token, bracket_pairs, unquoted
from headrace.sql.statements import Statement

_NOT_NAMES = ("AS", "SELECT", "WITH", "FROM", "INSERT")
_LONGEST = 40


@dataclass
class Cursor:
    """Reads the tokens of *statement* from ``position`` up to ``end``; ``usage`` is the syntax in hints."""

    statement: Statement
    file: str
    usage: str
    position: int = 0
    end: int = -1
    _pairs: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.end < 0:
            self.end = len(self.statement.tokens)
            self._pairs = bracket_pairs(self.statement.tokens)

    @property
    def done(self) -> bool:
        """True if no token is left."""
        return self.position >= self.end

    @property
    def rest(self) -> Sequence[Token]:
        """The remaining tokens."""
        return self.statement.tokens[self.position : self.end]

    @property
    def text(self) -> str:
        """The source text of the remaining tokens."""
        return self.statement.text[self.rest[0].start : self.rest[-1].end] if self.rest else ""

    @property
    def location(self) -> Location:
        """The line of the next token; at the end, the line of the last one."""
        tokens = self.statement.tokens
        return Location(self.file, tokens[min(self.position, len(tokens) - 1)].line)

    def ahead(self, *words: str) -> bool:
        """True if the next tokens are *words*, given in upper case."""
        rest = self.rest[: len(words)]
        return len(rest) == len(words) and all(token.is_word(word) for token, word in zip(rest, words, strict=True))

    def accept(self, *words: str) -> bool:
        """Consume *words* if they follow."""
        found = self.ahead(*words)
        if found:
            self.position += len(words)
        return found

    def accept_symbol(self, symbol: str) -> bool:
        """Consume *symbol* if it follows."""
        found = not self.done and self.rest[0].is_symbol(symbol)
        if found:
            self.position += 1
        return found

    def expect(self, *words: str) -> None:
        """Consume *words*.

        Raises:
            PipelineError: SQL.SYNTAX if they do not follow.
        """
        if not self.accept(*words):
            raise self.failure(" ".join(words))

    def name(self, what: str) -> str:
        """Consume a name of one or more parts and return it with its quotes; *what* describes it in errors.

        Raises:
            PipelineError: SQL.SYNTAX if no name follows.
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
        """Consume a string and return its value; adjacent strings are joined.

        Raises:
            PipelineError: SQL.SYNTAX if no string follows.
        """
        begin = self.position
        while not self.done and self.rest[0].kind is Kind.STRING:
            self.position += 1
        if self.position == begin:
            raise self.failure(what)
        return "".join(unquoted(token) for token in self.statement.tokens[begin : self.position])

    def brackets(self, what: str) -> Cursor:
        """Consume round brackets and return a cursor on their content.

        Raises:
            PipelineError: SQL.SYNTAX if no opening bracket follows, or it is never closed.
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
        """A cursor on each item of the remaining comma-separated list; ``<`` and ``>`` count as brackets."""
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
    """SQL.SYNTAX for the next token of *cursor*, an unmatched bracket."""
    return _syntax(cursor, f'"{closer}" for the "{opener}" on this line', "none")


def _syntax(cursor: Cursor, expected: str, found: str) -> PipelineError:
    return PipelineError("SQL.SYNTAX", location=cursor.location, expected=expected, found=found, usage=cursor.usage)


def _short(text: str) -> str:
    """The beginning of a token, on one line."""
    first, *more = text.splitlines()
    return f"{first[:_LONGEST]}..." if more or len(first) > _LONGEST else first
