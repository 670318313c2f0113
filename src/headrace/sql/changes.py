"""AUTO CDC, in the vendor's older spelling APPLY CHANGES: what stands behind the words."""

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
from headrace.sql.refusals import Refusal, unsupported
from headrace.sql.state import FileState

_USAGE = (
    "AUTO CDC [ONCE] INTO target FROM STREAM source [WITH (options)] KEYS (columns) [IGNORE NULL UPDATES [ON columns]] "
    "[APPLY AS DELETE WHEN condition] [APPLY AS TRUNCATE WHEN condition] SEQUENCE BY expression "
    "[SYSTEM SEQUENCE BY expression] [COLUMNS TO UPDATE expression] [COLUMNS columns] "
    "[STORED AS SCD TYPE 1 | SCD TYPE 2 | BITEMPORAL] [TRACK HISTORY ON columns], "
    "where columns are (a, b) or * EXCEPT (a, b)"
)
_SNAPSHOTS = Refusal(
    "A snapshot may come from a function, which SQL has not",
    "Write dp.create_auto_cdc_from_snapshot_flow(target=..., source=..., keys=[...]) in a Python file of the project",
)


def changes_into(state: FileState, cursor: Cursor, name: str | None = None, comment: str | None = None) -> None:
    """Declare the flow that ``[ONCE] INTO target FROM source`` and its clauses say.

    Args:
        state: of the file.
        cursor: behind the words AUTO CDC.
        name: the flow's, if it has one of its own.
        comment: the flow's.

    Raises:
        PipelineError: SQL.SYNTAX, NAME.INVALID, CDC.BAD_ARGUMENT.
    """
    cursor.usage = _USAGE
    once = cursor.accept("ONCE")
    cursor.expect("INTO")
    place = cursor.location
    target = state.name(cursor.name("the name of the target"), place)
    changes_from(state, cursor, target, name, comment, once=once)


def changes_from(
    state: FileState,
    cursor: Cursor,
    target: QualifiedName,
    name: str | None = None,
    comment: str | None = None,
    *,
    once: bool = False,
) -> None:
    """Declare the flow that ``FROM source`` and its clauses say; the same errors as :func:`changes_into`."""
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
        null_keeps=values.get("IGNORE NULL UPDATES", ApplyChanges.null_keeps),
        sets=values.get("COLUMNS TO UPDATE"),
        scd_type=values.get("STORED AS", "1"),
        tracked=values.get("TRACK HISTORY ON", ALL_COLUMNS),
        system_sequence_by=values.get("SYSTEM SEQUENCE BY"),
    )
    own = name or str(target)
    wrong = conflict(changes)
    if wrong is not None:
        argument, reason = wrong
        raise PipelineError("CDC.BAD_ARGUMENT", location=location, flow=own, argument=argument, reason=reason)
    text = SqlQuery(query, state.naming, line=line)
    conf = dict(state.conf)
    state.declarations.add_flow(Flow(own, target, text, location, once, comment, conf, append=True, changes=changes))


def replacing(cursor: Cursor) -> ApplyChanges:
    """How rows replace others: what stands behind REPLACE USING, up to the query or BY NAME.

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
    """The name behind FROM, and the query that reads it, as a stream unless it is read once."""
    if cursor.ahead("SNAPSHOT") and not cursor.ahead("SNAPSHOT", "KEYS") and not cursor.ahead("SNAPSHOT", "WITH"):
        raise unsupported("FROM SNAPSHOT", _SNAPSHOTS, cursor.location)
    cursor.accept("STREAM")
    inside = cursor.brackets("the name of the source") if cursor.rest and cursor.rest[0].is_symbol("(") else cursor
    name = inside.name("the name of the source")
    if inside is not cursor and not inside.done:
        raise inside.failure('")" behind the name of the source')
    begin = cursor.position
    if cursor.accept("WITH"):
        cursor.brackets("options of the source")
    options = cursor.part(begin, cursor.position)
    # Nothing but a name and options, which were read as such.
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
    """Step to the next clause and give a cursor on what stands before it."""
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
