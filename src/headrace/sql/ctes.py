"""Parses the common table expressions of a WITH."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.model.names import InvalidName, split_name
from headrace.sql.lexer import Token


@dataclass(frozen=True)
class CommonTable:
    """A common table expression: its name and the indexes of the brackets around its query."""

    name: str
    opening: int
    closing: int


@dataclass(frozen=True)
class WithList:
    """The tables that a WITH defines; ``end`` is the index of the first token after the list."""

    tables: tuple[CommonTable, ...]
    end: int
    recursive: bool


def with_list(tokens: Sequence[Token], begin: int, pairs: Mapping[int, int]) -> WithList:
    """Parse the list of the WITH at *begin*, with bracket *pairs*; anything else defines no tables."""
    index = begin + 1
    recursive = _is_word(tokens, index, "RECURSIVE") and not _is_word(tokens, index + 1, "AS")
    index += recursive
    tables: list[CommonTable] = []
    while True:
        opening = _opening(tokens, index, pairs)
        if opening is None:
            return WithList(tuple(tables), index, recursive)
        tables.append(CommonTable(_plain(tokens[index]), opening, pairs[opening]))
        index = pairs[opening] + 1
        if index >= len(tokens) or not tokens[index].is_symbol(","):
            return WithList(tuple(tables), index, recursive)
        index += 1


def _opening(tokens: Sequence[Token], index: int, pairs: Mapping[int, int]) -> int | None:
    """The index of the bracket before the query of the name at *index*; None if there is no definition."""
    if index >= len(tokens) or not tokens[index].is_name:
        return None
    index += 1
    columns = index if index in pairs else None
    if columns is not None:
        index = pairs[columns] + 1
    if _is_word(tokens, index, "MAX"):
        # MAX RECURSION LEVEL 100
        index += 4
    if _is_word(tokens, index, "AS"):
        index += 1
    # Without AS, what looked like a column list is the query.
    return index if index in pairs else columns


def _is_word(tokens: Sequence[Token], index: int, word: str) -> bool:
    return index < len(tokens) and tokens[index].is_word(word)


def _plain(token: Token) -> str:
    try:
        return split_name(token.text)[0].casefold()
    except InvalidName:
        return token.text.casefold()
