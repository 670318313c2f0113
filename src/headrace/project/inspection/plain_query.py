"""Answers simple queries from the files of a table, without a JVM: the result is the one that Spark would return."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from deltalake import DeltaTable

from headrace.delta_log.select_rows import INTEGERS, count_where, delta_identifier, plain_column_types, select_rows
from headrace.delta_log.tables import open_table, sql_literal
from headrace.errors import PipelineError
from headrace.model.names import InvalidName, QualifiedName
from headrace.model.rows import Rows
from headrace.project.inspection.private_tables import hidden_tables, quarantined_dataset
from headrace.settings.settings import Settings
from headrace.spark.session.existing_session import existing_session
from headrace.sql.plain_select import Comparison, Condition, PlainSelect, date_of, plain_select
from headrace.storage.inventory import stored_tables
from headrace.storage.view_definitions import view_files

# Settings of Spark under which these queries mean the same; with others, they are for Spark.
_HARMLESS = frozenset(("spark.sql.shuffle.partitions", "spark.sql.session.timeZone"))
_PREFIXES = ("spark.sql.", "spark.driver.maxResultSize", "spark.hadoop.")
# Variables by which Spark receives settings that are not the project's.
_VARIABLES = ("SPARK_CONF_DIR", "SPARK_HOME", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "JAVA_TOOL_OPTIONS")
_EQUALITY = (Comparison.EQUAL, Comparison.NOT_EQUAL)


def rows_without_session(
    query: str,
    settings: Settings,
    environ: Mapping[str, str],
    other: Collection[QualifiedName],
    *,
    private: bool,
    limit: int | None,
) -> Rows | None:
    """What :func:`plain_query_rows` returns while no session is open; None once one is open.

    It answers as fast, and its program may have changed its settings.
    """
    if existing_session() is not None:
        return None
    return plain_query_rows(query, settings, environ, other, private=private, limit=limit)


def plain_query_rows(
    query: str,
    settings: Settings,
    environ: Mapping[str, str],
    other: Collection[QualifiedName],
    *,
    private: bool,
    limit: int | None,
) -> Rows | None:
    """The rows of a query over one table of the storage; None if they are for Spark, as all errors are.

    Args:
        query: one statement.
        settings: the pipeline's.
        environ: the environment variables.
        other: names that are not those of tables in the storage.
        private: include private tables.
        limit: the maximum number of rows, beside that of the query; None for all.
    """
    select = plain_select(query)
    if select is None or not has_plain_semantics(settings, environ):
        return None
    path = _stored_table(select, settings, other, private=private)
    return None if path is None else _table_rows(select, path, limit)


def has_plain_semantics(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Whether no setting changes what simple queries return."""
    keys = {*settings.spark_conf, *settings.configuration} - _HARMLESS
    return not any(key.startswith(_PREFIXES) for key in keys) and not any(map(environ.get, _VARIABLES))


def _stored_table(
    select: PlainSelect, settings: Settings, other: Collection[QualifiedName], *, private: bool
) -> str | None:
    """The path of a query's table."""
    try:
        name = settings.naming.canonical(select.table)
    except InvalidName:
        return None
    if name in other or any(view == name for view, _ in view_files(settings.layout, settings.naming)):
        return None
    tables = dict(stored_tables(settings.layout, settings.naming))
    concerned = {key: tables[key] for key in (name, quarantined_dataset(name)) if key is not None and key in tables}
    return None if not private and hidden_tables(concerned) else concerned.get(name)


def _table_rows(select: PlainSelect, path: str, limit: int | None) -> Rows | None:
    try:
        table = open_table(path)
    except PipelineError:
        return None
    types = None if table is None else plain_column_types(table)
    condition = None if types is None else _condition(select, types)
    if table is None or types is None or condition is None:
        return None
    limits = [found for found in (select.limit, limit) if found is not None]
    most = min(limits) if limits else None
    return _counts(table, select, condition, most) if select.counts else _rows(table, select, types, condition, most)


def _counts(table: DeltaTable, select: PlainSelect, condition: str, limit: int | None) -> Rows | None:
    found = count_where(table, condition)
    if found is None:
        return None
    row = tuple(found for _ in select.outputs)
    return Rows(tuple(output.name for output in select.outputs), () if limit == 0 else (row,))


def _rows(
    table: DeltaTable, select: PlainSelect, types: Mapping[str, str], condition: str, limit: int | None
) -> Rows | None:
    wanted = [(output.column or "", output.name) for output in select.outputs] or [(name, name) for name in types]
    columns = [_spelled(column, types) for column, _ in wanted]
    if not all(column is not None and types[column] for column in columns):
        return None
    distinct = list(dict.fromkeys(column for column in columns if column is not None))
    found = select_rows(table, distinct, condition, limit)
    if found is None:
        return None
    places = [distinct.index(column) for column in columns if column is not None]
    return Rows(tuple(name for _, name in wanted), tuple(tuple(row[place] for place in places) for row in found))


def _condition(select: PlainSelect, types: Mapping[str, str]) -> str | None:
    """The conditions in the SQL of delta-rs; None if one of them is for Spark."""
    parts = [_comparison(condition, types) for condition in select.conditions]
    found = [part for part in parts if part is not None]
    return " AND ".join(found) if len(found) == len(parts) else None


def _comparison(condition: Condition, types: Mapping[str, str]) -> str | None:
    column = _spelled(condition.column, types)
    kind = "" if column is None else types[column]
    if column is None or not kind:
        return None
    name, comparison = delta_identifier(column), condition.comparison
    if comparison in (Comparison.IS_NULL, Comparison.IS_NOT_NULL):
        return f"{name} {comparison.value}"
    literal = _literal(condition, kind)
    return None if literal is None else f"{name} {comparison.value} {literal}"


def _literal(condition: Condition, kind: str) -> str | None:
    """The literal in the SQL of delta-rs; None where Spark would convert one of the two values."""
    literal = condition.literal
    if isinstance(literal, bool):
        return str(literal).lower() if kind == "boolean" and condition.comparison in _EQUALITY else None
    if isinstance(literal, int):
        return str(literal) if kind in INTEGERS else None
    if literal is None or kind not in ("string", "date"):
        return None
    if kind == "string":
        return sql_literal(literal)
    day = date_of(literal)
    return None if day is None else f"DATE '{day.isoformat()}'"


def _spelled(name: str, types: Mapping[str, str]) -> str | None:
    """The column of a name in any case, as the table spells it; None if there is not exactly one."""
    found = [column for column in types if column.casefold() == name.casefold()]
    return found[0] if len(found) == 1 else None
