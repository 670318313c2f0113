"""What an expectation is about, from its rule or from the text of its predicate."""

from __future__ import annotations

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from headrace.model.expectation_facts import CUSTOM, FRESHNESS, NOT_NULL, ROW_COUNT, UNIQUE, ExpectationFacts
from headrace.model.expectations import Expectation
from headrace.model.table_rules import ForeignKey, Fresh, OnTime, RowCount, Unique

_CLASSES = {Unique: UNIQUE, RowCount: ROW_COUNT, Fresh: FRESHNESS, OnTime: FRESHNESS}


def expectation_facts(expectation: Expectation) -> ExpectationFacts:
    """The class of an expectation, and its column if it has exactly one."""
    rule = expectation.predicate
    match rule:
        case Unique(columns=columns) | ForeignKey(columns=columns):
            pass
        case Fresh(column=column) | OnTime(column=column):
            columns = (column,)
        case str():
            return _of_text(expectation.name, rule)
        case _:
            columns = ()
    return ExpectationFacts(
        expectation.name, _CLASSES.get(type(rule), CUSTOM), columns[0] if len(columns) == 1 else None
    )


def _of_text(name: str, text: str) -> ExpectationFacts:
    try:
        tree = parse_one(text, read="databricks")
    except (SqlglotError, RecursionError):
        # Spark reads it; what it is about is not known.
        return ExpectationFacts(name)
    columns = dict.fromkeys(column.parts[0].name for column in tree.find_all(exp.Column))
    column = next(iter(columns)) if len(columns) == 1 else None
    is_not_null = isinstance(tree, exp.Not) and isinstance(tree.this, exp.Is) and isinstance(tree.this.this, exp.Column)
    return ExpectationFacts(name, NOT_NULL if is_not_null and column else CUSTOM, column)
