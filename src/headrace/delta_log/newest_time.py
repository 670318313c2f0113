"""The newest time in a column of a table, from the statistics in its log: no file is read."""

from __future__ import annotations

import re

from deltalake import DeltaTable

# With column mapping, Delta's statistics use other column names.
_RENAMES = re.compile("name|id", re.IGNORECASE)


class StatisticsLacking(Exception):
    """The statistics do not know: only a query does."""


def newest_time_micros(table: DeltaTable, column: str) -> int | None:
    """The greatest time in a column, in microseconds since 1970 with a precision of milliseconds; None without times.

    Args:
        table: the table.
        column: its name, in any case.

    Raises:
        StatisticsLacking: a file has no statistics of the column, or they have other names.
    """
    import pyarrow as pa  # noqa: PLC0415 - takes longer than the rest of a scrape, and few tables need it
    import pyarrow.compute as pc  # noqa: PLC0415 - the same

    files = pa.table(table.get_add_actions(flatten=True))
    if not files.num_rows:
        return None
    # Statistics use the table's spelling of names.
    column = next((field.name for field in table.schema().fields if field.name.casefold() == column.casefold()), column)
    greatest, missing = f"max.{column}", f"null_count.{column}"
    renames = _RENAMES.fullmatch(table.metadata().configuration.get("delta.columnMapping.mode", "") or "")
    if "." in column or renames or not {greatest, missing, "num_records"} <= set(files.column_names):
        raise StatisticsLacking
    complete = pc.or_kleene(pc.is_valid(files[greatest]), pc.equal(files[missing], files["num_records"]))
    if not pc.all(complete, skip_nulls=False).as_py():
        raise StatisticsLacking
    found: int | None = pc.max(files[greatest].cast(pa.timestamp("us", "UTC")).cast(pa.int64())).as_py()
    return found
