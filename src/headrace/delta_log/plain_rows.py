"""Results of delta-rs as Python values. Without pyarrow, whose import takes longer than most of these queries."""

from __future__ import annotations

from typing import Any

from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError


def plain_rows(table: DeltaTable, name: str, query: str) -> list[dict[str, Any]]:
    """The rows of a query over a table that it calls *name*.

    Columns are texts, numbers, and structs and lists of them. For other types, use
    :func:`headrace.delta_log.tables.query_rows`.

    Raises:
        DeltaError: the query is wrong, or a file cannot be read.
    """
    stream = QueryBuilder().register(name, table).execute(query)
    try:
        found = stream.read_all()
    except Exception as error:
        # A stream of Arrow's has no other type of error.
        raise DeltaError(str(error)) from error
    return [row for chunk in found.to_struct_array().chunks for row in chunk.to_pylist()]


def file_values(table: DeltaTable, column: str) -> list[Any]:
    """A value of each file of a table by its log, such as ``num_records`` or ``min.id``; None where it has none."""
    files: Any = table.get_add_actions(flatten=True)
    if column not in files.column_names:
        return [None] * files.num_rows
    return list(files.column(column).to_pylist())
