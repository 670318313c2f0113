"""Replaces ``${name}`` in a statement by its value, such that it stays one statement.

The vendor replaces text by text. So do we, and then check that the value stays in its place: inside its string or
quoted name or, elsewhere, as whole tokens of SQL without a semicolon, an open bracket or a comment.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from headrace.errors import PipelineError, Problems
from headrace.model.location import Location
from headrace.sql.lexer import Kind, Lines, Token, bracket_pairs, lex
from headrace.sql.statements import Statement

_PARAMETER = re.compile(r"\$\{([^{}\r\n]*)\}")
_ENCLOSING = (Kind.STRING, Kind.QUOTED)


@dataclass(frozen=True)
class ParameterUse:
    """One ``${name}`` or ``:name``: its range in the statement, and the enclosing string or quoted name."""

    name: str
    start: int
    end: int
    enclosing: Token | None


@dataclass(frozen=True)
class _Segment:
    """A range of the new text and its start in the old one; *name* if it is the value of a parameter."""

    start: int
    end: int
    old_start: int
    name: str | None = None


def substitute(statement: Statement, values: Mapping[str, str], file: str) -> Statement:
    """*statement* with every ``${name}`` outside of comments replaced; values are not substituted again.

    Raises:
        Problems: SQL.UNKNOWN_PARAMETER for each name without a value; SQL.PARAMETER_VALUE for a value that would
            change the statement around it.
    """
    uses = list(_uses(statement))
    if not uses:
        return statement
    problems = [problem for use in uses if (problem := _problem(use, statement, values, file)) is not None]
    if problems:
        raise Problems(problems)
    return replace_uses(statement, uses, values, file)


def _uses(statement: Statement) -> Iterator[ParameterUse]:
    starts = [token.start for token in statement.tokens]
    for match in _PARAMETER.finditer(statement.text):
        token = statement.tokens[bisect_right(starts, match.start()) - 1]
        # Outside of all tokens means inside a comment.
        if match.start() < token.end:
            enclosing = token if token.kind in _ENCLOSING else None
            yield ParameterUse(match.group(1).strip(), match.start(), match.end(), enclosing)


def _problem(use: ParameterUse, statement: Statement, values: Mapping[str, str], file: str) -> PipelineError | None:
    if use.name not in values:
        near = get_close_matches(use.name, values, n=1)
        suggestion = f'Did you mean "{near[0]}"? ' if near else ""
        location = _location(use, statement, file)
        return PipelineError("SQL.UNKNOWN_PARAMETER", location=location, name=use.name, suggestion=suggestion)
    value = values[use.name]
    reason = _breaks_out(use.enclosing, value) if use.enclosing else _breaks_apart(value)
    return _value_problem(use, statement, file, reason) if reason else None


def _breaks_out(enclosing: Token, value: str) -> str | None:
    """Why *value* would not stay inside the enclosing quotes; None if it would."""
    quote = enclosing.text[-1]
    prefix = enclosing.text[: enclosing.text.index(quote)]
    found = lex(f"{prefix}{quote}{value}{quote}")
    if found.unclosed is None and len(found.tokens) == 1:
        return None
    return f"It would close the {quote} quotes around it"


def _breaks_apart(value: str) -> str | None:
    """Why *value* would affect the text around it; None if it would not."""
    found = lex(value)
    if found.unclosed is not None:
        return "It opens a string, a quoted name or a comment that it does not close"
    if any(token.is_symbol(";") for token in found.tokens):
        return "It contains a semicolon, which would start another statement"
    brackets = sum(token.is_symbol("(", ")", "[", "]") for token in found.tokens)
    if brackets != 2 * len(bracket_pairs(found.tokens)):
        return "Its brackets do not match"
    return None


def replace_uses(statement: Statement, uses: Sequence[ParameterUse], values: Mapping[str, str], file: str) -> Statement:
    """*statement* with the text of each use replaced by its value.

    Raises:
        Problems: SQL.PARAMETER_VALUE for a value that comments out the text after it.
    """
    text, segments = _joined(statement.text, uses, values)
    found = lex(text)
    covered = _covered(found.tokens)
    for use, segment in zip(uses, (segment for segment in segments if segment.name is not None), strict=True):
        if found.unclosed is not None or not covered.issuperset(_visible(text, segment)):
            raise Problems([_value_problem(use, statement, file, "It would comment out the text after it")])
    lines = Lines(statement.text)
    tokens = tuple(_placed(token, segments, lines, statement.line) for token in found.tokens)
    return Statement(text, statement.line, tokens)


def _joined(text: str, uses: Sequence[ParameterUse], values: Mapping[str, str]) -> tuple[str, list[_Segment]]:
    pieces: list[str] = []
    segments: list[_Segment] = []
    length = 0
    position = 0
    for use in uses:
        for piece, old_start, name in (
            (text[position : use.start], position, None),
            (values[use.name], use.start, use.name),
        ):
            segments.append(_Segment(length, length + len(piece), old_start, name))
            pieces.append(piece)
            length += len(piece)
        position = use.end
    segments.append(_Segment(length, length + len(text) - position, position))
    return "".join((*pieces, text[position:])), segments


def _covered(tokens: Sequence[Token]) -> set[int]:
    return {offset for token in tokens for offset in range(token.start, token.end)}


def _visible(text: str, segment: _Segment) -> Iterator[int]:
    return (offset for offset in range(segment.start, segment.end) if not text[offset].isspace())


def _placed(token: Token, segments: Sequence[_Segment], lines: Lines, first_line: int) -> Token:
    """*token* with the line that its text, or its parameter, has in the file."""
    touched = [segment for segment in segments if segment.start < token.end and token.start < segment.end]
    first = touched[0]
    within = 0 if first.name is not None else token.start - first.start
    parameter = next((segment.name for segment in touched if segment.name is not None), None)
    return replace(token, line=first_line + lines.at(first.old_start + within) - 1, parameter=parameter)


def _value_problem(use: ParameterUse, statement: Statement, file: str, reason: str) -> PipelineError:
    return PipelineError("SQL.PARAMETER_VALUE", location=_location(use, statement, file), name=use.name, reason=reason)


def _location(use: ParameterUse, statement: Statement, file: str) -> Location:
    return Location(file, statement.line + Lines(statement.text).at(use.start) - 1)
