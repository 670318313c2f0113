"""Names that are read in a ready session: in the readers, in statements of SQL and in the session's catalog."""

from __future__ import annotations

import re
from functools import wraps
from typing import Any

from pyspark.errors import AnalysisException

from headrace.errors import PipelineError
from headrace.model.names import split_name, sql_text
from headrace.spark.notebook.arguments import with_first
from headrace.spark.notebook.confs import apply, taking_properties
from headrace.spark.notebook.notebook_session import NotebookSession, ready_for
from headrace.spark.notebook.system_tables import with_system_tables
from headrace.sql.lexer import Kind, Token, lex, unquoted
from headrace.sql.targets import About, Target, target_of

_SET = re.compile(r"\s*SET\s+(?P<key>spark\.[\w.]+)\s*=\s*(?P<value>[^;]*?)\s*;?\s*", re.IGNORECASE)


def named_for_reading(original: Any) -> Any:
    """A method of a session, a reader or a catalog whose first argument is a table that is read."""

    @wraps(original)
    def reading(self: Any, *given: Any, **options: Any) -> Any:
        ready = ready_for(_session_of(self))
        name, others, options = with_first(given, options)
        return original(self, name if ready is None else _read(ready, name), *others, **options)

    return reading


def named_schema(original: Any) -> Any:
    """A method of a catalog whose first argument is a schema."""

    @wraps(original)
    def naming(self: Any, name: str | None = None, *arguments: Any, **options: Any) -> Any:
        ready = ready_for(_session_of(self))
        if ready is not None and name is not None:
            name = split_name(ready.names.schema_text(name))[0]
        return original(self, *(() if name is None else (name,)), *arguments, **options)

    return naming


def using_schema(original: Any) -> Any:
    """``setCurrentDatabase`` of a catalog."""

    @wraps(original)
    def using(self: Any, dbName: str) -> Any:  # noqa: N803 - Spark's name
        ready = ready_for(_session_of(self))
        return original(self, dbName) if ready is None else ready.names.use_schema(dbName)

    return using


def using_catalog(original: Any) -> Any:
    """``setCurrentCatalog`` of a catalog."""

    @wraps(original)
    def using(self: Any, catalogName: str) -> Any:  # noqa: N803 - Spark's name
        ready = ready_for(_session_of(self))
        return original(self, catalogName) if ready is None else ready.names.use(catalog=catalogName)

    return using


def running(original: Any) -> Any:
    """``sql`` of a session."""

    @wraps(original)
    def run(self: Any, sqlQuery: str, *arguments: Any, **options: Any) -> Any:  # noqa: N803 - Spark's name
        ready = ready_for(self)
        if ready is None:
            return original(self, sqlQuery, *arguments, **options)
        try:
            with taking_properties(ready, sqlQuery):
                return original(self, _prepared(ready, sqlQuery), *arguments, **options)
        except AnalysisException as error:
            _check_found(ready, error)
            raise

    return run


def _session_of(owner: Any) -> Any:
    return getattr(owner, "_spark", None) or getattr(owner, "_sparkSession", None) or owner


def _read(ready: NotebookSession, name: str) -> str:
    return ready.places.placed_text(ready.names.reading(name))


def _check_found(ready: NotebookSession, error: AnalysisException) -> None:
    """Say of a three-part name that there is no such table, which Spark says in words about catalogs.

    Raises:
        AnalysisException: Spark's own for a table that is not there.
    """
    if (error.getCondition() or "").startswith("REQUIRES_SINGLE_PART_NAMESPACE"):
        name = (error.getMessageParameters() or {}).get("identifier", "")
        if len(split_name(name)) == 3:
            ready.session.table(ready.names.reading(name))


def _prepared(ready: NotebookSession, text: str) -> str:
    """The statement that Spark gets for a statement of the script."""
    text = with_system_tables(ready, text)
    lexed = lex(text)
    if lexed.unclosed is not None:
        return text
    tokens = lexed.tokens
    target = target_of(tokens)
    if target.about is About.PIPELINE:
        raise PipelineError("SCRIPT.PIPELINE_STATEMENT", what=" ".join(token.text.upper() for token in tokens[:3]))
    if target.verb == "SET" and (pair := _SET.fullmatch(text)) is not None:
        apply(ready, pair["key"], pair["value"].strip(), ready.session.conf.set)
        return f"SET {pair['key']}"
    if target.about is About.CATALOG:
        return _of_catalog(ready, target, tokens)
    if target.about is About.SCHEMA:
        return _of_schema(ready, text, target, tokens)
    if target.about is About.TABLE:
        begin, end = tokens[target.begin].start, tokens[target.end - 1].end
        spelled = _target_spelled(ready, target, target.name(tokens))
        rest = ready.names.reading_query(text[end:])
        if target.verb == "OPTIMIZE":
            rest = _with_columns_quoted(rest)
        before = text[:begin]
        if tokens[0].is_word("WITH", "FROM"):
            before = ready.names.reading_query(before)
        text = before + spelled + rest
    else:
        text = ready.names.reading_query(text)
    return ready.places.placed_text(text)


def _with_columns_quoted(text: str) -> str:
    """What follows the table in OPTIMIZE, with the columns of ZORDER BY quoted: Delta takes no bare ``timestamp``."""
    tokens = lex(text).tokens
    begin = next((at for at, token in enumerate(tokens) if token.is_word("ZORDER")), len(tokens))
    pieces, position = [], 0
    for token in tokens[begin + 2 :]:
        if token.kind is Kind.WORD:
            pieces += [text[position : token.start], f"`{token.text}`"]
            position = token.end
    return "".join((*pieces, text[position:]))


def _target_spelled(ready: NotebookSession, target: Target, name: str) -> str:
    temporary = bool(target.modifiers & {"TEMP", "TEMPORARY", "GLOBAL"})
    if temporary:
        return name
    return ready.names.writing(name) if target.writes else ready.names.reading(name)


def _of_catalog(ready: NotebookSession, target: Target, tokens: tuple[Token, ...]) -> str:
    token = tokens[target.begin]
    name = unquoted(token) if token.text[:1] in "'\"" else split_name(token.text)[0]
    if target.verb == "USE":
        ready.names.use(catalog=name)
    # A catalog is there once one of its schemas is.
    return f"SELECT {sql_text(name)} AS catalog"


def _of_schema(ready: NotebookSession, text: str, target: Target, tokens: tuple[Token, ...]) -> str:
    name = target.name(tokens)
    spelled = ready.names.schema_text(name)
    if target.verb == "USE":
        ready.names.use_schema(name)
        return f"USE {spelled}"
    if target.verb == "CREATE" and ready.names.make_schema(name):
        return f"SELECT {sql_text(name)} AS schema"
    if target.verb == "DROP":
        ready.names.dropping_schema(name)
    begin, end = tokens[target.begin].start, tokens[target.end - 1].end
    return text[:begin] + spelled + text[end:]
