"""Replaces ``:name`` in a statement by its value: a string, or a name in ``IDENTIFIER(:name)``.

A value becomes one literal or one quoted name, so it cannot change the statement around it. Source: lakeflow.md 2.1,
``parameters``; as with the vendor, every value is a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from headrace.errors import PipelineError, Problems
from headrace.model.location import Location
from headrace.model.names import InvalidName, quoted, split_name, sql_text
from headrace.sql.lexer import Kind, Token
from headrace.sql.parameters import ParameterUse, replace_uses
from headrace.sql.statements import Statement


@dataclass(frozen=True)
class _Marker:
    """One ``:name``: the range of the statement that its value replaces, and whether it has to be a name."""

    name: str
    start: int
    end: int
    line: int
    identifier: bool


def bind(statement: Statement, values: Mapping[str, str], file: str) -> Statement:
    """*statement* with every ``:name`` replaced.

    Raises:
        Problems: SQL.UNKNOWN_MARKER for each name without a value; SQL.PARAMETER_VALUE for a value that has to be a
            name but is not.
    """
    markers = list(_markers(statement.tokens))
    if not markers:
        return statement
    problems: list[PipelineError] = []
    texts: dict[str, str] = {}
    for marker in markers:
        try:
            texts[_key(marker)] = _text(marker, values, file)
        except PipelineError as problem:
            problems.append(problem)
    if problems:
        raise Problems(problems)
    uses = [ParameterUse(_key(marker), marker.start, marker.end, None) for marker in markers]
    return replace_uses(statement, uses, texts, file)


def _key(marker: _Marker) -> str:
    """The marker as the user wrote it."""
    return f"IDENTIFIER(:{marker.name})" if marker.identifier else f":{marker.name}"


def _text(marker: _Marker, values: Mapping[str, str], file: str) -> str:
    location = Location(file, marker.line)
    if marker.name not in values:
        near = get_close_matches(marker.name, values, n=1)
        suggestion = f'Did you mean ":{near[0]}"? ' if near else ""
        raise PipelineError("SQL.UNKNOWN_MARKER", location=location, name=marker.name, suggestion=suggestion)
    if not marker.identifier:
        return sql_text(values[marker.name])
    try:
        return quoted(*split_name(values[marker.name]))
    except InvalidName as invalid:
        reason = "IDENTIFIER needs a name"
        raise PipelineError("SQL.PARAMETER_VALUE", location=location, name=marker.name, reason=reason) from invalid


def _markers(tokens: Sequence[Token]) -> Iterator[_Marker]:
    """The markers; a colon directly after a value (``payload:field``, ``x::int``) is not one."""
    for index, token in enumerate(tokens[:-1]):
        following = tokens[index + 1]
        if not token.is_symbol(":") or following.kind is not Kind.WORD or following.start != token.end:
            continue
        before = tokens[index - 1] if index else None
        adjacent = before is not None and before.end == token.start
        operand = before is not None and (before.kind is not Kind.SYMBOL or before.is_symbol(")", "]", ":"))
        if adjacent and operand:
            continue
        enclosing = tokens[max(index - 2, 0) : index]
        closing = tokens[index + 2 : index + 3]
        if (
            len(enclosing) == 2
            and enclosing[0].is_word("IDENTIFIER")
            and enclosing[1].is_symbol("(")
            and closing
            and closing[0].is_symbol(")")
        ):
            yield _Marker(following.text, enclosing[0].start, closing[0].end, token.line, identifier=True)
        else:
            yield _Marker(following.text, token.start, following.end, token.line, identifier=False)
