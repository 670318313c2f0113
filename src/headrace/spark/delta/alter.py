"""Changes of existing tables that do not touch their rows. A *table* is given as quoted SQL."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from headrace.model.names import quoted, sql_text
from headrace.model.schema import Schema
from headrace.model.type_changes import FieldChange
from headrace.spark.delta.tables import empty_frame


def describe_table(
    session: SparkSession,
    table: str,
    properties: Iterable[tuple[str, str]],
    comment: str | None = None,
    column_comments: Iterable[tuple[str, str]] = (),
) -> None:
    """Set properties, the table comment and column comments."""
    listed = ", ".join(f"{sql_text(key)} = {sql_text(value)}" for key, value in properties)
    if listed:
        session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({listed})")
    if comment is not None:
        session.sql(f"COMMENT ON TABLE {table} IS {sql_text(comment)}")
    for column, text in column_comments:
        session.sql(f"ALTER TABLE {table} ALTER COLUMN {quoted(column)} COMMENT {sql_text(text)}")


def change_columns(session: SparkSession, table: str, widened: Iterable[FieldChange], relaxed: Iterable[str]) -> None:
    """Widen the types of columns, and make others nullable."""
    for field in widened:
        # The type is an atomic type that Delta can widen to, never user input.
        session.sql(f"ALTER TABLE {table} ALTER COLUMN {quoted(*field.path)} TYPE {field.after}")
    for column in relaxed:
        session.sql(f"ALTER TABLE {table} ALTER COLUMN {quoted(column)} DROP NOT NULL")


def add_columns(session: SparkSession, path: str, schema: Schema) -> None:
    """Add the columns that *schema* has and the table at *path* lacks, as nullable columns behind the others."""
    empty = empty_frame(session, schema.nullable)
    empty.write.format("delta").mode("append").option("mergeSchema", "true").save(path)


def cluster_table(session: SparkSession, table: str, columns: Iterable[str]) -> None:
    """Set the clustering columns for future writes; no columns turn clustering off."""
    listed = ", ".join(quoted(*column.split(".")) for column in columns)
    by = f"({listed})" if listed else "NONE"
    session.sql(f"ALTER TABLE {table} CLUSTER BY {by}")
