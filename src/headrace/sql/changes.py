"""AUTO CDC (formerly APPLY CHANGES): parses what follows these words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.errors import PipelineError
from headrace.model.cdc import ALL_COLUMNS, BITEMPORAL, ApplyChanges, Columns, conflict
from headrace.model.datasets import Flow, SqlQuery
from headrace.model.location import Location
from headrace.model.names import QualifiedName
from headrace.sql.columns import plain_name
from headrace.sql.cursor import Cursor
from headrace.sql.readonly import QUERY_WORDS
from headrace.sql.state import FileState
from headrace.sql.unsupported_sql import Refusal, unsupported

_USAGE = (
    "AUTO CDC [ONCE] INTO target FROM STREAM source [WITH (options)] KEYS (columns) [IGNORE NULL UPDATES [ON columns]] "
    "[APPLY AS DELETE WHEN condition] [APPLY AS TRUNCATE WHEN condition] SEQUENCE BY expression "
    "[SYSTEM SEQUENCE BY expression] [COLUMNS TO UPDATE expression] [COLUMNS columns] "
    "[STORED AS SCD TYPE 1 | SCD TYPE 2 | BITEMPORAL] [TRACK HISTORY ON columns], "
    "where columns are (a, b) or * EXCEPT (a, b)"
)
_SNAPSHOTS = Refusal(
    "Snapshots may come from a Python function, which SQL cannot call",
    "Write dp.create_auto_cdc_from_snapshot_flow(target=..., source=..., keys=[...]) in a Python file of the project",
)


def declare_auto_cdc(state: FileState, cursor: Cursor, name: str | None = None, comment: str | None = None) -> None:
    """Declare the flow of ``[ONCE] INTO target FROM source`` and its clauses.

    Args:
        state: the state of the file.
        cursor: positioned after the words AUTO CDC.
        name: the name of the flow; None for the name of the target.
        comment: the comment of the flow.

    Raises:
        PipelineError: SQL.SYNTAX, NAME.INVALID, CDC.BAD_ARGUMENT.
    """
    cursor.usage = _USAGE
    once = cursor.accept("ONCE")
    cursor.expect("INTO")
    location = cursor.location
    target = state.name(cursor.name("the name of the target"), location)
    declare_auto_cdc_from(state, cursor, target, name, comment, once=once)


def declare_auto_cdc_from(
    state: FileState,
    cursor: Cursor,
    target: QualifiedName,
    name: str | None = None,
    comment: str | None = None,
    *,
    once: bool = False,
) -> None:
    """Declare the flow of ``FROM source`` and its clauses; raises the errors of :func:`declare_auto_cdc`."""
    cursor.usage = _USAGE
    location = Location(state.file, cursor.statement.line)
    cursor.expect("FROM")
    line = cursor.location.line
    source, query = _source(cursor, once=once)
    values: dict[str, Any] = {}
    while not cursor.done:
        _clause(cursor, values)
    for needed in ("KEYS", "SEQUENCE BY"):
        if needed not in values:
            raise cursor.failure(needed)
    changes = ApplyChanges(
        source=source,
        keys=values["KEYS"],
        sequence_by=values["SEQUENCE BY"],
        deletes=values.get("APPLY AS DELETE WHEN"),
        truncates=values.get("APPLY AS TRUNCATE WHEN"),
        columns=values.get("COLUMNS", ALL_COLUMNS),
        ignore_null_columns=values.get("IGNORE NULL UPDATES", ApplyChanges.ignore_null_columns),
        sets=values.get("COLUMNS TO UPDATE"),
        scd_type=values.get("STORED AS", "1"),
        tracked=values.get("TRACK HISTORY ON", ALL_COLUMNS),
        system_sequence_by=values.get("SYSTEM SEQUENCE BY"),
    )
    flow_name = name or str(target)
    problem = conflict(changes)
    if problem is not None:
        argument, reason = problem
        raise PipelineError("CDC.BAD_ARGUMENT", location=location, flow=flow_name, argument=argument, reason=reason)
    sql = SqlQuery(query, state.naming, line=line)
    conf = dict(state.conf)
    flow = Flow(flow_name, target, sql, location, once, comment, conf, append=True, changes=changes)
    state.declarations.add_flow(flow)


def replace_using(cursor: Cursor) -> ApplyChanges:
    """Parse what follows REPLACE USING, up to the query or BY NAME.

    Raises:
        PipelineError: SQL.SYNTAX.
    """
    keys = _keys(cursor)
    cursor.expect("SEQUENCE", "BY")
    begin = cursor.position
    while not cursor.done and not cursor.ahead("BY", "NAME") and not cursor.rest[0].is_word(*QUERY_WORDS):
        if cursor.rest[0].is_symbol("("):
            cursor.brackets("an expression")
        else:
            cursor.position += 1
    sequence = cursor.part(begin, cursor.position)
    if sequence.done:
        raise sequence.failure("an expression")
    return ApplyChanges(source=None, keys=keys, sequence_by=sequence.text)


def _source(cursor: Cursor, *, once: bool) -> tuple[str, str]:
    """The name after FROM, and the query that reads it, as a stream unless *once*."""
    if cursor.ahead("SNAPSHOT") and not cursor.ahead("SNAPSHOT", "KEYS") and not cursor.ahead("SNAPSHOT", "WITH"):
        raise unsupported("FROM SNAPSHOT", _SNAPSHOTS, cursor.location)
    cursor.accept("STREAM")
    inside = cursor.brackets("the name of the source") if cursor.rest and cursor.rest[0].is_symbol("(") else cursor
    name = inside.name("the name of the source")
    if inside is not cursor and not inside.done:
        raise inside.failure('")" after the name of the source')
    begin = cursor.position
    if cursor.accept("WITH"):
        cursor.brackets("options of the source")
    options = cursor.part(begin, cursor.position)
    # Safe: only a name and options, which were parsed above.
    if options.done:
        return name, f"SELECT * FROM {name}" if once else f"SELECT * FROM STREAM({name})"  # noqa: S608
    return name, f"SELECT * FROM {'' if once else 'STREAM '}{name} {options.text}"  # noqa: S608


def _clause(cursor: Cursor, values: dict[str, Any]) -> None:
    for words, read in _READERS.items():
        if cursor.ahead(*words):
            key = " ".join(words)
            if key in values:
                raise cursor.failure(f"{key} only once")
            cursor.accept(*words)
            values[key] = read(cursor)
            return
    raise cursor.failure("a clause of AUTO CDC")


def _keys(cursor: Cursor) -> tuple[str, ...]:
    return _names(cursor.brackets("the key columns"))


def _names(cursor: Cursor) -> tuple[str, ...]:
    found = []
    for item in cursor.items():
        found.append(plain_name(item, "a column's name"))
        if not item.done:
            raise item.failure('"," or the end of the columns')
    return tuple(found)


def _columns(cursor: Cursor) -> Columns:
    if cursor.accept_symbol("*"):
        excepted = cursor.accept("EXCEPT")
        return Columns(_names(cursor.brackets("columns"))) if excepted else ALL_COLUMNS
    listed = cursor.rest and cursor.rest[0].is_symbol("(")
    inside = cursor.brackets("columns") if listed else _until_clause(cursor)
    return Columns(_names(inside), all_but=False)


def _null_keeps(cursor: Cursor) -> Columns:
    return _columns(cursor) if cursor.accept("ON") else ALL_COLUMNS


def _expression(cursor: Cursor) -> str:
    found = _until_clause(cursor)
    if found.done:
        raise found.failure("an expression")
    return found.text


def _stored_as(cursor: Cursor) -> str:
    if cursor.accept("BITEMPORAL"):
        return BITEMPORAL
    cursor.expect("SCD", "TYPE")
    number = cursor.rest[0].text if cursor.rest else ""
    if number not in ("1", "2"):
        raise cursor.failure("1 or 2")
    cursor.position += 1
    return number


def _until_clause(cursor: Cursor) -> Cursor:
    """Advance to the next clause and return a cursor on the tokens before it."""
    begin = cursor.position
    while not cursor.done and not any(cursor.ahead(*words) for words in _READERS):
        if cursor.rest[0].is_symbol("("):
            cursor.brackets("an expression")
        else:
            cursor.position += 1
    return cursor.part(begin, cursor.position)


_READERS: Mapping[tuple[str, ...], Callable[[Cursor], Any]] = {
    ("KEYS",): _keys,
    ("IGNORE", "NULL", "UPDATES"): _null_keeps,
    ("APPLY", "AS", "DELETE", "WHEN"): _expression,
    ("APPLY", "AS", "TRUNCATE", "WHEN"): _expression,
    ("SEQUENCE", "BY"): _expression,
    ("SYSTEM", "SEQUENCE", "BY"): _expression,
    ("COLUMNS", "TO", "UPDATE"): _expression,
    ("COLUMNS",): _columns,
    ("STORED", "AS"): _stored_as,
    ("TRACK", "HISTORY", "ON"): _columns,
}
