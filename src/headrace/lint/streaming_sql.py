"""SQL queries that read a stream, directly or through a temporary view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.lint.sql_streams import begins_stream, name_at, streams, tables_read
from headrace.lint.sql_texts import Sql
from headrace.lint.values import Frame


def reads_stream(sql: Sql) -> bool:
    """Whether a statement reads a stream."""
    return sql.whole and (streams(sql.tokens) or any(view.streaming for view in views_of(sql)))


def views_of(sql: Sql) -> tuple[Frame, ...]:
    """The frames of the program's temporary views that a statement reads."""
    views = sql.program.facts.views if sql.program is not None else {}
    return tuple(views[name.casefold()] for name in tables_read(sql.tokens) if name.casefold() in views)


def in_streaming_queries(sql: Sql, positions: Iterable[int]) -> Iterator[int]:
    """Of some token positions, those inside a query that reads a stream, directly or in a subquery."""
    if not reads_stream(sql):
        return
    enclosing = list(_enclosing_queries(sql))
    views = sql.program.facts.views if sql.program is not None else {}
    stream_queries: set[int] = set()
    for index in range(1, len(sql.tokens)):
        read = sql.tokens[index - 1].is_word("FROM", "JOIN")
        view = views.get(name_at(sql.tokens, index).casefold()) if read else None
        if begins_stream(sql.tokens, index) or (view is not None and view.streaming):
            stream_queries.update(enclosing[index])
    yield from (index for index in positions if enclosing[index][-1] in stream_queries)


def _enclosing_queries(sql: Sql) -> Iterator[tuple[int, ...]]:
    """For each token, the start positions of the queries that contain it, the statement first."""
    opened: list[int | None] = []
    for index, token in enumerate(sql.tokens):
        if token.is_symbol("("):
            behind = sql.tokens[index + 1 : index + 2]
            opened.append(index if behind and behind[0].is_word("SELECT", "WITH", "FROM") else None)
        elif token.is_symbol(")") and opened:
            opened.pop()
        yield (-1, *(begin for begin in opened if begin is not None))
