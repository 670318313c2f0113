"""Loads the declarations in SQL files of a project."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from headrace.errors import PipelineError, Problems, problems_of
from headrace.model.location import Location
from headrace.model.names import InvalidName, check_part, split_name
from headrace.sql.changes import declare_auto_cdc
from headrace.sql.create import create
from headrace.sql.cursor import Cursor
from headrace.sql.lexer import Kind, unquoted
from headrace.sql.markers import bind
from headrace.sql.parameters import substitute
from headrace.sql.state import Declarations, FileState
from headrace.sql.statements import Statement, read_statements
from headrace.sql.unsupported_sql import OTHER_SET, STATEMENTS, VALUE_SHOWN, found_ahead, unsupported

_CONF_PREFIXES = ("pipelines.", "spark.")
_USAGE = (
    "CREATE STREAMING TABLE, CREATE MATERIALIZED VIEW, CREATE TEMPORARY VIEW, CREATE VIEW, CREATE FLOW, "
    "APPLY CHANGES, SET or USE"
)
_SET_USAGE = "SET key = value"
_USE_USAGE = "USE CATALOG name, USE SCHEMA name or USE catalog.schema"
_NONE: Mapping[str, str] = MappingProxyType({})
_OTHER_SETS = ("VAR", "VARIABLE", "TIME", "ROLE", "PATH")


def load_sql(
    text: str,
    file: str,
    registry: Declarations,
    configuration: Mapping[str, str],
    parameters: Mapping[str, str] = _NONE,
) -> None:
    """Declare the datasets and flows of a SQL file in *registry*.

    Problems are added to the registry's; statements after an invalid one are loaded too.

    Args:
        text: the content of the file.
        file: its name for locations.
        registry: receives declarations and problems; its naming applies until the first USE.
        configuration: values of ``${name}``; a SET in the file overrides them for the statements that follow.
        parameters: values of ``:name``.
    """
    load_statements(text.removeprefix("\ufeff"), FileState.at_start(file, registry, configuration, parameters))


def load_statements(text: str, state: FileState) -> None:
    """Load more statements, with the effects of earlier SET and USE."""
    statements, unclosed = read_statements(text, state.file)
    for statement in statements:
        try:
            _declare(state, statement)
        except (PipelineError, Problems) as error:
            state.problems.extend(problems_of(error))
    if unclosed is not None:
        state.problems.append(unclosed)


def _declare(state: FileState, statement: Statement) -> None:
    cursor = Cursor(substitute(statement, state.values, state.file), state.file, _USAGE)
    # A semicolon inside a statement is in brackets: one bracket is missing, or two are swapped.
    semicolon = next((index for index, token in enumerate(cursor.rest) if token.is_symbol(";")), None)
    if semicolon is not None:
        raise cursor.part(semicolon, cursor.end).failure("the bracket to be closed")
    if cursor.ahead("SET"):
        _set(state, cursor)
        return
    cursor = Cursor(bind(cursor.statement, state.parameters, state.file), state.file, _USAGE)
    if cursor.ahead("CREATE"):
        create(state, cursor)
    elif cursor.ahead("USE"):
        _use(state, cursor)
    elif cursor.accept("APPLY", "CHANGES") or cursor.accept("AUTO", "CDC"):
        declare_auto_cdc(state, cursor)
    elif (refused := found_ahead(STATEMENTS, cursor)) is not None:
        state.problems.append(unsupported(*refused, cursor.location))
    else:
        raise cursor.failure("CREATE, SET or USE")


def _set(state: FileState, cursor: Cursor) -> None:
    cursor.usage = _SET_USAGE
    location = cursor.location
    cursor.expect("SET")
    if cursor.ahead("CATALOG") and len(cursor.rest) == 2:
        _use(state, cursor)
        return
    equals = next((index for index, token in enumerate(cursor.rest) if token.is_symbol("=")), None)
    words = [token.text.upper() for token in cursor.rest[:2] if token.kind is Kind.WORD]
    if len(words) == 2 and words[0] in _OTHER_SETS:
        raise unsupported(f"SET {words[0]}", OTHER_SET, location)
    if equals is None:
        raise unsupported(f"SET {cursor.text}".strip(), VALUE_SHOWN, location)
    key = cursor.part(cursor.position, cursor.position + equals)
    value = cursor.part(cursor.position + equals + 1, cursor.end)
    if key.done or any(first.end != second.start for first, second in zip(key.rest, key.rest[1:], strict=False)):
        raise key.failure("one key")
    if value.done:
        raise value.failure("a value")
    name = key.text.replace("`", "")
    state.values[name] = value.text
    if name.casefold().startswith(_CONF_PREFIXES):
        state.conf[name] = _conf_value(value)


def _conf_value(value: Cursor) -> str:
    """The value for Spark: the text as written, without quotes around the whole."""
    first = value.rest[0]
    return unquoted(first) if len(value.rest) == 1 and first.kind is Kind.STRING else value.text


def _use(state: FileState, cursor: Cursor) -> None:
    cursor.usage = _USE_USAGE
    cursor.accept("USE")
    catalog_only = len(cursor.rest) > 1 and cursor.accept("CATALOG")
    if len(cursor.rest) > 1 and not catalog_only:
        _ = cursor.accept("SCHEMA") or cursor.accept("DATABASE") or cursor.accept("NAMESPACE")
    begin = cursor.position
    location = cursor.location
    text = cursor.name("the name of a catalog" if catalog_only else "the name of a schema")
    at_most = 1 if catalog_only else 2
    # Two tokens per part: the name and the dot after it.
    if not cursor.done or cursor.position - begin > 2 * at_most - 1:
        raise cursor.part(min(cursor.position, begin + 2 * at_most - 1), cursor.end).failure("the end of the statement")
    parts = _parts(text, location)
    if catalog_only:
        state.naming = state.naming.use(catalog=parts[0])
    else:
        state.naming = state.naming.use(catalog=parts[0] if len(parts) == 2 else None, schema=parts[-1])


def _parts(text: str, location: Location) -> tuple[str, ...]:
    try:
        parts = split_name(text)
        for part in parts:
            check_part(part)
    except InvalidName as invalid:
        raise PipelineError("NAME.INVALID", location=location, name=text, reason=invalid) from invalid
    return parts
