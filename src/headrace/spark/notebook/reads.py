"""Resolves names that a notebook session reads: in readers, SQL statements and the session's catalog."""

from __future__ import annotations

import re
from functools import wraps
from typing import Any

from pyspark.errors import AnalysisException

from headrace.errors import PipelineError
from headrace.model.names import split_name, sql_text
from headrace.spark.notebook.arguments import with_first
from headrace.spark.notebook.confs import allowing_vendor_properties, apply
from headrace.spark.notebook.notebook_session import NotebookSession, notebook_for
from headrace.spark.notebook.system_tables import with_system_tables
from headrace.sql.lexer import Kind, Token, lex, unquoted
from headrace.sql.targets import Target, TargetKind, target_of

_SET = re.compile(r"\s*SET\s+(?P<key>spark\.[\w.]+)\s*=\s*(?P<value>[^;]*?)\s*;?\s*", re.IGNORECASE)


def named_for_reading(original: Any) -> Any:
    """Wrap a method of a session, a reader or a catalog whose first argument is a table to read."""

    @wraps(original)
    def reading(self: Any, *given: Any, **options: Any) -> Any:
        notebook = notebook_for(_session_of(self))
        name, others, options = with_first(given, options)
        return original(self, name if notebook is None else _read(notebook, name), *others, **options)

    return reading


def named_schema(original: Any) -> Any:
    """Wrap a method of a catalog whose first argument is a schema."""

    @wraps(original)
    def naming(self: Any, name: str | None = None, *arguments: Any, **options: Any) -> Any:
        notebook = notebook_for(_session_of(self))
        if notebook is not None and name is not None:
            name = split_name(notebook.names.schema_text(name))[0]
        return original(self, *(() if name is None else (name,)), *arguments, **options)

    return naming


def using_schema(original: Any) -> Any:
    """Wrap ``setCurrentDatabase`` of a catalog."""

    @wraps(original)
    def using(self: Any, dbName: str) -> Any:  # noqa: N803 - Spark's name
        notebook = notebook_for(_session_of(self))
        return original(self, dbName) if notebook is None else notebook.names.use_schema(dbName)

    return using


def using_catalog(original: Any) -> Any:
    """Wrap ``setCurrentCatalog`` of a catalog."""

    @wraps(original)
    def using(self: Any, catalogName: str) -> Any:  # noqa: N803 - Spark's name
        notebook = notebook_for(_session_of(self))
        return original(self, catalogName) if notebook is None else notebook.names.use(catalog=catalogName)

    return using


def running(original: Any) -> Any:
    """Wrap ``sql`` of a session."""

    @wraps(original)
    def run(self: Any, sqlQuery: str, *arguments: Any, **options: Any) -> Any:  # noqa: N803 - Spark's name
        notebook = notebook_for(self)
        if notebook is None:
            return original(self, sqlQuery, *arguments, **options)
        try:
            with allowing_vendor_properties(notebook, sqlQuery):
                return original(self, _prepared(notebook, sqlQuery), *arguments, **options)
        except AnalysisException as error:
            _check_found(notebook, error)
            raise

    return run


def _session_of(owner: Any) -> Any:
    return getattr(owner, "_spark", None) or getattr(owner, "_sparkSession", None) or owner


def _read(notebook: NotebookSession, name: str) -> str:
    return notebook.paths.map_statement(notebook.names.resolve_for_read(name))


def _check_found(notebook: NotebookSession, error: AnalysisException) -> None:
    """Raise "table not found" for a three-part name, for which Spark's own error is about catalogs.

    Raises:
        AnalysisException: Spark's own for a table that does not exist.
    """
    if (error.getCondition() or "").startswith("REQUIRES_SINGLE_PART_NAMESPACE"):
        name = (error.getMessageParameters() or {}).get("identifier", "")
        if len(split_name(name)) == 3:
            notebook.session.table(notebook.names.resolve_for_read(name))


def _prepared(notebook: NotebookSession, text: str) -> str:
    """The statement for Spark that a statement of the script becomes."""
    text = with_system_tables(notebook, text)
    lexed = lex(text)
    if lexed.unclosed is not None:
        return text
    tokens = lexed.tokens
    target = target_of(tokens)
    if target.kind is TargetKind.PIPELINE:
        raise PipelineError("SCRIPT.PIPELINE_STATEMENT", what=" ".join(token.text.upper() for token in tokens[:3]))
    if target.verb == "SET" and (pair := _SET.fullmatch(text)) is not None:
        apply(notebook, pair["key"], pair["value"].strip(), notebook.session.conf.set)
        return f"SET {pair['key']}"
    if target.kind is TargetKind.CATALOG:
        return _of_catalog(notebook, target, tokens)
    if target.kind is TargetKind.SCHEMA:
        return _of_schema(notebook, text, target, tokens)
    if target.kind is TargetKind.TABLE:
        begin, end = tokens[target.begin].start, tokens[target.end - 1].end
        resolved = _resolved_target(notebook, target, target.name(tokens))
        rest = notebook.names.resolve_query(text[end:])
        if target.verb == "OPTIMIZE":
            rest = _with_columns_quoted(rest)
        before = text[:begin]
        if tokens[0].is_word("WITH", "FROM"):
            before = notebook.names.resolve_query(before)
        text = before + resolved + rest
    else:
        text = notebook.names.resolve_query(text)
    return notebook.paths.map_statement(text)


def _with_columns_quoted(text: str) -> str:
    """The text after the table in OPTIMIZE, with quoted ZORDER BY columns: Delta refuses a bare ``timestamp``."""
    tokens = lex(text).tokens
    begin = next((at for at, token in enumerate(tokens) if token.is_word("ZORDER")), len(tokens))
    pieces, position = [], 0
    for token in tokens[begin + 2 :]:
        if token.kind is Kind.WORD:
            pieces += [text[position : token.start], f"`{token.text}`"]
            position = token.end
    return "".join((*pieces, text[position:]))


def _resolved_target(notebook: NotebookSession, target: Target, name: str) -> str:
    temporary = bool(target.modifiers & {"TEMP", "TEMPORARY", "GLOBAL"})
    if temporary:
        return name
    return notebook.names.resolve_for_write(name) if target.writes else notebook.names.resolve_for_read(name)


def _of_catalog(notebook: NotebookSession, target: Target, tokens: tuple[Token, ...]) -> str:
    token = tokens[target.begin]
    name = unquoted(token) if token.text[:1] in "'\"" else split_name(token.text)[0]
    if target.verb == "USE":
        notebook.names.use(catalog=name)
    # A catalog exists once one of its schemas does.
    return f"SELECT {sql_text(name)} AS catalog"


def _of_schema(notebook: NotebookSession, text: str, target: Target, tokens: tuple[Token, ...]) -> str:
    name = target.name(tokens)
    schema = notebook.names.schema_text(name)
    if target.verb == "USE":
        notebook.names.use_schema(name)
        return f"USE {schema}"
    if target.verb == "CREATE" and notebook.names.make_schema(name):
        return f"SELECT {sql_text(name)} AS schema"
    if target.verb == "DROP":
        notebook.names.unregister_schema(name)
    begin, end = tokens[target.begin].start, tokens[target.end - 1].end
    return text[:begin] + schema + text[end:]
