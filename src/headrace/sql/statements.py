"""Splits a SQL file into statements with their lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headrace.errors import PipelineError
from headrace.model.location import Location
from headrace.sql.lexer import Token, bracket_pairs, lex

_NAMES = {"/*": "comment", "{#": "comment", "`": "quoted name"}
_CLOSERS = {"/*": "*/", "{#": "#}"}


@dataclass(frozen=True)
class Statement:
    """One statement without its semicolon. Token offsets refer to ``text``, lines to the file."""

    text: str
    line: int
    tokens: tuple[Token, ...]


def split_statements(text: str, file: str) -> tuple[Statement, ...]:
    """The statements of *text* without empty ones.

    A semicolon ends a statement outside of comments, strings and closed brackets. Inside an unclosed bracket it does
    too, so that a missing bracket breaks one statement, not the rest of the file.

    Raises:
        PipelineError: SQL.SYNTAX if a string, a quoted name or a comment is not closed.
    """
    statements, problem = read_statements(text, file)
    if problem is not None:
        raise problem
    return statements


def read_statements(text: str, file: str) -> tuple[tuple[Statement, ...], PipelineError | None]:
    """The statements of *text* that can be parsed, and the error that prevents parsing the rest."""
    lexed = lex(text)
    groups = list(_groups(lexed.tokens))
    problem = None
    if lexed.unclosed is not None:
        # The statement with the unclosed token is dropped.
        groups.pop()
        problem = _unclosed(lexed.unclosed, file)
    return tuple(_statement(text, group) for group in groups if group), problem


def _groups(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The tokens before, between and after the semicolons that end statements; at least one group."""
    begin = 0
    protected_until = -1
    pairs = bracket_pairs(tokens)
    for index, token in enumerate(tokens):
        protected_until = max(protected_until, pairs.get(index, -1))
        if index > protected_until and token.is_symbol(";"):
            yield tokens[begin:index]
            begin = index + 1
    yield tokens[begin:]


def _statement(text: str, tokens: Sequence[Token]) -> Statement:
    start, end = tokens[0].start, tokens[-1].end
    moved = tuple(replace(token, start=token.start - start, end=token.end - start) for token in tokens)
    return Statement(text[start:end], tokens[0].line, moved)


def _unclosed(opener: Token, file: str) -> PipelineError:
    name = _NAMES.get(opener.text, "string")
    return PipelineError(
        "SQL.SYNTAX",
        location=Location(file, opener.line),
        expected=f"{_CLOSERS.get(opener.text, opener.text)} to close the {name} that starts here",
        found="the end of the file",
        usage=f"the closing mark of the {name}",
    )
