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


class _Tokens:
    """Tokens, which are taken one after another."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._next = 0

    @property
    def rest(self) -> Sequence[Token]:
        """Those that are not taken yet."""
        return self._tokens[self._next :]

    def take(self) -> Token:
        if not self.rest:
            raise _NotPlainError
        self._next += 1
        return self._tokens[self._next - 1]

    def takes(self, *texts: str) -> bool:
        """Take words, in capitals, and symbols if they come next."""
        coming = self.rest[: len(texts)]
        found = len(coming) == len(texts) and all(map(_is, coming, texts))
        self._next += len(texts) if found else 0
        return found

    def expect(self, text: str) -> None:
        if not self.takes(text):
            raise _NotPlainError


def _is(token: Token, text: str) -> bool:
    return token.is_word(text) or token.is_symbol(text) or (token.kind is Kind.NUMBER and token.text == text)


class _Reader:
    """Reads a query from its tokens, and fails at the first one that is not expected."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = _Tokens(tokens)

    def select(self) -> PlainSelect:
        tokens = self._tokens
        tokens.expect("SELECT")
        outputs = () if tokens.takes("*") else self._outputs()
        tokens.expect("FROM")
        table = quoted(*self._names())
        conditions = self._conditions() if tokens.takes("WHERE") else ()
        limit = self._integer() if tokens.takes("LIMIT") else None
        if tokens.rest or (limit is not None and limit > _LARGEST_LIMIT):
            raise _NotPlainError
        return PlainSelect(table, outputs, conditions, limit)

    def _outputs(self) -> tuple[Output, ...]:
        found = [self._output()]
        while self._tokens.takes(","):
            found.append(self._output())
        if len({output.column is None for output in found}) > 1:
            raise _NotPlainError
        return tuple(found)

    def _output(self) -> Output:
        column: str | None = None
        if self._tokens.takes("COUNT", "(", "*", ")") or self._tokens.takes("COUNT", "(", "1", ")"):
            name = "count(1)"
        else:
            name = column = self._name()
        return Output(column, self._name() if self._tokens.takes("AS") else name)

    def _conditions(self) -> tuple[Condition, ...]:
        found = [self._condition()]
        while self._tokens.takes("AND"):
            found.append(self._condition())
        return tuple(found)

    def _condition(self) -> Condition:
        if self._tokens.takes("("):
            found = self._condition()
            self._tokens.expect(")")
            return found
        column = self._name()
        if not self._tokens.takes("IS"):
            return Condition(column, self._comparison(), self._literal())
        comparison = Comparison.IS_NOT_NULL if self._tokens.takes("NOT") else Comparison.IS_NULL
        self._tokens.expect("NULL")
        return Condition(column, comparison)

    def _comparison(self) -> Comparison:
        first = self._tokens.take()
        sign, rest = first.text, self._tokens.rest
        # A sign of two characters is one token or two.
        if rest and rest[0].kind is Kind.SYMBOL and rest[0].start == first.end and sign + rest[0].text in _COMPARISONS:
            sign += self._tokens.take().text
        if first.kind is not Kind.SYMBOL or sign not in _COMPARISONS:
            raise _NotPlainError
        return _COMPARISONS[sign]

    def _literal(self) -> str | int | bool:
        if self._tokens.takes("TRUE"):
            return True
        if self._tokens.takes("FALSE"):
            return False
        if self._tokens.takes("-"):
            return -self._integer()
        if not self._tokens.rest or self._tokens.rest[0].kind is not Kind.STRING:
            return self._integer()
        text = self._tokens.take().text
        # Two strings side by side are one, and a letter before a string changes it.
        if not text.startswith("'") or "'" in text[1:-1]:
            raise _NotPlainError
        return text[1:-1]

    def _integer(self) -> int:
        found = self._tokens.take()
        if found.kind not in (Kind.NUMBER, Kind.WORD) or not _INTEGER.fullmatch(found.text):
            raise _NotPlainError
        return int(found.text)

    def _names(self) -> list[str]:
        found = [self._name()]
        while self._tokens.takes("."):
            found.append(self._name())
        return found

    def _name(self) -> str:
        found = self._tokens.take()
        if found.kind is Kind.QUOTED and len(found.text) > len("``"):
            return found.text[1:-1].replace("``", "`")
        word = found.text.upper()
        if found.kind is not Kind.WORD or not _WORD.fullmatch(word) or word in _KEYWORDS - _NAMES:
            raise _NotPlainError
        return found.text


def date_of(text: str) -> date | None:
    """The date of a literal that everyone reads in the same way, after the change of calendars; None for others."""
    try:
        found = date.fromisoformat(text) if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else None
    except ValueError:
        return None
    return found if found is not None and found >= _NEW_CALENDAR else None
