"""SQL expressions of requirements: which columns they name."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError


class InvalidExpression(ValueError):
    """A text is no SQL expression; the message says why."""


def columns_in(text: str) -> tuple[str, ...]:
    """The columns that an expression names, in order.

    Raises:
        InvalidExpression: the text is no single expression.
    """
    try:
        tree = sqlglot.parse_one(f"SELECT {text}", dialect="databricks")
    except SqlglotError as error:
        raise InvalidExpression("it is no SQL expression") from error
    if (
        not isinstance(tree, exp.Select)
        or len(tree.expressions) != 1
        or tree.args.get("from_")
        or tree.args.get("from")
    ):
        raise InvalidExpression("it is not a single SQL expression")
    if tree.find(exp.Subquery, exp.Placeholder) or isinstance(tree.expressions[0], exp.Alias):
        raise InvalidExpression("it may have neither a subquery nor an alias")
    return tuple(dict.fromkeys(column.parts[0].name for column in tree.find_all(exp.Column)))
