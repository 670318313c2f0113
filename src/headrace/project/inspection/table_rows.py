"""The first rows of a table without a JVM, as the query that ``headrace sql`` would answer; or why that needs Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltalake import DeltaTable

from headrace.delta_log.select_rows import INTEGERS, plain_column_types, unread_features
from headrace.delta_log.tables import open_table, table_size
from headrace.errors import PipelineError
from headrace.model.names import QualifiedName, quoted, sql_text
from headrace.model.rows import Rows
from headrace.model.schema import type_text
from headrace.options.nearest import did_you_mean
from headrace.project.inspection.log_names import log_names
from headrace.project.inspection.plain_query import has_plain_semantics, plain_query_rows
from headrace.project.inspection.private_tables import hidden_tables
from headrace.settings.settings import Settings
from headrace.sql.plain_select import Comparison, date_of, plain_select

# A filter may have to read the whole table.
MOST_FILTERED_BYTES = 256 * 1024 * 1024
_SPARK_SETTINGS = (
    "Settings of Spark in this project, or in the environment of this process, may change what it returns."
)
_PRIVATE = "The table is private."
_FOR_SPARK = (
    "It has a value that only Spark knows how to read, such as a date before 1900, or a file of it cannot be read."
)
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_ODD_NAME = "Its name has characters that other readers may read differently."
_ODD_VALUE = "The value, or the name of the table, has characters that other readers may read differently."
# The types of columns that are compared with a literal here.
_COMPARED = INTEGERS | {"boolean", "string", "date"}
_OF_NULL = (Comparison.IS_NULL, Comparison.IS_NOT_NULL)
_EQUALITY = (Comparison.EQUAL, Comparison.NOT_EQUAL)


@dataclass(frozen=True)
class RowFilter:
    """A comparison of a column with a value as a text; the value means nothing to IS NULL and IS NOT NULL."""

    column: str
    comparison: Comparison = Comparison.EQUAL
    value: str = ""


@dataclass(frozen=True)
class RowsRequest:
    """Which rows of a table to read.

    Attributes:
        columns: names of columns, in any case; a text may have several, with commas between them. Empty for all that
            can be read.
        where: what each row must meet; None for all rows.
        limit: the maximum number of rows.
    """

    columns: tuple[str, ...] = ()
    where: RowFilter | None = None
    limit: int = 20


@dataclass(frozen=True)
class OmittedColumn:
    """A column that only Spark reads, with its type and the reason."""

    name: str
    type: str
    reason: str


@dataclass(frozen=True)
class TableRows:
    """Rows of a table.

    Attributes:
        query: what ``headrace sql`` answers in any case, with all columns that were requested.
        rows: the rows, or None if only Spark can read them.
        has_more: whether there are more of them.
        omitted: columns of the table that are not in the rows although no column was chosen.
        reason: why there are no rows.
        is_private: the query needs ``--private``.
    """

    query: str
    rows: Rows | None = None
    has_more: bool = False
    omitted: tuple[OmittedColumn, ...] = ()
    reason: str = ""
    is_private: bool = False

    @property
    def command(self) -> tuple[str, ...]:
        """The command that returns the rows, with Spark if necessary."""
        return ("headrace", "sql", *(("--private",) if self.is_private else ()), self.query)


class _NeedsSparkError(Exception):
    """Why the rows cannot be read here."""


def table_rows(
    settings: Settings, environ: Mapping[str, str], name: QualifiedName, path: str, request: RowsRequest
) -> TableRows:
    """Rows of the newest version of a table, or why they need Spark.

    Args:
        settings: the pipeline's.
        environ: the environment variables.
        name: of the table.
        path: where it is.
        request: which rows.

    Raises:
        PipelineError: ROWS.NO_TABLE, ROWS.NO_COLUMN, ROWS.VALUE; STORAGE.TABLE_UNREADABLE, STORAGE.EMPTY_COMMIT.
    """
    table = open_table(path)
    if table is None:
        raise PipelineError("ROWS.NO_TABLE", name=name)
    fields = {field["name"]: field["type"] for field in json.loads(table.schema().to_json())["fields"]}
    requested = _chosen(name, request.columns, [*fields])
    where = "" if request.where is None else _where(name, request.where, fields)
    query = _query(name, requested, where, request.limit)
    if hidden_tables({name: path}):
        return TableRows(query, reason=_PRIVATE, is_private=True)
    try:
        types = _types(table, settings, environ)
        partitions = set(table.metadata().partition_columns)
        reasons = {column: _reason(name, column, types, is_partition=column in partitions) for column in fields}
        chosen = requested or [column for column in fields if not reasons[column]]
        _check_columns(chosen, reasons)
        if request.where is not None:
            _check_filter(table, request.where, types, reasons)
        asked = _query(name, chosen, where, request.limit + 1)
        _check_text(asked)
    except _NeedsSparkError as error:
        return TableRows(query, reason=str(error))
    found = plain_query_rows(asked, settings, environ, log_names(settings), private=False, limit=None)
    if found is None:
        return TableRows(query, reason=_FOR_SPARK)
    omitted = tuple(
        OmittedColumn(column, type_text(fields[column]), reason) for column, reason in reasons.items() if reason
    )
    rows = Rows(found.columns, found.rows[: request.limit])
    return TableRows(query, rows, len(found.rows) > request.limit, () if requested else omitted)


def _chosen(name: QualifiedName, texts: Sequence[str], columns: Sequence[str]) -> list[str]:
    known = {column.casefold(): column for column in columns}
    # The name of a column may have a comma.
    parts = [
        part
        for text in texts
        for part in ([text] if text.casefold() in known else [one.strip() for one in text.split(",")])
        if part
    ]
    return list(dict.fromkeys(_column(name, part, known) for part in parts))


def _column(name: QualifiedName, text: str, known: Mapping[str, str]) -> str:
    if text.casefold() not in known:
        suggestion = did_you_mean(text, [*known.values()]).replace("The pipeline defines", "It has")
        raise PipelineError("ROWS.NO_COLUMN", name=name, column=text, suggestion=suggestion)
    return known[text.casefold()]


def _types(table: DeltaTable, settings: Settings, environ: Mapping[str, str]) -> Mapping[str, str]:
    if not has_plain_semantics(settings, environ):
        raise _NeedsSparkError(_SPARK_SETTINGS)
    types = plain_column_types(table)
    if types is None:
        features = ", ".join(unread_features(table))
        raise _NeedsSparkError(f"The table has features that only Spark is known to read: {features}.")
    return types


def _reason(name: QualifiedName, column: str, types: Mapping[str, str], *, is_partition: bool) -> str:
    """Why a column needs Spark; empty if it does not."""
    if [one.casefold() for one in types].count(column.casefold()) > 1:
        return "Another column has the same name in other letters."
    if not types[column]:
        return "It is a partition column." if is_partition else "Only Spark is known to read its type."
    select = plain_select(_query(name, [column], "", 1))
    is_read = select is not None and [one.column for one in select.outputs] == [column]
    return "" if is_read else _ODD_NAME


def _check_columns(used: Sequence[str], reasons: Mapping[str, str]) -> None:
    if not used:
        raise _NeedsSparkError("It has no column that can be read without Spark.")
    for column in used:
        if reasons[column]:
            raise _NeedsSparkError(f'The column "{column}" needs Spark. {reasons[column]}')


def _check_filter(table: DeltaTable, where: RowFilter, types: Mapping[str, str], reasons: Mapping[str, str]) -> None:
    (column,) = [one for one in types if one.casefold() == where.column.casefold()][:1]
    _check_columns([column], reasons)
    kind = types[column]
    is_compared = kind in _COMPARED and (kind != "boolean" or where.comparison in _EQUALITY)
    if where.comparison not in _OF_NULL and not is_compared:
        raise _NeedsSparkError(f'"{where.comparison.value}" with the column "{column}" of type {kind} needs Spark.')
    if table_size(table) > MOST_FILTERED_BYTES:
        most = f"{MOST_FILTERED_BYTES >> 20} MiB"
        raise _NeedsSparkError(f"The table is larger than {most}, and a filter may have to read all of it.")


def _check_text(query: str) -> None:
    if plain_select(query) is None:
        raise _NeedsSparkError(_ODD_VALUE)


def _query(name: QualifiedName, columns: Sequence[str], where: str, limit: int) -> str:
    """The statement in the SQL of Spark."""
    outputs = ", ".join(map(quoted, columns)) or "*"
    condition = f" WHERE {where}" if where else ""
    return f"SELECT {outputs} FROM {quoted(*name.parts)}{condition} LIMIT {limit}"  # noqa: S608 - of quoted names


def _where(name: QualifiedName, where: RowFilter, fields: Mapping[str, object]) -> str:
    """The condition in the SQL of Spark."""
    column = _column(name, where.column, {one.casefold(): one for one in fields})
    if where.comparison in _OF_NULL:
        return f"{quoted(column)} {where.comparison.value}"
    return f"{quoted(column)} {where.comparison.value} {_literal(column, where.value, fields[column])}"


def _literal(column: str, value: str, kind: object) -> str:
    """A value as a literal of Spark's that has the type of the column."""
    text = value.strip()
    match kind:
        case "byte" | "short" | "integer" | "long" if _INTEGER.fullmatch(text):
            return text
        case "boolean" if text.casefold() in ("true", "false"):
            return text.casefold()
        case "date" if date_of(text) is not None:
            return sql_text(text)
        case "byte" | "short" | "integer" | "long" | "boolean" | "date":
            raise PipelineError("ROWS.VALUE", column=column, type=type_text(kind), value=value)
        case "string":
            return sql_text(value)
        case _:
            return f"CAST({sql_text(text)} AS {type_text(kind).upper()})"
