"""Queries in SQL that read a stream, also by way of a temporary view of one."""

from __future__ import annotations

from headrace.lint.sql_pieces import Sql
from headrace.lint.sql_streams import streams, tables_read
from headrace.lint.values import Frame


def reads_stream(sql: Sql) -> bool:
    """Whether a statement is seen to read a stream."""
    return sql.whole and (streams(sql.tokens) or any(view.streaming for view in views_of(sql)))


def views_of(sql: Sql) -> tuple[Frame, ...]:
    """What the views are that it reads, of those that the program makes."""
    views = sql.within.facts.views if sql.within is not None else {}
    return tuple(views[name] for name in tables_read(sql.tokens) if name in views)
