"""Queries that mean the same to every reader of a table: columns, comparisons with literals, LIMIT and counts.

Whatever is not certain to be one of these is none of them; it is for Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum

from sqlglot.dialects.databricks import Databricks

from headrace.model.names import quoted
from headrace.sql.lexer import Kind, Token, lex

Literal = str | int | bool | None

_INTEGER = re.compile(r"[0-9]{1,18}")
_WORD = re.compile(r"[A-Z_][A-Z0-9_]*")
# By then, the calendar of old versions of Spark is the same.
_NEW_CALENDAR = date(1601, 1, 1)
_LARGEST_LIMIT = 2**31 - 1


class Comparison(str, Enum):
    """How a column is compared; the values are SQL."""

    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    IS_NULL = "IS NULL"
    IS_NOT_NULL = "IS NOT NULL"


@dataclass(frozen=True)
class Condition:
    """A comparison of a column with a literal; None as the literal of IS NULL and IS NOT NULL."""

    column: str
    comparison: Comparison
    literal: Literal = None


@dataclass(frozen=True)
class Output:
    """A column of the result.

    Attributes:
        column: the column of the table; None for the number of rows.
        name: what Spark calls it.
    """

    column: str | None
    name: str


@dataclass(frozen=True)
class PlainSelect:
    """A query over one table.

    Attributes:
        table: its name, with quoted parts.
        outputs: the columns of the result; empty for all of the table's.
        conditions: what every row must meet.
        limit: the maximum number of rows; None for all.
    """

    table: str
    outputs: tuple[Output, ...]
    conditions: tuple[Condition, ...] = ()
    limit: int | None = None

    @property
    def counts(self) -> bool:
        """Whether the result is one row with numbers of rows."""
        return bool(self.outputs) and self.outputs[0].column is None


_COMPARISONS: Mapping[str, Comparison] = {
    "=": Comparison.EQUAL,
    "==": Comparison.EQUAL,
    "<>": Comparison.NOT_EQUAL,
    "!=": Comparison.NOT_EQUAL,
    "<": Comparison.LESS,
    "<=": Comparison.AT_MOST,
    ">": Comparison.GREATER,
    ">=": Comparison.AT_LEAST,
}
# Words that are names only between quotes here, because a parser may take them for something else.
_KEYWORDS = frozenset(word for key in Databricks.Tokenizer.KEYWORDS for word in key.upper().split())
# Names of types are common names of columns too.
_NAMES = frozenset(("DATE", "TIMESTAMP", "TIME", "TEXT"))


class _NotPlainError(Exception):
    """The query has something else."""


def plain_select(text: str) -> PlainSelect | None:
    """The query of a text, or None if it is for Spark."""
    # Spark and this reader may see the ends of such texts and comments in different places.
    if any(sign in text for sign in ("\\", "/*", "--", "$", "{", ";", '"', "\0")):
        return None
    lexed = lex(text)
    if lexed.unclosed is not None:
        return None
    try:
        return _Reader(lexed.tokens).select()
    except _NotPlainError:
        return None


class _Reader:
    """Reads a query from its tokens, and fails at the first one that is not expected."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._next = 0

    def select(self) -> PlainSelect:
        self._word("SELECT")
        outputs = () if self._takes_symbol("*") else self._outputs()
        self._word("FROM")
        table = quoted(*self._names())
        conditions = self._conditions() if self._takes_word("WHERE") else ()
        limit = self._integer() if self._takes_word("LIMIT") else None
        if self._next < len(self._tokens) or (limit is not None and limit > _LARGEST_LIMIT):
            raise _NotPlainError
        return PlainSelect(table, outputs, conditions, limit)

    def _outputs(self) -> tuple[Output, ...]:
        found = [self._output()]
        while self._takes_symbol(","):
            found.append(self._output())
        if len({output.column is None for output in found}) > 1:
            raise _NotPlainError
        return tuple(found)

    def _output(self) -> Output:
        column: str | None = None
        if self._is_count():
            name = "count(1)"
        else:
            name = column = self._name()
        return Output(column, self._name() if self._takes_word("AS") else name)

    def _is_count(self) -> bool:
        if len(self._tokens) < self._next + 4 or not self._tokens[self._next].is_word("COUNT"):
            return False
        opening, counted, closing = self._tokens[self._next + 1 : self._next + 4]
        found = opening.is_symbol("(") and closing.is_symbol(")") and counted.text in ("*", "1")
        self._next += 4 if found else 0
        return found

    def _conditions(self) -> tuple[Condition, ...]:
        found = [self._condition()]
        while self._takes_word("AND"):
            found.append(self._condition())
        return tuple(found)

    def _condition(self) -> Condition:
        if self._takes_symbol("("):
            found = self._condition()
            self._symbol(")")
            return found
        column = self._name()
        if not self._takes_word("IS"):
            return Condition(column, self._comparison(), self._literal())
        comparison = Comparison.IS_NOT_NULL if self._takes_word("NOT") else Comparison.IS_NULL
        self._word("NULL")
        return Condition(column, comparison)

    def _comparison(self) -> Comparison:
        first = self._token()
        sign = first.text
        # Signs of two characters are two tokens or one.
        if self._next < len(self._tokens):
            second = self._tokens[self._next]
            if second.kind is Kind.SYMBOL and second.start == first.end and sign + second.text in _COMPARISONS:
                self._next += 1
                sign += second.text
        if first.kind is not Kind.SYMBOL or sign not in _COMPARISONS:
            raise _NotPlainError
        return _COMPARISONS[sign]

    def _literal(self) -> str | int | bool:
        if self._takes_word("TRUE"):
            return True
        if self._takes_word("FALSE"):
            return False
        if self._takes_symbol("-"):
            return -self._integer()
        if self._next < len(self._tokens) and self._tokens[self._next].kind is Kind.STRING:
            text = self._token().text
            # Two strings side by side are one, and a letter before a string changes it.
            if not text.startswith("'") or "'" in text[1:-1]:
                raise _NotPlainError
            return text[1:-1]
        return self._integer()

    def _integer(self) -> int:
        found = self._token()
        if found.kind not in (Kind.NUMBER, Kind.WORD) or not _INTEGER.fullmatch(found.text):
            raise _NotPlainError
        return int(found.text)

    def _names(self) -> list[str]:
        found = [self._name()]
        while self._takes_symbol("."):
            found.append(self._name())
        return found

    def _name(self) -> str:
        found = self._token()
        if found.kind is Kind.QUOTED and len(found.text) > len("``"):
            return found.text[1:-1].replace("``", "`")
        word = found.text.upper()
        if found.kind is not Kind.WORD or not _WORD.fullmatch(word) or word in _KEYWORDS - _NAMES:
            raise _NotPlainError
        return found.text

    def _token(self) -> Token:
        if self._next >= len(self._tokens):
            raise _NotPlainError
        self._next += 1
        return self._tokens[self._next - 1]

    def _takes_word(self, word: str) -> bool:
        found = self._next < len(self._tokens) and self._tokens[self._next].is_word(word)
        self._next += found
        return found

    def _takes_symbol(self, symbol: str) -> bool:
        found = self._next < len(self._tokens) and self._tokens[self._next].is_symbol(symbol)
        self._next += found
        return found

    def _word(self, word: str) -> None:
        if not self._takes_word(word):
            raise _NotPlainError

    def _symbol(self, symbol: str) -> None:
        if not self._takes_symbol(symbol):
            raise _NotPlainError


def date_of(text: str) -> date | None:
    """The date of a literal that everyone reads in the same way, after the change of calendars; None for others."""
    try:
        found = date.fromisoformat(text) if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else None
    except ValueError:
        return None
    return found if found is not None and found >= _NEW_CALENDAR else None
