"""Queries that mean the same to every reader of a table: columns, comparisons with literals, LIMIT and counts.

Whatever is not certain to be one of these is none of them; it is for Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headrace.model.names import quoted

Literal = str | int | bool | None

_DIALECT = "databricks"
_INTEGER = re.compile(r"[0-9]{1,18}")
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


_COMPARISONS: Mapping[type[exp.Expression], Comparison] = {
    exp.EQ: Comparison.EQUAL,
    exp.NEQ: Comparison.NOT_EQUAL,
    exp.LT: Comparison.LESS,
    exp.LTE: Comparison.AT_MOST,
    exp.GT: Comparison.GREATER,
    exp.GTE: Comparison.AT_LEAST,
}


class _NotPlainError(Exception):
    """The query has something else."""


def plain_select(text: str) -> PlainSelect | None:
    """The query of a text, or None if it is for Spark."""
    # Spark and the parser read escapes, hints and parameters in their own ways.
    if any(sign in text for sign in ("\\", "/*", "--", "$", "{", ";", '"', "\0")):
        return None
    try:
        found = sqlglot.parse(text, read=_DIALECT)
    except (SqlglotError, RecursionError):
        return None
    if len(found) != 1 or type(found[0]) is not exp.Select:
        return None
    try:
        return _select(found[0])
    except _NotPlainError:
        return None


def _select(select: exp.Select) -> PlainSelect:
    parts = {key.rstrip("_"): part for key, part in select.args.items() if part}
    _only(parts, "expressions", "from", "where", "limit")
    if "from" not in parts:
        raise _NotPlainError
    outputs = tuple(map(_output, select.expressions))
    if any(output is None for output in outputs):
        if len(outputs) > 1:
            raise _NotPlainError
        outputs = ()
    found = tuple(output for output in outputs if output is not None)
    if len({output.column is None for output in found}) > 1:
        raise _NotPlainError
    where, limit = parts.get("where"), parts.get("limit")
    conditions = () if where is None else tuple(_conditions(where.this))
    return PlainSelect(_table(parts["from"]), found, conditions, None if limit is None else _limit(limit))


def _table(source: exp.Expression) -> str:
    _only(source.args, "this")
    table = source.this
    if type(table) is not exp.Table:
        raise _NotPlainError
    _only(table.args, "this", "db", "catalog")
    names = [table.args[key] for key in ("catalog", "db", "this") if table.args.get(key)]
    return quoted(*map(_identifier, names))


def _output(found: exp.Expression) -> Output | None:
    """A column of the result; None for all columns of the table."""
    if type(found) is exp.Star:
        _only(found.args)
        return None
    if type(found) is exp.Alias:
        _only(found.args, "this", "alias")
        return Output(_counted_or_column(found.this), _identifier(found.args["alias"]))
    column = _counted_or_column(found)
    return Output(column, "count(1)" if column is None else column)


def _counted_or_column(found: exp.Expression) -> str | None:
    if type(found) is exp.Count:
        _only(found.args, "this", "big_int")
        if type(found.this) is exp.Star:
            _only(found.this.args)
        elif _integer(found.this) != 1:
            raise _NotPlainError
        return None
    return _column(found)


def _column(found: exp.Expression) -> str:
    if type(found) is not exp.Column:
        raise _NotPlainError
    _only(found.args, "this")
    return _identifier(found.this)


def _identifier(found: exp.Expression) -> str:
    if type(found) is not exp.Identifier or not found.this:
        raise _NotPlainError
    name = str(found.this)
    # A word without quotes may be a function without brackets, such as current_date, or a literal.
    if not found.args.get("quoted") and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise _NotPlainError
    return name


def _conditions(found: exp.Expression) -> list[Condition]:
    if type(found) is exp.And:
        return [*_conditions(found.this), *_conditions(found.expression)]
    if type(found) is exp.Paren:
        return _conditions(found.this)
    if type(found) is exp.Not:
        inner = _conditions(found.this)
        if [condition.comparison for condition in inner] != [Comparison.IS_NULL]:
            raise _NotPlainError
        return [Condition(inner[0].column, Comparison.IS_NOT_NULL)]
    if type(found) is exp.Is and type(found.expression) is exp.Null:
        return [Condition(_column(found.this), Comparison.IS_NULL)]
    comparison = _COMPARISONS.get(type(found))
    if comparison is None:
        raise _NotPlainError
    return [Condition(_column(found.this), comparison, _literal(found.expression))]


def _literal(found: exp.Expression) -> str | int | bool:
    if type(found) is exp.Boolean:
        return bool(found.this)
    if type(found) is exp.Literal and found.is_string:
        return str(found.this)
    if type(found) is exp.Neg:
        return -_integer(found.this)
    return _integer(found)


def _integer(found: exp.Expression) -> int:
    if type(found) is not exp.Literal or found.is_string or not _INTEGER.fullmatch(str(found.this)):
        raise _NotPlainError
    return int(found.this)


def _limit(found: exp.Expression) -> int:
    _only(found.args, "expression")
    limit = _integer(found.args["expression"])
    if limit > _LARGEST_LIMIT:
        raise _NotPlainError
    return limit


def _only(parts: Mapping[str, object], *keys: str) -> None:
    if any(part and key not in keys for key, part in parts.items()):
        raise _NotPlainError


def date_of(text: str) -> date | None:
    """The date of a literal that everyone reads in the same way, after the change of calendars; None for others."""
    try:
        found = date.fromisoformat(text) if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else None
    except ValueError:
        return None
    return found if found is not None and found >= _NEW_CALENDAR else None
