"""Registers an existing Delta table in the session's catalog as a managed table."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from headrace.graph.session_names import SessionName

# The position of a table's format among its parameters; the later ones have defaults.
_PROVIDER = 5
_KIND = 1


def register_managed(session: SparkSession, name: SessionName, path: str, *, managed: bool) -> None:
    """Register the table at *path*; its columns and properties are those in its log.

    Args:
        session: the session of the catalog.
        name: the name of the table.
        path: the path of the table.
        managed: whether DROP TABLE also deletes the rows.
    """
    jvm: Any = session._jvm  # noqa: SLF001 - SQL's CREATE TABLE accepts no location for a managed table
    catalyst = jvm.org.apache.spark.sql.catalyst
    kinds = catalyst.catalog.CatalogTableType
    option = jvm.scala.Option.apply
    empty = catalyst.catalog.CatalogStorageFormat.empty()
    rest = [empty.productElement(part) for part in range(1, empty.productArity())]
    location = catalyst.catalog.CatalogStorageFormat(
        option(jvm.org.apache.hadoop.fs.Path(f"file:{path}").toUri()), *rest
    )
    table = catalyst.catalog.CatalogTable
    count = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.catalog.CatalogTable").getConstructors()
    defaults = [
        getattr(table, f"apply$default${part}")() for part in range(_PROVIDER + 1, count[0].getParameterCount() + 1)
    ]
    made = table(
        catalyst.TableIdentifier(name.table, option(name.database)),
        kinds.MANAGED() if managed else kinds.EXTERNAL(),
        location,
        # The columns of a Delta table are in its log.
        jvm.org.apache.spark.sql.types.StructType(),
        option("delta"),
        *defaults,
    )
    catalog: Any = session._jsparkSession.sessionState().catalog()  # noqa: SLF001 - the same
    catalog.createTable(made, True, False)  # noqa: FBT003 - Java's


def unregister(session: SparkSession, name: SessionName) -> None:
    """Remove a table from the session's catalog without deleting its rows."""
    jvm: Any = session._jvm  # noqa: SLF001 - as above
    catalyst = jvm.org.apache.spark.sql.catalyst
    catalog: Any = session._jsparkSession.sessionState().catalog()  # noqa: SLF001 - the same
    identifier = catalyst.TableIdentifier(name.table, jvm.scala.Option.apply(name.database))
    table = catalog.getTableMetadata(identifier)
    parts = [table.productElement(part) for part in range(table.productArity())]
    parts[_KIND] = catalyst.catalog.CatalogTableType.EXTERNAL()
    catalog.alterTable(catalyst.catalog.CatalogTable(*parts))
    catalog.dropTable(identifier, True, False)  # noqa: FBT003 - Java's


def tables_below(session: SparkSession, root: str) -> tuple[SessionName, ...]:
    """The tables of the session's catalog that are in schemas below a folder."""
    catalog: Any = session._jsparkSession.sessionState().catalog()  # noqa: SLF001 - the same
    schemas, found = catalog.listDatabases(), []
    for schema in (str(schemas.apply(number)) for number in range(schemas.length())):
        location = str(catalog.getDatabaseMetadata(schema).locationUri()).removeprefix("file:")
        if not location.startswith(f"{root}/"):
            continue
        tables = catalog.listTables(schema)
        names = [tables.apply(number) for number in range(tables.length())]
        found += [SessionName(schema, str(name.table())) for name in names if name.database().isDefined()]
    return tuple(found)
