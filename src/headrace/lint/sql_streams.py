"""The tables that a SQL text names, and whether it reads one of them as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.sql.lexer import Token, lex

_BEFORE_TABLE = ("FROM", "JOIN", "INTO", "UPDATE", "TABLE", "STREAM")
_BEFORE_READ = ("FROM", "JOIN", "STREAM")
# Words that follow a table which is itself named stream.
_BEHIND_TABLE = (
    *("AS", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS"),
    *("SEMI", "ANTI", "NATURAL", "UNION", "EXCEPT", "MINUS", "INTERSECT", "ON", "USING", "WINDOW", "QUALIFY", "SORT"),
    *("CLUSTER", "DISTRIBUTE", "LATERAL", "TABLESAMPLE", "PIVOT", "UNPIVOT", "VERSION", "TIMESTAMP", "FOR"),
)


def reads_stream(text: str) -> bool:
    """Whether a query reads a stream: ``STREAM t`` or ``STREAM(t)`` after FROM or JOIN."""
    return streams(lex(text).tokens)


def streams(tokens: Sequence[Token]) -> bool:
    """Whether tokens read a stream."""
    return any(begins_stream(tokens, index) for index in range(1, len(tokens)))


def begins_stream(tokens: Sequence[Token], index: int) -> bool:
    """Whether STREAM is a keyword here, and not the name of a table or a schema."""
    if index + 1 >= len(tokens):
        return False
    following = tokens[index + 1]
    named = following.is_name and not following.is_word(*_BEHIND_TABLE)
    return (
        tokens[index].is_word("STREAM")
        and tokens[index - 1].is_word("FROM", "JOIN")
        and (named or following.is_symbol("("))
    )


def tables_of(text: str) -> tuple[str, ...]:
    """The table names in a text, as written, without quotes."""
    return tuple(_tables(lex(text).tokens, _BEFORE_TABLE))


def tables_read(tokens: Sequence[Token]) -> tuple[str, ...]:
    """The names of the tables and views that a statement reads."""
    return tuple(_tables(tokens, _BEFORE_READ))


def name_at(tokens: Sequence[Token], index: int) -> str:
    """The qualified name that begins here, without quotes; empty if there is none."""
    parts: list[str] = []
    while index < len(tokens) and tokens[index].is_name:
        parts.append(tokens[index].text.strip("`"))
        if index + 1 >= len(tokens) or not tokens[index + 1].is_symbol("."):
            break
        index += 2
    return ".".join(parts)


def _tables(tokens: Sequence[Token], before: Sequence[str]) -> Iterator[str]:
    for index, token in enumerate(tokens):
        if token.is_word(*before):
            after = index + 2 if tokens[index + 1 : index + 2] and tokens[index + 1].is_symbol("(") else index + 1
            name = name_at(tokens, after)
            if name:
                yield name
