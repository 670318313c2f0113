"""Enforces NOT NULL columns of a table that each refresh replaces, because the replacing write makes them nullable."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.model.names import quoted


def reject_nulls(rows: DataFrame, columns: tuple[str, ...], table: str) -> DataFrame:
    """The same rows; computing them fails at the first row with NULL in one of the columns."""
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
