"""Values that conditions ask for, so that sample rows satisfy them: texts that are compared, and bounds of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError


@dataclass
class Hint:
    """What conditions say of one column."""

    texts: list[str] = field(default_factory=list)
    least: float | None = None
    most: float | None = None


def hints_of(conditions: Iterable[str]) -> dict[str, Hint]:
    """The hints for each column, by its name in lower case; conditions that say nothing simple are passed over."""
    found: dict[str, Hint] = {}
    for condition in conditions:
        try:
            tree = sqlglot.parse_one(condition, dialect="databricks")
        except SqlglotError:
            continue
        nodes: Iterator[Any] = tree.find_all(exp.EQ, exp.In, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
        for node in nodes:
            _read(node, found)
    return found


def _read(node: Any, found: dict[str, Hint]) -> None:
    column = node.this
    if not isinstance(column, exp.Column):
        return
    hint = found.setdefault(column.name.casefold(), Hint())
    if isinstance(node, exp.In):
        hint.texts += [
            str(value.this) for value in node.expressions if isinstance(value, exp.Literal) and value.is_string
        ]
    elif isinstance(node, exp.Between):
        _bound(hint, node.args["low"], above=True)
        _bound(hint, node.args["high"], above=False)
    elif isinstance(node, exp.EQ) and isinstance(node.expression, exp.Literal) and node.expression.is_string:
        hint.texts.append(str(node.expression.this))
    elif isinstance(node, (exp.GT, exp.GTE)):
        _bound(hint, node.expression, above=True)
    elif isinstance(node, (exp.LT, exp.LTE)):
        _bound(hint, node.expression, above=False)


def _bound(hint: Hint, value: Any, *, above: bool) -> None:
    if isinstance(value, exp.Neg):
        value = exp.Literal.number(f"-{value.this}")
    if not isinstance(value, exp.Literal) or value.is_string:
        return
    number = float(str(value.this))
    if above:
        hint.least = number if hint.least is None else max(hint.least, number)
    else:
        hint.most = number if hint.most is None else min(hint.most, number)
