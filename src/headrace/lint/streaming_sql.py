"""Queries in SQL that read a stream, also by way of a temporary view of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.lint.sql_streams import begins_stream, name_at, streams, tables_read
from headrace.lint.sql_texts import Sql
from headrace.lint.values import Frame


def reads_stream(sql: Sql) -> bool:
    """Whether a statement is seen to read a stream."""
    return sql.whole and (streams(sql.tokens) or any(view.streaming for view in views_of(sql)))


def views_of(sql: Sql) -> tuple[Frame, ...]:
    """What the views are that it reads, of those that the program makes."""
    views = sql.within.facts.views if sql.within is not None else {}
    return tuple(views[name.casefold()] for name in tables_read(sql.tokens) if name.casefold() in views)


def beside_streams(sql: Sql, places: Iterable[int]) -> Iterator[int]:
    """Those of some places in a statement that stand in a query which reads a stream, also by a query within it."""
    if not reads_stream(sql):
        return
    around = list(_queries_around(sql))
    views = sql.within.facts.views if sql.within is not None else {}
    streamed: set[int] = set()
    for index in range(1, len(sql.tokens)):
        read = sql.tokens[index - 1].is_word("FROM", "JOIN")
        view = views.get(name_at(sql.tokens, index).casefold()) if read else None
        if begins_stream(sql.tokens, index) or (view is not None and view.streaming):
            streamed.update(around[index])
    yield from (index for index in places if around[index][-1] in streamed)


def _queries_around(sql: Sql) -> Iterator[tuple[int, ...]]:
    """Of each piece the queries that it stands in, each by where it begins, the statement first."""
    opened: list[int | None] = []
    for index, token in enumerate(sql.tokens):
        if token.is_symbol("("):
            behind = sql.tokens[index + 1 : index + 2]
            opened.append(index if behind and behind[0].is_word("SELECT", "WITH", "FROM") else None)
        elif token.is_symbol(")") and opened:
            opened.pop()
        yield (-1, *(begin for begin in opened if begin is not None))
