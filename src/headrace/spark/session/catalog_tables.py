"""Entries of existing tables in the session's catalog, added and removed without SQL.

``Catalog.createTable`` and ``DROP TABLE`` do the same, but also plan a command and open the table. In an update of two
small tables, that was a tenth of the work of the Java process.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from headrace.graph.session_names import SessionName

# The positions of what differs between tables among the parameters of a table.
_IDENTIFIER, _KIND, _STORAGE, _PROVIDER = 0, 1, 2, 4
_CATALOG_TABLE = "org.apache.spark.sql.catalyst.catalog.CatalogTable"
# The parameters of an empty storage and of a Delta table, by application: each of them is a call of Java.
_MODELS: dict[str, tuple[list[Any], list[Any]]] = {}


def add_table(
    session: SparkSession, name: SessionName, path: str, *, managed: bool = False, keeps_existing: bool = False
) -> None:
    """Add an existing Delta table to the catalog; its columns and properties are those in its log, which is not read.

    Args:
        session: the session of the catalog.
        name: the name of the table.
        path: the path or URI of the table.
        managed: whether DROP TABLE also deletes the rows.
        keeps_existing: whether a table that has the name stays; otherwise, it is an error.
    """
    jvm: Any = session._jvm  # noqa: SLF001 - SQL's CREATE TABLE opens the table and accepts no location if it is managed
    catalyst = jvm.org.apache.spark.sql.catalyst
    storage, table = (list(parts) for parts in _models(session))
    storage[0] = jvm.scala.Option.apply(jvm.org.apache.hadoop.fs.Path(path).toUri())
    kinds = catalyst.catalog.CatalogTableType
    table[_IDENTIFIER] = table_identifier(session, name)
    table[_KIND] = kinds.MANAGED() if managed else kinds.EXTERNAL()
    table[_STORAGE] = catalyst.catalog.CatalogStorageFormat(*storage)
    made = catalyst.catalog.CatalogTable(*table)
    session_catalog(session).createTable(made, keeps_existing, False)  # noqa: FBT003 - Java's


def remove_table(session: SparkSession, name: SessionName) -> None:
    """Remove a table from the catalog, as DROP TABLE IF EXISTS does; the rows of an external one stay."""
    java_session: Any = session._jsparkSession  # noqa: SLF001 - Python's session has no form of it
    if not java_session.sharedState().cacheManager().isEmpty():
        # What was cached of the table is dropped with it.
        session.sql(f"DROP TABLE IF EXISTS {name.text}")
        return
    identifier = table_identifier(session, name)
    session_catalog(session).invalidateCachedTable(identifier)
    session_catalog(session).dropTable(identifier, True, False)  # noqa: FBT003 - Java's


def session_catalog(session: SparkSession) -> Any:
    """The session's own catalog, which Python's shows in part."""
    java_session: Any = session._jsparkSession  # noqa: SLF001 - Python's session has no form of it
    return java_session.sessionState().catalog()


def table_identifier(session: SparkSession, name: SessionName) -> Any:
    """A name as Java has it."""
    jvm: Any = session._jvm  # noqa: SLF001 - Scala's, which Python has no form of
    return jvm.org.apache.spark.sql.catalyst.TableIdentifier(name.table, jvm.scala.Option.apply(name.database))


def _models(session: SparkSession) -> tuple[list[Any], list[Any]]:
    """The parameters of an empty storage, and those of an empty Delta table."""
    application = str(session.sparkContext.applicationId)
    if application not in _MODELS:
        jvm: Any = session._jvm  # noqa: SLF001 - the same
        catalog = jvm.org.apache.spark.sql.catalyst.catalog
        empty = catalog.CatalogStorageFormat.empty()
        storage = [empty.productElement(part) for part in range(empty.productArity())]
        (constructor,) = jvm.java.lang.Class.forName(_CATALOG_TABLE).getConstructors()
        # The later parameters have defaults. The columns of a Delta table are in its log.
        defaults = range(_PROVIDER + 2, constructor.getParameterCount() + 1)
        table = [None, None, None, jvm.org.apache.spark.sql.types.StructType(), jvm.scala.Option.apply("delta")]
        table += [getattr(catalog.CatalogTable, f"apply$default${part}")() for part in defaults]
        _MODELS.clear()
        _MODELS[application] = storage, table
    return _MODELS[application]
