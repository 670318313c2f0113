"""Finds tables in the session's catalog, and removes managed ones without their rows."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from headrace.graph.session_names import SessionName
from headrace.spark.session.catalog_tables import session_catalog, table_identifier

# The position of a table's kind among its parameters.
_KIND = 1


def unregister(session: SparkSession, name: SessionName) -> None:
    """Remove a table from the session's catalog without deleting its rows."""
    jvm: Any = session._jvm  # noqa: SLF001 - SQL's DROP TABLE deletes the rows
    catalyst = jvm.org.apache.spark.sql.catalyst
    catalog, identifier = session_catalog(session), table_identifier(session, name)
    table = catalog.getTableMetadata(identifier)
    parts = [table.productElement(part) for part in range(table.productArity())]
    parts[_KIND] = catalyst.catalog.CatalogTableType.EXTERNAL()
    catalog.alterTable(catalyst.catalog.CatalogTable(*parts))
    catalog.dropTable(identifier, True, False)  # noqa: FBT003 - Java's


def tables_below(session: SparkSession, root: str) -> tuple[SessionName, ...]:
    """The tables of the session's catalog that are in schemas below a folder."""
    catalog = session_catalog(session)
    schemas, found = catalog.listDatabases(), []
    for schema in (str(schemas.apply(number)) for number in range(schemas.length())):
        location = str(catalog.getDatabaseMetadata(schema).locationUri()).removeprefix("file:")
        if not location.startswith(f"{root}/"):
            continue
        tables = catalog.listTables(schema)
        names = [tables.apply(number) for number in range(tables.length())]
        found += [SessionName(schema, str(name.table())) for name in names if name.database().isDefined()]
    return tuple(found)
