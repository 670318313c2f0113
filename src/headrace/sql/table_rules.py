"""Parses key constraints in the brackets of EXPECT, which are table rules."""

from __future__ import annotations

from collections.abc import Callable

from headrace.model.location import Location
from headrace.model.names import InvalidName, QualifiedName, split_name
from headrace.model.table_rules import ForeignKey, Unique
from headrace.sql.cursor import Cursor

ResolveName = Callable[[str, Location], QualifiedName]


def key_ahead(condition: Cursor, resolve_name: ResolveName) -> Unique | ForeignKey | None:
    """The key constraint of a condition; None for a condition on a row, which is not consumed.

    Args:
        condition: a cursor at its beginning.
        resolve_name: returns the dataset for a spelling.

    Raises:
        PipelineError: SQL.SYNTAX, NAME.INVALID.
    """
    location = condition.location
    if condition.accept("PRIMARY", "KEY"):
        return _ended(condition, Unique(_columns(condition), required=True))
    if condition.ahead("UNIQUE") and condition.rest[1:2] and condition.rest[1].is_symbol("("):
        condition.position += 1
        return _ended(condition, Unique(_columns(condition)))
    if condition.accept("FOREIGN", "KEY"):
        own = _columns(condition)
        condition.expect("REFERENCES")
        other = resolve_name(condition.name("the table that the key refers to"), location)
        referenced = own if condition.done else _columns(condition)
        if len(referenced) != len(own):
            raise condition.failure(f"as many columns as the key has, {len(own)}")
        return _ended(condition, ForeignKey(own, other, referenced))
    return None


def _ended(condition: Cursor, rule: Unique | ForeignKey) -> Unique | ForeignKey:
    if not condition.done:
        raise condition.failure('")"')
    return rule


def _columns(condition: Cursor) -> tuple[str, ...]:
    return tuple(_column(item) for item in condition.brackets("columns").items())


def _column(item: Cursor) -> str:
    written = item.name("a column")
    if not item.done:
        raise item.failure('"," or ")"')
    try:
        (name,) = split_name(written)
    except (InvalidName, ValueError):
        raise item.failure("a column of the table") from None
    return name
