"""Parses CREATE: datasets and flows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.model.datasets import PRIVATE_PROPERTY, Dataset, Flow, Kind, SqlQuery
from headrace.model.location import Location
from headrace.model.names import QualifiedName, quoted
from headrace.model.refresh import RefreshPolicy
from headrace.sql.changes import declare_auto_cdc, declare_auto_cdc_from, replace_using
from headrace.sql.clauses import Clauses, clauses
from headrace.sql.columns import plain_name
from headrace.sql.cursor import Cursor
from headrace.sql.lexer import bracket_pairs
from headrace.sql.readonly import changing_verb, starts_query
from headrace.sql.state import FileState
from headrace.sql.unsupported_sql import (
    CHANGING_QUERY,
    CREATED,
    FLOW_TARGETS,
    FLOWS,
    MODIFIERS,
    PRIVATE_VIEW,
    REFRESH_POLICY,
    TEMPORARY_TABLE,
    VIEW_CLAUSE,
    VIEW_TYPES,
    Refusal,
    found_ahead,
    unsupported,
)

_USAGE = {
    Kind.STREAMING_TABLE: "CREATE STREAMING TABLE name [(columns, expectations)] [clauses] [AS query]",
    Kind.MATERIALIZED_VIEW: "CREATE MATERIALIZED VIEW name [(columns, expectations)] [clauses] AS query",
    Kind.TEMPORARY_VIEW: "CREATE TEMPORARY VIEW name [(columns, expectations)] [COMMENT 'text'] AS query",
    Kind.PERSISTED_VIEW: "CREATE VIEW name [(columns)] [COMMENT 'text'] [TBLPROPERTIES (key = value)] AS query",
}
_FLOW_USAGE = (
    "CREATE FLOW name [COMMENT 'text'] AS INSERT INTO [ONCE] target [BY NAME | (columns)] "
    "[REPLACE USING (keys) SEQUENCE BY expression] query, or CREATE FLOW name AS AUTO CDC [ONCE] INTO target and so on"
)
_MODIFIERS = {
    **{word: word for word in ("STREAMING", "LIVE", "MATERIALIZED", "PRIVATE", "TEMPORARY")},
    "TEMP": "TEMPORARY",
}
# The modifiers of private tables; TEMPORARY is the vendor's old keyword.
_PRIVATE = frozenset({"PRIVATE", "TEMPORARY"})
# The words between CREATE and the name, in any order; LIVE is the vendor's old keyword.
_KINDS: Mapping[tuple[frozenset[str], str], Kind] = {
    (frozenset(words.split()[:-1]), words.split()[-1]): kind
    for words, kind in (
        ("STREAMING TABLE", Kind.STREAMING_TABLE),
        ("STREAMING LIVE TABLE", Kind.STREAMING_TABLE),
        ("LIVE TABLE", Kind.MATERIALIZED_VIEW),
        ("MATERIALIZED VIEW", Kind.MATERIALIZED_VIEW),
        ("VIEW", Kind.PERSISTED_VIEW),
        ("TEMPORARY VIEW", Kind.TEMPORARY_VIEW),
        ("LIVE VIEW", Kind.TEMPORARY_VIEW),
        ("TEMPORARY LIVE VIEW", Kind.TEMPORARY_VIEW),
        ("STREAMING LIVE VIEW", Kind.TEMPORARY_VIEW),
        ("TEMPORARY STREAMING LIVE VIEW", Kind.TEMPORARY_VIEW),
    )
}
_EXPECTED = "STREAMING TABLE, MATERIALIZED VIEW, TEMPORARY VIEW, VIEW or FLOW"
_STORED_CLAUSES = {
    "USING": "USING",
    "PARTITIONED": "PARTITIONED BY",
    "CLUSTER": "CLUSTER BY",
    "SCHEDULE": "SCHEDULE",
    "TRIGGER": "TRIGGER ON UPDATE",
    "REFRESH": "REFRESH POLICY",
}
# Its value applies to schedules without a time zone.
_ZONE_KEY = "spark.sql.session.timeZone"
_AFTER_TARGET = ("SELECT", "WITH", "FROM", "VALUES", "BY")
_CHANGING = ("INSERT", "UPDATE", "DELETE", "MERGE")


def create(state: FileState, cursor: Cursor) -> None:
    """Declare the dataset or flow of a CREATE statement; unsupported parts are added to the problems.

    Raises:
        PipelineError: SQL.SYNTAX, NAME.INVALID; UNSUPPORTED.SQL for a query that writes.
    """
    cursor.expect("CREATE")
    if cursor.accept("OR") and not (cursor.accept("REFRESH") or cursor.accept("REPLACE")):
        raise cursor.failure("REFRESH or REPLACE")
    modifiers = _modifiers(state, cursor)
    if cursor.ahead("FLOW") and not modifiers:
        _declare_flow(state, cursor)
        return
    location = Location(state.file, cursor.statement.line)
    for noun in ("TABLE", "VIEW"):
        kind = _KINDS.get((modifiers, noun))
        stored = _KINDS.get((modifiers - _PRIVATE, noun)) if modifiers & _PRIVATE and kind is None else None
        if kind is not None and cursor.accept(noun):
            _dataset(state, cursor, kind)
            return
        if stored is not None and cursor.accept(noun):
            if stored.is_view:
                state.problems.append(unsupported("PRIVATE", PRIVATE_VIEW, location))
            else:
                _dataset(state, cursor, stored, private=True)
            return
    refused = found_ahead(CREATED, cursor)
    if refused is not None and not modifiers:
        state.problems.append(unsupported(f"CREATE {refused[0]}", refused[1], location))
    elif "TEMPORARY" in modifiers and cursor.ahead("TABLE"):
        state.problems.append(unsupported("CREATE TEMPORARY TABLE", TEMPORARY_TABLE, location))
    else:
        raise cursor.failure(_EXPECTED)


def _modifiers(state: FileState, cursor: Cursor) -> frozenset[str]:
    found: set[str] = set()
    while not cursor.done:
        word = cursor.rest[0].text.upper()
        if word in MODIFIERS:
            state.problems.append(unsupported(word, MODIFIERS[word], cursor.location))
        elif word in _MODIFIERS:
            found.add(_MODIFIERS[word])
        else:
            break
        cursor.position += 1
    return frozenset(found)


def _dataset(state: FileState, cursor: Cursor, kind: Kind, *, private: bool = False) -> None:
    cursor.usage = _USAGE[kind]
    location = Location(state.file, cursor.statement.line)
    cursor.accept("IF", "NOT", "EXISTS")
    name = state.name(cursor.name(f"the name of the {kind.label}"), location, used=kind is not Kind.TEMPORARY_VIEW)
    zone = state.conf.get(_ZONE_KEY) or state.values.get(_ZONE_KEY) or "UTC"
    found = clauses(cursor, state.problems, state.name, zone)
    if found.columns.untyped is not None and (found.columns.typed or kind is Kind.STREAMING_TABLE):
        raise found.columns.untyped
    if kind.is_view:
        _refuse_stored(state, found, location)
    elif kind is Kind.STREAMING_TABLE and found.refresh_policy is not RefreshPolicy.AUTO:
        state.problems.append(unsupported("REFRESH POLICY", REFRESH_POLICY, location))
    body = None
    line = 0
    is_auto_cdc = kind is Kind.STREAMING_TABLE and cursor.accept("FLOW", "AUTO", "CDC")
    is_replace_using = kind is Kind.STREAMING_TABLE and cursor.accept("FLOW", "REPLACE", "USING")
    if not (is_auto_cdc or is_replace_using) and cursor.accept("AS"):
        line = cursor.location.line
        body = _query(state, cursor)
    elif kind is not Kind.STREAMING_TABLE:
        raise cursor.failure("AS and a query")
    state.declarations.add_dataset(
        Dataset(
            name=name,
            kind=kind,
            location=location,
            comment=found.comment,
            schema=found.columns.schema,
            properties={**found.properties, **({PRIVATE_PROPERTY: "true"} if private else {})},
            partition_by=found.partition_by,
            cluster_by=found.cluster_by,
            expectations=tuple(found.columns.expectations),
            column_comments=found.columns.comments,
            metrics=tuple(found.metrics),
            schedule=found.schedule,
            refresh_policy=found.refresh_policy,
        ),
        None,
    )
    if is_auto_cdc:
        declare_auto_cdc_from(state, cursor, name, once=cursor.accept("ONCE"))
    if is_replace_using:
        _declare_replacing_flow(
            state, cursor, Flow(str(name), name, SqlQuery("", state.naming, by_name=False), location)
        )
    if body is not None:
        # The renaming wrapper adds one line before the body.
        query = SqlQuery(_renamed(body, name, found), state.naming, line=line - bool(found.columns.named))
        state.declarations.add_flow(Flow(str(name), name, query, location, spark_conf=dict(state.conf)))


def _refuse_stored(state: FileState, found: Clauses, location: Location) -> None:
    """Refuse clauses that only stored datasets support."""
    if found.columns.typed:
        state.problems.append(unsupported("column types", VIEW_TYPES, location))
    for word, clause in _STORED_CLAUSES.items():
        if word in found.seen:
            state.problems.append(unsupported(clause, VIEW_CLAUSE, location))


def _renamed(body: str, name: QualifiedName, found: Clauses) -> str:
    """The query with the column names of a list without types."""
    if not found.columns.named:
        return body
    columns = ", ".join(quoted(column) for column in found.columns.named)
    # The body is the user's own query; our additions are quoted.
    return f"SELECT * FROM (\n{body}\n) AS {quoted(name.name)}({columns})"  # noqa: S608


def _declare_flow(state: FileState, cursor: Cursor) -> None:
    cursor.usage = _FLOW_USAGE
    location = Location(state.file, cursor.statement.line)
    cursor.expect("FLOW")
    name = plain_name(cursor, "the name of the flow")
    comment = cursor.string("a comment in quotes") if cursor.accept("COMMENT") else None
    cursor.expect("AS")
    if cursor.accept("AUTO", "CDC") or cursor.accept("APPLY", "CHANGES"):
        declare_auto_cdc(state, cursor, name, comment)
        return
    if _refused(state, cursor, FLOWS):
        return
    cursor.expect("INSERT", "INTO")
    once = _accept_once(cursor)
    target_location = cursor.location
    target = state.name(cursor.name("the name of the target"), target_location)
    if _refused(state, cursor, FLOW_TARGETS):
        return
    by_name = cursor.accept("BY", "NAME")
    columns = () if by_name else _target_columns(cursor)
    if _refused(state, cursor, FLOW_TARGETS):
        return
    if cursor.accept("REPLACE", "USING"):
        query = SqlQuery("", state.naming, columns, by_name)
        _declare_replacing_flow(state, cursor, Flow(name, target, query, location, once, comment))
        return
    line = cursor.location.line
    query = SqlQuery(_query(state, cursor), state.naming, columns, by_name, line)
    conf = dict(state.conf)
    state.declarations.add_flow(Flow(name, target, query, location, once, comment, conf, append=True))


def _declare_replacing_flow(state: FileState, cursor: Cursor, flow: Flow) -> None:
    """Parse what follows REPLACE USING and the query, and declare *flow* with them."""
    changes = replace_using(cursor)
    given = flow.query
    assert isinstance(given, SqlQuery)  # noqa: S101 - from the callers
    by_name = cursor.accept("BY", "NAME") or given.by_name
    line = cursor.location.line
    query = replace(given, text=_query(state, cursor), by_name=by_name, line=line)
    conf = dict(state.conf)
    state.declarations.add_flow(replace(flow, query=query, spark_conf=conf, append=True, changes=changes))


def _refused(state: FileState, cursor: Cursor, table: Mapping[tuple[str, ...], Refusal]) -> bool:
    refused = found_ahead(table, cursor)
    if refused is not None:
        state.problems.append(unsupported(*refused, cursor.location))
    return refused is not None


def _accept_once(cursor: Cursor) -> bool:
    """Consume ONCE, unless it is the target's name, and a TABLE before the name."""
    following = cursor.rest[1:2]
    once = bool(following) and following[0].is_name and not following[0].is_word(*_AFTER_TARGET)
    accepted = once and cursor.accept("ONCE")
    following = cursor.rest[1:2]
    if following and following[0].is_name and not following[0].is_word(*_AFTER_TARGET):
        cursor.accept("TABLE")
    return accepted


def _target_columns(cursor: Cursor) -> tuple[str, ...]:
    """The columns of ``INSERT INTO t (a, b)``; does not consume a query in brackets."""
    if cursor.done or not cursor.rest[0].is_symbol("(") or starts_query(cursor.rest[1:]):
        return ()
    found: list[str] = []
    for item in cursor.brackets("columns").items():
        found.append(plain_name(item, "a column's name"))
        if not item.done:
            raise item.failure('"," or ")"')
    return tuple(found)


def _query(state: FileState, cursor: Cursor) -> str:
    """The text of the query, which is the rest of the statement."""
    if not starts_query(cursor.rest):
        raise cursor.failure("a query")
    pairs = bracket_pairs(cursor.statement.tokens)
    closed = {*pairs, *pairs.values()}
    for index in range(cursor.position, cursor.end):
        if cursor.statement.tokens[index].is_symbol("(", ")", "[", "]") and index not in closed:
            raise cursor.part(index, cursor.end).failure("every bracket to be one of a pair")
    verb = changing_verb(cursor.rest)
    if verb is not None and verb.is_word(*_CHANGING):
        raise unsupported(verb.text.upper(), CHANGING_QUERY, Location(state.file, verb.line))
    return cursor.text
