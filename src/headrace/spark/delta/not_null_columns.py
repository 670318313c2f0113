"""Columns that are declared NOT NULL in a table that each computation replaces: Delta makes them nullable with that."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.model.names import quoted


def with_values(rows: DataFrame, columns: tuple[str, ...], table: str) -> DataFrame:
    """The same rows; computing them fails at the first one that has NULL in one of the columns."""
    required = {name.casefold() for name in columns}
    if not required:
        return rows
    found = []
    for field in rows.schema.fields:
        value = F.col(quoted(field.name))
        if field.name.casefold() in required:
            message = f'column "{field.name}" of "{table}" is declared NOT NULL, and a row has no value in it'
            missing = F.raise_error(F.lit(message)).cast(field.dataType)
            value = F.when(value.isNull(), missing).otherwise(value).alias(field.name, metadata=field.metadata)
        found.append(value)
    return rows.select(*found)
