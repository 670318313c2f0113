"""Parses the list in brackets after a dataset's name: columns and expectations."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.errors import PipelineError
from headrace.model.expectations import Action, Expectation
from headrace.model.names import InvalidName, split_name
from headrace.sql.cursor import Cursor, unclosed
from headrace.sql.lexer import Token
from headrace.sql.table_rules import ResolveName, key_ahead
from headrace.sql.unsupported_sql import COLUMNS, found_ahead, unsupported

_ACTIONS = {("DROP", "ROW"): Action.DROP, ("FAIL", "UPDATE"): Action.FAIL, ("QUARANTINE", "ROW"): Action.QUARANTINE}
_AFTER_TYPE = {"NOT", "NULL", "COMMENT", *(words[0] for words in COLUMNS)}


@dataclass
class ColumnList:
    """The parsed list: ``typed`` columns as DDL, ``named`` ones by name only, in order.

    ``comments`` belong to named columns; a typed column has its comment in the DDL. ``untyped`` is the error for the
    first column without a type, to raise if types are required.
    """

    typed: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    comments: dict[str, str] = field(default_factory=dict)
    expectations: list[Expectation] = field(default_factory=list)
    untyped: PipelineError | None = None

    @property
    def schema(self) -> str | None:
        """The typed columns as a DDL string."""
        return ", ".join(self.typed) or None


def column_list(cursor: Cursor, problems: list[PipelineError], resolve_name: ResolveName) -> ColumnList:
    """Parse the list at *cursor*; unsupported entries are added to *problems*.

    *resolve_name* returns the dataset for a spelling.

    Raises:
        PipelineError: SQL.SYNTAX, NAME.INVALID.
    """
    found = ColumnList()
    for item in cursor.brackets("columns or expectations").items():
        if item.ahead("CONSTRAINT"):
            _constraint(item, found, problems, resolve_name)
        elif (refused := found_ahead(COLUMNS, item)) is not None and not _is_column(item):
            problems.append(unsupported(*refused, item.location))
        else:
            _column(item, found, problems)
    return found


def plain_name(cursor: Cursor, what: str) -> str:
    """Consume a name of one part and return it without quotes.

    Raises:
        PipelineError: SQL.SYNTAX if something else follows.
    """
    begin = cursor.position
    try:
        parts = split_name(cursor.name(what))
    except InvalidName:
        parts = ()
    if len(parts) != 1:
        raise cursor.part(begin + 1, cursor.end).failure(f"one part as {what}")
    return parts[0]


def _is_column(item: Cursor) -> bool:
    """True for a column whose name is a constraint keyword: a type follows, not a bracket."""
    following = item.rest[1:2]
    return bool(following) and following[0].is_name and not following[0].is_word("KEY")


def _constraint(item: Cursor, found: ColumnList, problems: list[PipelineError], resolve_name: ResolveName) -> None:
    location = item.location
    item.expect("CONSTRAINT")
    name = plain_name(item, "a constraint's name")
    refused = found_ahead(COLUMNS, item)
    if refused is not None:
        problems.append(unsupported(*refused, item.location))
        return
    item.expect("EXPECT")
    condition = item.brackets("a condition")
    if condition.done:
        raise condition.failure("a condition")
    predicate = key_ahead(condition, resolve_name) or condition.text
    found.expectations.append(Expectation(name, _action(item), predicate, location))


def _action(item: Cursor) -> Action:
    if item.done:
        return Action.WARN
    item.expect("ON", "VIOLATION")
    for words, action in _ACTIONS.items():
        if item.accept(*words):
            if not item.done:
                raise item.failure('"," or ")"')
            return action
    raise item.failure("DROP ROW, FAIL UPDATE or QUARANTINE ROW")


def _column(item: Cursor, found: ColumnList, problems: list[PipelineError]) -> None:
    begin = item.position
    name = plain_name(item, "a column's name or CONSTRAINT")
    type_begin = item.position
    while not item.done and not _ends_type(item.rest[0]):
        _step(item)
    has_type = item.position > type_begin
    end = item.position
    comment = None
    while not item.done:
        refused = found_ahead(COLUMNS, item)
        if refused is not None:
            problems.append(unsupported(*refused, item.location))
            break
        if item.accept("COMMENT"):
            comment = item.string("a comment in quotes")
        elif not item.accept("NOT", "NULL"):
            raise item.failure("NOT NULL, COMMENT or the next column")
        end = item.position
    if has_type:
        found.typed.append(item.part(begin, end).text)
        return
    found.named.append(name)
    written = item.part(type_begin, item.end)
    found.untyped = found.untyped or written.failure(f'the type of column "{name}"')
    if end > type_begin and not written.ahead("COMMENT"):
        raise found.untyped
    if comment is not None:
        found.comments[name] = comment


def _ends_type(token: Token) -> bool:
    return token.is_word(*_AFTER_TYPE)


def _step(item: Cursor) -> None:
    """Consume one token of a type, or a pair of brackets with its content."""
    if item.rest[0].is_symbol("("):
        item.brackets("the length of the type")
    elif item.rest[0].is_symbol("<"):
        _step_over_angles(item)
    else:
        item.position += 1


def _step_over_angles(item: Cursor) -> None:
    """Consume ``<...>``, whose fields may have comments and NOT NULL."""
    failure = unclosed(item, "<", ">")
    depth = 0
    while not item.done:
        token = item.rest[0]
        depth += token.is_symbol("<") - token.is_symbol(">")
        item.position += 1
        if not depth:
            return
    raise failure
