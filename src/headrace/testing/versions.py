"""Shows the history of one key as readable text."""

from __future__ import annotations

from typing import Any

from headrace.cdc.scd_spec import END_AT, START_AT, SYSTEM_END_AT, SYSTEM_START_AT
from headrace.testing.rows import Row, rows_of, sort_key


def history(rows: Any, **key: Any) -> str:
    """The versions of one key in an SCD type 2 table, in order, as text to print or compare.

    The first version after a gap shows all columns, the others show the changed ones.

    Args:
        rows: the rows of the table, a DataFrame or dictionaries, such as ``pipeline.rows("users")``.
        key: the values of the key columns.

    Raises:
        ValueError: the rows have no such column, are not from an SCD type 2 table, or are bitemporal.
    """
    every = rows_of(rows)
    for row in every[:1]:
        _check(row, key)
    own = [row for row in every if all(row[name] == value for name, value in key.items())]
    lines = [", ".join(f"{name}={value!r}" for name, value in key.items())]
    before: Row = {}
    exists = False
    last_end: Any = None
    for row in sorted(own, key=lambda row: sort_key({START_AT: row.get(START_AT)})):
        start, end = row.get(START_AT), row.get(END_AT)
        if exists and start != last_end:
            lines.append(f"  {last_end!r} to {start!r}: no row")
            before = {}
        values = {name: value for name, value in row.items() if name not in (*key, START_AT, END_AT)}
        changed = {name: value for name, value in values.items() if name not in before or before[name] != value}
        cells = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        span = f"from {start!r}" if end is None else f"{start!r} to {end!r}"
        lines.append(f"  {span}: {cells or 'as before'}")
        before, last_end, exists = values, end, True
    if not own:
        lines.append("  never a row")
    elif last_end is not None:
        lines.append(f"  from {last_end!r}: no row")
    return "\n".join(lines)


def _check(row: Row, key: Row) -> None:
    if unknown := [name for name in key if name not in row]:
        raise ValueError(f"no column {', '.join(unknown)}; there are {', '.join(row)}")
    if START_AT not in row or END_AT not in row:
        raise ValueError(f"rows of SCD type 2 have {START_AT} and {END_AT}; there are {', '.join(row)}")
    if SYSTEM_START_AT in row:
        raise ValueError(
            f"the rows have two times; filter them by one of {SYSTEM_START_AT} and {SYSTEM_END_AT}, and leave both out"
        )
